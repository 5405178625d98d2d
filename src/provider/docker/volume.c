/*
 * Mounts: volumes, which belong to a tenant and outlive its sandboxes, and directories of the host
 * that the operator allows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/text.h"
#include "provider/docker/docker_internal.h"

#define PREFIX "atoll-volume-"

static const char *label_of(const json_t *volume, const char *name)
{
    return json_string_value(json_object_get(json_object_get(volume, "Labels"), name));
}

static bool is_of(const struct atoll_docker *d, const json_t *volume, const char *tenant)
{
    const char *daemon = label_of(volume, ATOLL_DOCKER_LABEL);
    const char *owner = label_of(volume, ATOLL_DOCKER_OWNER);

    return daemon && owner && strcmp(daemon, d->daemon_id) == 0 && strcmp(owner, tenant) == 0;
}

/* Finds a volume by its name at the engine, which is a hash: tenant and name joined as text could be
 * ambiguous. One made by an earlier version keeps its former name, since Docker cannot rename
 * volumes; its labels must agree. -ENOENT: `which` is the name for a new volume. */
static int find_volume(struct atoll_docker *d, const struct atoll_sync_call *call,
                       const char *tenant, const char *name, char which[ATOLL_DOCKER_HASHED_MAX],
                       struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *volume = NULL;
    char text[sizeof(d->daemon_id) + 65 + 65 + 3], former[ATOLL_DOCKER_HASHED_MAX];
    const char *label;
    int r;

    (void)snprintf(text, sizeof(text), "%s/%s/%s", d->daemon_id, tenant, name);
    atoll_docker_hashed_name(PREFIX, text, which);
    r = atoll_docker_http_askf(d->http, call, NULL, err, "GET", "/volumes/%s", which);
    if (r != -ENOENT)
        return r < 0 ? r : 0;
    atoll_docker_former_name(PREFIX, text, former);
    r = atoll_docker_http_askf(d->http, call, &volume, err, "GET", "/volumes/%s", former);
    if (r < 0)
        return r;
    label = label_of(volume, ATOLL_DOCKER_VOLUME);
    if (!is_of(d, volume, tenant) || !label || strcmp(label, name) != 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %s", name);
    memcpy(which, former, sizeof(former));
    return 0;
}

/* Parses "2026-01-31T12:00:00Z" and similar, to seconds. */
static int64_t time_of(const char *text)
{
    struct tm tm = {0};

    return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) * 1000 : 0;
}

int atoll_docker_list_volumes(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                              const char *tenant, atoll_provider_volume_fn *each, void *arg,
                              struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    const json_t *volume;
    size_t i;
    int r = atoll_docker_http_askf(
        d->http, call, &answer, err, "GET",
        "/volumes?filters=%%7B%%22label%%22%%3A%%5B%%22" ATOLL_DOCKER_VOLUME "%%22%%5D%%7D");

    if (r < 0)
        return r;
    json_array_foreach(json_object_get(answer, "Volumes"), i, volume)
    {
        struct atoll_provider_volume v = {
            .created_unix_ms = time_of(json_string_value(json_object_get(volume, "CreatedAt")))};
        const char *name = label_of(volume, ATOLL_DOCKER_VOLUME);
        if (is_of(d, volume, tenant) && name && atoll_text_copy(v.name, sizeof(v.name), name) == 0)
            each(arg, &v);
    }
    return 0;
}

int atoll_docker_drop_volume(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                             const char *tenant, const char *name, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    char which[ATOLL_DOCKER_HASHED_MAX];
    int r = find_volume(d, call, tenant, name, which, err);

    if (r == 0)
        r = atoll_docker_http_askf(d->http, call, NULL, err, "DELETE", "/volumes/%s", which);
    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no volume %s", name);
    if (r == -EEXIST)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "volume %s is in use: destroy the sandboxes that mount it first", name);
    return r < 0 ? r : 0;
}

static void count(void *arg, const struct atoll_provider_volume *volume)
{
    (void)volume;
    ++*(unsigned *)arg;
}

/* Creates the volume if it does not exist. */
static int need_volume(struct atoll_docker *d, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, const char *name,
                       char which[ATOLL_DOCKER_HASHED_MAX], struct atoll_error *err)
{
    struct atoll_docker_ask ask = {.method = "POST", .path = "/volumes/create"};
    unsigned have = 0;
    int r = find_volume(d, call, spec->tenant, name, which, err);

    if (r != -ENOENT)
        return r;
    r = atoll_docker_list_volumes(&d->sync, call, spec->tenant, count, &have, err);
    if (r < 0)
        return r;
    if (d->config.volumes == 0)
        return atoll_fail(
            err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
            "this provider has no volumes: their size is not limited, so the operator "
            "must allow them (volumes: N in providers.yaml)");
    if (have >= d->config.volumes)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                          "the tenant has %u volumes, which is the maximum; remove some", have);
    ask.json = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}}", "Name", which, "Driver", "local",
                         "Labels", ATOLL_DOCKER_LABEL, d->daemon_id, ATOLL_DOCKER_OWNER,
                         spec->tenant, ATOLL_DOCKER_VOLUME, name);
    r = atoll_docker_http_ask(d->http, call, &ask, NULL, err);
    return r < 0 ? r : 0;
}

/* Only listed paths, compared exactly: below a directory that others can write, a link may lead
 * anywhere. */
static int check_host_path(const struct atoll_docker *d, const struct atoll_mount *m,
                           struct atoll_error *err)
{
    if (m->cow)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EOPNOTSUPP,
                          "docker mounts %s of the host with the mode ro or rw; native has cow",
                          m->source);
    for (size_t i = 0; i < d->config.host_path_count; i++) {
        const struct atoll_docker_bind *allowed = &d->config.host_paths[i];
        if (strcmp(allowed->source, m->source) != 0)
            continue;
        if (m->read_only || allowed->writable)
            return 0;
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "%s of the host may only be mounted with \"readOnly\": true", m->source);
    }
    return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                      "%s of the host may not be mounted: the operator has not listed it "
                      "(host_paths in providers.yaml)",
                      m->source);
}

int atoll_docker_mounts_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec, json_t **ret, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *mounts = json_array();
    char which[ATOLL_DOCKER_HASHED_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->mount_count; i++) {
        const struct atoll_mount *m = &spec->mounts[i];
        bool is_volume = *m->volume != '\0';

        r = is_volume ? need_volume(d, call, spec, m->volume, which, err)
                      : check_host_path(d, m, err);
        if (r == 0)
            (void)json_array_append_new(mounts, json_pack("{s:s, s:s, s:s, s:b}", "Type",
                                                          is_volume ? "volume" : "bind", "Source",
                                                          is_volume ? which : m->source, "Target",
                                                          m->path, "ReadOnly", m->read_only));
    }
    if (r == 0)
        *ret = json_incref(mounts);
    return r;
}
