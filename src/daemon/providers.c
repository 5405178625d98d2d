/*
 * How it works. The file is checked by tables, one for each kind of provider; each kind has a
 * function that fills the provider's own config from its object and opens it. Then they are sorted by
 * "order".
 */
#include "daemon/providers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/registry_internal.h"
#include "provider/docker/docker.h"
#include "provider/e2b/e2b.h"
#include "provider/fake/fake.h"
#include "provider/gvisor/gvisor.h"
#include "provider/native/native.h"

#define FILE_MAX_BYTES (256 * 1024)
#define THREADS 16
#define QUEUE_MAX 1024
#define DEFAULT_ORDER 100
#define LISTED_MAX 32 /* registries, mounts, headers */
#define MONTH_S (31.0 * 24 * 3600)

/* What every provider may say. */
static const struct atoll_yaml_field defaults[] = {
    {"memoryMB", ATOLL_YAML_NUMBER, false, 8, 1048576, NULL},
    {"cpuCores", ATOLL_YAML_NUMBER, false, 0.01, 1024, NULL},
    {"diskMB", ATOLL_YAML_NUMBER, false, 1, 16777216, NULL},
    {"pids", ATOLL_YAML_WHOLE, false, 4, 4194304, NULL},
    {"timeoutSeconds", ATOLL_YAML_NUMBER, false, 0, 12 * MONTH_S, NULL},
    {0},
};
#define COMMON                                                        \
    {"enabled", ATOLL_YAML_BOOL, false, 0, 0, NULL},                  \
        {"order", ATOLL_YAML_WHOLE, false, 1, 1000, NULL},            \
        {"max_sandboxes", ATOLL_YAML_WHOLE, false, 0, 65536, NULL},   \
        {"named_only", ATOLL_YAML_BOOL, false, 0, 0, NULL},           \
        {"check_seconds", ATOLL_YAML_NUMBER, false, 0.1, 3600, NULL}, \
    {                                                                 \
        "defaults", ATOLL_YAML_OBJECT, false, 0, 0, defaults          \
    }
#define TEXT(name)                                    \
    {                                                 \
        name, ATOLL_YAML_STRING, false, 1, 1024, NULL \
    }

static const struct atoll_yaml_field native_fields[] = {COMMON, {0}};

static const struct atoll_yaml_field registry_fields[] = {
    {"host", ATOLL_YAML_STRING, true, 1, 255, NULL},
    {"username", ATOLL_YAML_STRING, true, 0, 255, NULL},
    {"password", ATOLL_YAML_STRING, true, 0, 4096, NULL},
    {0},
};
static const struct atoll_yaml_field mount_fields[] = {
    {"source", ATOLL_YAML_STRING, true, 1, 1024, NULL},
    {"target", ATOLL_YAML_STRING, true, 1, 1024, NULL},
    {"writable", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field docker_fields[] = {
    COMMON,
    TEXT("host"),
    TEXT("ca"),
    TEXT("cert"),
    TEXT("key"),
    {"remote", ATOLL_YAML_BOOL, false, 0, 0, NULL},
    {"default_image", ATOLL_YAML_STRING, false, 1, 255, NULL},
    TEXT("bridge"),
    {"disk", ATOLL_YAML_NAME, false, 0, 0, NULL},
    {"registries", ATOLL_YAML_OBJECTS, false, 0, LISTED_MAX, registry_fields},
    {"mounts", ATOLL_YAML_OBJECTS, false, 0, LISTED_MAX, mount_fields},
    {"pool", ATOLL_YAML_WHOLE, false, 0, 64, NULL},
    {"connections", ATOLL_YAML_WHOLE, false, 1, 64, NULL},
    {0},
};
static const struct atoll_yaml_field gvisor_fields[] =
    {COMMON, TEXT("runsc"), {"platform", ATOLL_YAML_NAME, false, 0, 0, NULL}, {0}};
static const struct atoll_yaml_field e2b_fields[] = {
    COMMON,
    TEXT("api_url"),
    TEXT("sandbox_url"),
    TEXT("domain"),
    TEXT("api_key"),
    TEXT("api_key_file"),
    TEXT("api_key_env"),
    TEXT("ca_file"),
    TEXT("template"),
    {"timeout", ATOLL_YAML_WHOLE, false, 60, 86400, NULL},
    {"headers", ATOLL_YAML_ANY, false, 0, 0, NULL},
    {0},
};
static const struct atoll_yaml_field fake_fields[] = {COMMON, TEXT("control"), {0}};

static const struct atoll_yaml_field kind_fields[] = {
    {"native", ATOLL_YAML_OBJECT, false, 0, 0, native_fields},
    {"docker", ATOLL_YAML_OBJECT, false, 0, 0, docker_fields},
    {"gvisor", ATOLL_YAML_OBJECT, false, 0, 0, gvisor_fields},
    {"e2b", ATOLL_YAML_OBJECT, false, 0, 0, e2b_fields},
    {"fake", ATOLL_YAML_OBJECT, false, 0, 0, fake_fields},
    {0},
};
static const struct atoll_yaml_field file_fields[] = {
    {"providers", ATOLL_YAML_OBJECT, true, 0, 0, kind_fields},
    {0},
};

static const char *text_of(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static double number_of(const json_t *o, const char *name)
{
    return json_number_value(json_object_get(o, name));
}

static bool is_set(const json_t *o, const char *name)
{
    return json_is_true(json_object_get(o, name));
}

/* The kinds. */

static int sync_up(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                   struct atoll_sync_provider *sync, struct atoll_provider **ret,
                   struct atoll_error *err)
{
    struct atoll_workers **workers = &p->workers[p->count];
    int r = atoll_workers_new(place->loop, THREADS, QUEUE_MAX, workers, err);

    if (r < 0) {
        (void)sync->ops->free(sync);
        return r;
    }
    return atoll_sync_wrap(place->loop, *workers, sync, ret, err);
}

static int open_native(struct atoll_daemon_providers *p ATOLL_UNUSED,
                       const struct atoll_daemon_place *place, const json_t *o ATOLL_UNUSED,
                       struct atoll_provider **ret, struct atoll_error *err)
{
    const struct atoll_native_config config = {.state_dir = place->state_dir,
                                               .program_dir = place->program_dir};
    return atoll_native_open(place->loop, &config, ret, err);
}

static int read_disk(const char *word, enum atoll_docker_disk *ret, struct atoll_error *err)
{
    static const char *const words[] = {"auto", "quota", "tmpfs", "refuse"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++)
        if (!word || strcmp(word, words[i]) == 0) {
            *ret = (enum atoll_docker_disk)i;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "providers.docker.disk must be auto, quota, tmpfs or refuse (got %.32s)",
                      word);
}

static int open_docker(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                       const json_t *o, struct atoll_provider **ret, struct atoll_error *err)
{
    const json_t *registries = json_object_get(o, "registries"),
                 *mounts = json_object_get(o, "mounts");
    struct atoll_docker_registry auths[LISTED_MAX];
    struct atoll_docker_bind binds[LISTED_MAX];
    char state[ATOLL_CONFIG_PATH_MAX], layers[ATOLL_CONFIG_PATH_MAX];
    struct atoll_docker_config config = {
        .host = text_of(o, "host"),
        .ca = text_of(o, "ca"),
        .cert = text_of(o, "cert"),
        .key = text_of(o, "key"),
        .remote = is_set(o, "remote"),
        .state_dir = state,
        .libexec_dir = place->program_dir,
        .layers_dir = layers,
        .default_image = text_of(o, "default_image"),
        .bridge = text_of(o, "bridge"),
        .registries = auths,
        .registry_count = json_array_size(registries),
        .binds = binds,
        .bind_count = json_array_size(mounts),
        .pool = (unsigned)number_of(o, "pool"),
        .connections = (unsigned)number_of(o, "connections"),
    };
    struct atoll_sync_provider *sync;
    int r = read_disk(text_of(o, "disk"), &config.disk, err);

    (void)snprintf(state, sizeof(state), "%s/docker", place->state_dir);
    (void)snprintf(layers, sizeof(layers), "%s/layers", place->state_dir);
    for (size_t i = 0; i < config.registry_count; i++) {
        const json_t *entry = json_array_get(registries, i);
        auths[i] = (struct atoll_docker_registry){
            text_of(entry, "host"), text_of(entry, "username"), text_of(entry, "password")};
    }
    for (size_t i = 0; i < config.bind_count; i++) {
        const json_t *entry = json_array_get(mounts, i);
        binds[i] = (struct atoll_docker_bind){text_of(entry, "source"), text_of(entry, "target"),
                                              is_set(entry, "writable")};
    }
    if (r == 0)
        r = atoll_docker_provider_new(&config, &sync, err);
    return r < 0 ? r : sync_up(p, place, sync, ret, err);
}

static int open_gvisor(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                       const json_t *o, struct atoll_provider **ret, struct atoll_error *err)
{
    const struct atoll_gvisor_config config = {.state_dir = place->state_dir,
                                               .program_dir = place->program_dir,
                                               .runsc = text_of(o, "runsc"),
                                               .platform = text_of(o, "platform")};
    struct atoll_sync_provider *sync;
    int r = atoll_gvisor_provider_new(&config, &sync, err);

    return r < 0 ? r : sync_up(p, place, sync, ret, err);
}

/* What this daemon's sandboxes elsewhere are marked with: the same as long as the state directory
 * lives. */
static int load_daemon_id(const char *state_dir, char id[ATOLL_UUID_LEN + 1],
                          struct atoll_error *err)
{
    char path[ATOLL_CONFIG_PATH_MAX];
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)snprintf(path, sizeof(path), "%s/daemon-id", state_dir);
    id[ATOLL_UUID_LEN] = '\0';
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && read(fd, id, ATOLL_UUID_LEN) == ATOLL_UUID_LEN)
        return 0;
    if (fd >= 0)
        (void)close(fd);
    atoll_rand_uuid(id);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : atoll_fd_write_all(fd, id, ATOLL_UUID_LEN);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? atoll_fail_errno(err, -r, "keep the daemon's id") : 0;
}

static int read_headers(json_t *o, struct atoll_e2b_header *out, size_t *ret_count,
                        struct atoll_error *err)
{
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach(o, name, value)
    {
        if (n == LISTED_MAX || !json_is_string(value))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "providers.e2b.headers must be at most %d names with texts",
                              LISTED_MAX);
        out[n++] = (struct atoll_e2b_header){name, json_string_value(value)};
    }
    *ret_count = n;
    return 0;
}

static int open_e2b(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                    const json_t *o, struct atoll_provider **ret, struct atoll_error *err)
{
    struct atoll_e2b_header headers[LISTED_MAX];
    char id[ATOLL_UUID_LEN + 1], agent[ATOLL_CONFIG_PATH_MAX];
    struct atoll_e2b_provider_config config = {
        .api_url = text_of(o, "api_url"),
        .sandbox_url = text_of(o, "sandbox_url"),
        .domain = text_of(o, "domain"),
        .api_key = text_of(o, "api_key"),
        .api_key_file = text_of(o, "api_key_file"),
        .api_key_env = text_of(o, "api_key_env"),
        .ca_file = text_of(o, "ca_file"),
        .template_id = text_of(o, "template"),
        .timeout_s = (uint32_t)number_of(o, "timeout"),
        .headers = headers,
        .daemon_id = id,
        .agent_path = agent,
    };
    struct atoll_sync_provider *sync;
    int r = load_daemon_id(place->state_dir, id, err);

    (void)snprintf(agent, sizeof(agent), "%s/atoll-agent", place->program_dir);
    if (r == 0)
        r = read_headers(json_object_get(o, "headers"), headers, &config.header_count, err);
    if (r == 0)
        r = atoll_e2b_provider_new(&config, &sync, err);
    return r < 0 ? r : sync_up(p, place, sync, ret, err);
}

static int open_fake(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                     const json_t *o, struct atoll_provider **ret, struct atoll_error *err)
{
    char state[ATOLL_CONFIG_PATH_MAX], agent[ATOLL_CONFIG_PATH_MAX];
    const struct atoll_fake_config config = {
        .state_dir = state, .agent_path = agent, .control = text_of(o, "control")};
    struct atoll_sync_provider *sync;
    int r;

    (void)snprintf(state, sizeof(state), "%s/fake", place->state_dir);
    (void)snprintf(agent, sizeof(agent), "%s/atoll-agent", place->program_dir);
    r = atoll_fake_provider_new(&config, &sync, err);
    return r < 0 ? r : sync_up(p, place, sync, ret, err);
}

static const struct kind {
    const char *name;
    bool by_default; /* there without being named */
    bool by_word;    /* only with "enabled: true": it is for tests */
    int (*open)(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                const json_t *o, struct atoll_provider **ret, struct atoll_error *err);
} kinds[ATOLL_DAEMON_PROVIDERS] = {
    {"native", true, false, open_native},  {"gvisor", false, false, open_gvisor},
    {"docker", false, false, open_docker}, {"e2b", false, false, open_e2b},
    {"fake", false, true, open_fake},
};

/* The set. */

static bool is_wanted(const struct kind *kind, const json_t *o)
{
    const json_t *enabled = json_object_get(o, "enabled");

    if (kind->by_word)
        return json_is_true(enabled);
    return o ? !json_is_false(enabled) : kind->by_default;
}

static void take_common(struct atoll_daemon_providers *p, const json_t *o)
{
    struct atoll_engine_provider *to = &p->list[p->count];
    const json_t *d = json_object_get(o, "defaults");
    const char *image = text_of(o, "default_image");

    *to = (struct atoll_engine_provider){
        .max_sandboxes = (uint32_t)number_of(o, "max_sandboxes"),
        .named_only = is_set(o, "named_only"),
        .check_ms = (uint32_t)(number_of(o, "check_seconds") * 1000),
        .limits = {.memory_bytes = (uint64_t)(number_of(d, "memoryMB") * 1048576),
                   .cpu_millis = (uint32_t)(number_of(d, "cpuCores") * 1000),
                   .disk_bytes = (uint64_t)(number_of(d, "diskMB") * 1048576),
                   .pids = (uint32_t)number_of(d, "pids"),
                   .timeout_s = (uint32_t)number_of(d, "timeoutSeconds")},
    };
    if (image && atoll_text_copy(p->images[p->count], sizeof(p->images[0]), image) == 0)
        to->image = p->images[p->count];
}

static int open_one(struct atoll_daemon_providers *p, const struct atoll_daemon_place *place,
                    const struct kind *kind, const json_t *o, struct atoll_error *err)
{
    struct atoll_provider *made;
    int r = kind->open(p, place, o, &made, err);

    if (r < 0)
        return atoll_wrap(err, "provider %s", kind->name);
    take_common(p, o);
    r = atoll_checked_wrap(place->loop, &p->group, made, &p->list[p->count].provider, err);
    if (r == 0)
        p->count++;
    return r;
}

/* In the order the operator wants, else in that of the table. */
static void sort(struct atoll_daemon_providers *p)
{
    for (size_t i = 1; i < p->count; i++)
        for (size_t k = i; k > 0 && p->ranks[k] < p->ranks[k - 1]; k--) {
            struct atoll_engine_provider one = p->list[k];
            double rank = p->ranks[k];

            p->list[k] = p->list[k - 1];
            p->ranks[k] = p->ranks[k - 1];
            p->list[k - 1] = one;
            p->ranks[k - 1] = rank;
        }
}

/* 0 and *ret NULL: there is no file. */
static int load_file(const struct atoll_daemon_place *place, json_t **ret, struct atoll_error *err)
{
    char path[ATOLL_CONFIG_PATH_MAX];
    ATOLL_AUTOFREE char *text = malloc(FILE_MAX_BYTES + 1);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    ssize_t n;

    *ret = NULL;
    if (*place->file)
        (void)snprintf(path, sizeof(path), "%s", place->file);
    else
        (void)snprintf(path, sizeof(path), "%s/providers.yaml", place->state_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !*place->file)
        return 0;
    if (fd < 0 || !text)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errno, "%s: %s", path, strerror(errno));
    n = read(fd, text, FILE_MAX_BYTES + 1);
    if (n < 0 || n > FILE_MAX_BYTES)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EFBIG, "%s cannot be read: %s", path,
                          strerror(n < 0 ? errno : EFBIG));
    return atoll_yaml_load(path, text, (size_t)n, file_fields, ret, err);
}

int atoll_daemon_providers_open(struct atoll_daemon_providers *p,
                                const struct atoll_daemon_place *place, struct atoll_error *err)
{
    json_t *file = NULL;
    const json_t *listed;
    int r = load_file(place, &file, err);

    listed = json_object_get(file, "providers");
    /* Last first: the native one starts a program, which would stay if another one's settings were
     * refused after it. */
    for (size_t i = ATOLL_DAEMON_PROVIDERS; r == 0 && i-- > 0;) {
        const json_t *o = json_object_get(listed, kinds[i].name);
        double order = number_of(o, "order");

        p->ranks[p->count] = (order > 0 ? order : DEFAULT_ORDER) + (double)i / 100;
        if (is_wanted(&kinds[i], o))
            r = open_one(p, place, &kinds[i], o, err);
    }
    json_decref(file);
    sort(p);
    if (r == 0 && p->count == 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "providers.yaml leaves no provider: enable one");
    if (r < 0)
        atoll_daemon_providers_drop(p);
    return r;
}

void atoll_daemon_providers_drop(struct atoll_daemon_providers *p)
{
    while (p->count > 0) {
        struct atoll_provider *last = p->list[--p->count].provider;
        (void)last->ops->free(last);
    }
}

void atoll_daemon_providers_done(struct atoll_daemon_providers *p)
{
    for (size_t i = 0; i < ATOLL_DAEMON_PROVIDERS; i++)
        p->workers[i] = atoll_workers_free(p->workers[i]);
}
