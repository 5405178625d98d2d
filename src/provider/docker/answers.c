/*
 * Parses the engine's answers. They are not trusted: a missing or malformed field counts as not
 * set.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "provider/docker/body.h"

static const char *text_at(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static uint64_t number_at(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));
    return n < 0 ? 0 : (uint64_t)n;
}

int atoll_docker_image_parse(const json_t *inspect, struct atoll_docker_image *ret,
                             struct atoll_error *err)
{
    const json_t *config = json_object_get(inspect, "Config");
    const json_t *labels = json_object_get(config, "Labels");
    const char *user = json_object_get(labels, ATOLL_DOCKER_USER)
                           ? text_at(labels, ATOLL_DOCKER_USER)
                           : text_at(config, "User");
    const char *path;
    json_t *unused;

    *ret = (struct atoll_docker_image){0};
    if (atoll_text_copy(ret->id, sizeof(ret->id), text_at(inspect, "Id")) < 0 || !*ret->id ||
        atoll_text_copy(ret->user, sizeof(ret->user), user) < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the image cannot be used: its user's name is too long");
    json_object_foreach(json_object_get(config, "Volumes"), path, unused)
    {
        if (ret->volume_count == ATOLL_DOCKER_VOLUMES_MAX ||
            atoll_text_copy(ret->volumes[ret->volume_count++], sizeof(ret->volumes[0]), path) < 0)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                              "the image cannot be used: it declares too many volumes");
    }
    return 0;
}

static const struct {
    const char *name;
    uint32_t limit;
} needs[] = {{"MemoryLimit", ATOLL_LIMIT_MEMORY},
             {"CpuCfsQuota", ATOLL_LIMIT_CPU},
             {"PidsLimit", ATOLL_LIMIT_PIDS}};

void atoll_docker_info_parse(const json_t *info, struct atoll_docker_info *ret)
{
    const char *storage = text_at(info, "Driver");
    const char *backing = "";
    const json_t *row, *option;
    size_t i;

    *ret = (struct atoll_docker_info){.known = true, .cpus = (unsigned)number_at(info, "NCPU")};
    (void)snprintf(ret->version, sizeof(ret->version), "%.31s", text_at(info, "ServerVersion"));
    (void)snprintf(ret->storage, sizeof(ret->storage), "%.31s", storage);
    for (i = 0; i < ATOLL_ARRAY_LEN(needs); i++)
        if (!json_is_true(json_object_get(info, needs[i].name)))
            ret->missing |= needs[i].limit;
    json_array_foreach(json_object_get(info, "DriverStatus"), i, row)
    {
        const char *key = json_string_value(json_array_get(row, 0));
        const char *value = json_string_value(json_array_get(row, 1));
        if (key && value && strcmp(key, "Backing Filesystem") == 0)
            backing = value;
    }
    json_array_foreach(json_object_get(info, "SecurityOptions"), i, option)
    {
        const char *text = json_string_value(option);
        if (text && (strstr(text, "name=userns") || strstr(text, "name=rootless")))
            ret->shifted = true;
    }
    ret->quota = strcmp(storage, "btrfs") == 0 || strcmp(storage, "zfs") == 0 ||
                 (strcmp(storage, "overlay2") == 0 && strcmp(backing, "xfs") == 0);
}

static void parse_exit(const json_t *state, struct atoll_provider_inspection *ret)
{
    /* An exit status is at most 255. */
    int code = (int)ATOLL_MIN(number_at(state, "ExitCode"), UINT64_C(255));
    bool oom = json_is_true(json_object_get(state, "OOMKilled"));
    const char *error = text_at(state, "Error");

    ret->exit.code = code > 128 && code <= 128 + 64 ? -1 : code;
    ret->exit.signal = ret->exit.code < 0 ? code - 128 : 0;
    ret->exit.oom_kills = oom ? 1 : 0;
    if (*error)
        (void)snprintf(ret->cause, sizeof(ret->cause), "%.199s", error);
    else if (oom)
        (void)snprintf(ret->cause, sizeof(ret->cause), "the container ran out of memory");
    else if (ret->exit.signal)
        (void)snprintf(ret->cause, sizeof(ret->cause),
                       "the container's first process was killed by signal %d", ret->exit.signal);
    else
        (void)snprintf(ret->cause, sizeof(ret->cause),
                       "the container's first process exited with %d", code);
}

void atoll_docker_inspect_parse(const json_t *inspect, struct atoll_provider_inspection *ret)
{
    const json_t *state = json_object_get(inspect, "State");

    *ret = (struct atoll_provider_inspection){.state = ATOLL_INSPECT_ALIVE};
    if (json_is_true(json_object_get(state, "Paused"))) {
        ret->state = ATOLL_INSPECT_PAUSED;
    } else if (!json_is_true(json_object_get(state, "Running"))) {
        ret->state = ATOLL_INSPECT_EXITED;
        parse_exit(state, ret);
    }
}

void atoll_docker_stats_parse(const json_t *stats, struct atoll_provider_stats *ret)
{
    const json_t *memory = json_object_get(stats, "memory_stats");
    const json_t *detail = json_object_get(memory, "stats");
    const json_t *cpu = json_object_get(json_object_get(stats, "cpu_stats"), "cpu_usage");
    uint64_t cache = json_object_get(detail, "total_inactive_file")
                         ? number_at(detail, "total_inactive_file")
                         : number_at(detail, "inactive_file");
    uint64_t usage = number_at(memory, "usage");
    uint64_t limit = number_at(memory, "limit");

    *ret = (struct atoll_provider_stats){
        .memory_bytes = usage - ATOLL_MIN(cache, usage),
        .memory_peak_bytes = number_at(memory, "max_usage"),
        /* A missing limit is reported as a number near the counter's maximum. */
        .memory_limit_bytes = limit < UINT64_C(1) << 60 ? limit : 0,
        .cpu_us = number_at(cpu, "total_usage") / 1000,
        .processes = number_at(json_object_get(stats, "pids_stats"), "current"),
    };
}

bool atoll_docker_entry_id(const json_t *entry, char *out)
{
    const char *name = json_string_value(json_array_get(json_object_get(entry, "Names"), 0));
    static const char prefix[] = "/" ATOLL_DOCKER_NAME;

    return name && strncmp(name, prefix, sizeof(prefix) - 1) == 0 &&
           atoll_text_is_id(name + sizeof(prefix) - 1) &&
           atoll_text_copy(out, ATOLL_ID_LEN + 1, name + sizeof(prefix) - 1) == 0;
}

bool atoll_docker_is_image_name(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._/:@-";

    return *text && *text != '/' && *text != '.' && *text != '-' &&
           strspn(text, allowed) == strlen(text) && !strstr(text, "..") && !strstr(text, "//");
}

int atoll_docker_requested_image(const char *image, char *out)
{
    static const char *const own[] = {"atoll-private", "atoll-template", "atoll-layer"};
    const char *last = strrchr(image, '/');
    const char *digest = strchr(image, '@');
    size_t n;

    last = last ? last + 1 : image;
    n = strcspn(last, ":@");
    if (!atoll_docker_is_image_name(image) || strlen(image) > 255 ||
        (n == 6 && memcmp(last, "sha256", 6) == 0))
        return -EINVAL;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own); i++)
        if (n == strlen(own[i]) && memcmp(last, own[i], n) == 0)
            return -EPERM;
    (void)snprintf(out, 264, "%s%s", image, last[n] || digest ? "" : ":latest");
    return 0;
}

const char *atoll_docker_registry_of(const char *image, char *out)
{
    const char *slash = strchr(image, '/');
    size_t len = slash ? (size_t)(slash - image) : 0;

    /* As in docker: the part before the first slash is a host if it looks like one. */
    if (len == 0 || len > 255 ||
        (!memchr(image, '.', len) && !memchr(image, ':', len) &&
         !(len == 9 && memcmp(image, "localhost", 9) == 0)))
        (void)snprintf(out, 256, "docker.io");
    else
        (void)snprintf(out, 256, "%.*s", (int)len, image);
    return out;
}

static const struct {
    const char *words;
    enum atoll_error_kind kind;
    int errnum;
} pull_failures[] = {
    {"no basic auth credentials", ATOLL_ERR_PERMISSION_DENIED, EACCES},
    {"unauthorized", ATOLL_ERR_PERMISSION_DENIED, EACCES},
    {"authentication required", ATOLL_ERR_PERMISSION_DENIED, EACCES},
    {"denied", ATOLL_ERR_PERMISSION_DENIED, EACCES},
    {"unknown", ATOLL_ERR_NOT_FOUND, ENOENT}, /* manifest, name, blob */
    {"not found", ATOLL_ERR_NOT_FOUND, ENOENT},
    {"dial tcp", ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {"timeout", ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {"Timeout", ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {"EOF", ATOLL_ERR_UNAVAILABLE, EAGAIN},
    {"connection re", ATOLL_ERR_UNAVAILABLE, EAGAIN}, /* "connection refused", "connection reset" */
};

/* "lookup NAME on 10.0.0.2:53: no such host": removes the resolver's address, which clients need
 * not know. */
static void hide_resolver(char *text)
{
    char *at = strstr(text, "lookup "), *end;
    size_t n;

    while (at && (at = strstr(at, " on "))) {
        n = strspn(at + 4, "0123456789abcdefABCDEF.:[]%");
        end = at + 4 + n;
        if (n > 3 && memchr(at + 4, ':', n) && end[-1] == ':' && *end == ' ')
            memmove(at, end - 1, strlen(end - 1) + 1);
        else
            at += 4;
    }
}

void atoll_docker_judge_pull(struct atoll_error *err)
{
    hide_resolver(err->text);
    /* The failure counts as the registry's, not the engine's: an answer is about the registry,
     * and an engine that times out waits for it. */
    err->another = err->kind != ATOLL_ERR_UNAVAILABLE || err->errnum == EAGAIN;
    if (err->kind != ATOLL_ERR_INTERNAL && err->kind != ATOLL_ERR_FAILED_PRECONDITION)
        return;
    err->kind = ATOLL_ERR_FAILED_PRECONDITION;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(pull_failures); i++)
        if (strstr(err->text, pull_failures[i].words)) {
            err->kind = pull_failures[i].kind;
            err->errnum = pull_failures[i].errnum;
            return;
        }
}
