/*
 * The provider: configuration, capabilities of the engine, and the operations that are one request.
 */
#include "provider/docker/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fd.h"
#include "base/text.h"
#include "provider/docker/docker_internal.h"
#include "provider/docker/profile.h"

#define HOST_DEFAULT "unix:///var/run/docker.sock"
#define LOCK_WAIT_MS 20

/* "atoll-ID": the name of a sandbox's container and of its directory. */
static const char *name_of(const struct atoll_spec *spec, char out[64])
{
    (void)snprintf(out, 64, ATOLL_DOCKER_NAME "%s", spec->id);
    return out;
}

/* The container's Docker id or name. The handle comes from our store, but is checked because it
 * becomes part of a URL path. */
static const char *which_of(const struct atoll_spec *spec, char out[64 + 1])
{
    if (atoll_text_is_name(spec->handle) && strlen(spec->handle) <= 64)
        (void)snprintf(out, 65, "%.64s", spec->handle);
    else
        (void)snprintf(out, 65, ATOLL_DOCKER_NAME "%s", spec->id);
    return out;
}

int atoll_docker_lock(pthread_mutex_t *lock, const struct atoll_sync_call *call,
                      struct atoll_error *err)
{
    struct pollfd cancelled = {.fd = call->cancel_fd, .events = POLLIN};

    while (pthread_mutex_trylock(lock) != 0) {
        if (poll(&cancelled, 1, ATOLL_MIN(LOCK_WAIT_MS, atoll_sync_left_ms(call))) > 0)
            return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED, "the request was cancelled");
        if (atoll_sync_left_ms(call) == 0)
            return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                              "the Docker engine is busy with another request of this kind");
    }
    return 0;
}

/* --- capabilities of the engine --- */

static int info_ask(struct atoll_docker *d, const struct atoll_sync_call *call,
                    struct atoll_docker_info *ret, struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    int r = atoll_docker_http_askf(d->http, call, &answer, err, "GET", "/info");

    if (r < 0)
        return r;
    atoll_docker_info_parse(answer, ret);
    (void)pthread_mutex_lock(&d->lock);
    /* The result of a real try overrides what the storage driver suggests. */
    if (d->info.known && !d->info.quota)
        ret->quota = false;
    d->info = *ret;
    (void)pthread_mutex_unlock(&d->lock);
    return 0;
}

static struct atoll_docker_info info_known(const struct atoll_docker *d)
{
    struct atoll_docker *unlocked = (struct atoll_docker *)(uintptr_t)d;
    struct atoll_docker_info info;

    (void)pthread_mutex_lock(&unlocked->lock);
    info = d->info;
    (void)pthread_mutex_unlock(&unlocked->lock);
    return info;
}

int atoll_docker_info_get(struct atoll_docker *d, const struct atoll_sync_call *call,
                          struct atoll_docker_info *ret, struct atoll_error *err)
{
    *ret = info_known(d);
    return ret->known ? 0 : info_ask(d, call, ret, err);
}

bool atoll_docker_shares_files(const struct atoll_docker *d, const struct atoll_docker_info *info)
{
    return d->local && !info->shifted;
}

enum atoll_docker_disk atoll_docker_disk_of(const struct atoll_docker *d,
                                            const struct atoll_docker_info *info,
                                            const struct atoll_spec *spec)
{
    if (spec->read_only)
        return ATOLL_DOCKER_DISK_TMPFS;
    if (spec->waived & ATOLL_LIMIT_DISK || spec->limits.disk_bytes == 0)
        return ATOLL_DOCKER_DISK_REFUSE;
    if (d->config.disk == ATOLL_DOCKER_DISK_AUTO)
        return info->quota ? ATOLL_DOCKER_DISK_QUOTA : ATOLL_DOCKER_DISK_TMPFS;
    return d->config.disk;
}

static uint32_t docker_missing_limits(const struct atoll_sync_provider *p,
                                      const struct atoll_spec *spec)
{
    const struct atoll_docker *d = atoll_docker_of((struct atoll_sync_provider *)(uintptr_t)p);
    struct atoll_docker_info info = info_known(d);
    /* AUTO without quotas would put the disk in memory and make the rest of the image read-only. A
     * request that waives the limit gets a writable disk without a limit instead. */
    bool poor =
        d->config.disk == ATOLL_DOCKER_DISK_AUTO && !info.quota && spec->waived & ATOLL_LIMIT_DISK;
    bool disk = spec->limits.disk_bytes && (d->config.disk == ATOLL_DOCKER_DISK_REFUSE || poor);

    /* The engine bounds devices of the host, which images of several sandboxes share. */
    return info.missing | (disk ? ATOLL_LIMIT_DISK : 0) |
           (spec->limits.io_bytes ? ATOLL_LIMIT_IO : 0);
}

static uint32_t docker_networks(const struct atoll_sync_provider *p)
{
    struct atoll_docker *d = atoll_docker_of((struct atoll_sync_provider *)(uintptr_t)p);
    uint32_t missing;

    (void)pthread_mutex_lock(&d->lock);
    missing = d->no_bridge ? 1u << ATOLL_NETWORK_BRIDGE : 0;
    (void)pthread_mutex_unlock(&d->lock);
    return p->ops->caps.networks & ~missing;
}

/* --- operations --- */

static int docker_create(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                         struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_sync_call after;
    struct atoll_error unused;
    char name[64];
    int r;

    if (d->pool && atoll_docker_pool_take(d->pool, call, spec, ret_fd))
        return 0;
    (void)name_of(spec, name);
    r = atoll_docker_container_start(d, call, name, spec, spec->handle, sizeof(spec->handle),
                                     spec->warning, err);
    if (r == 0) {
        r = atoll_docker_container_dial(d, call, spec->handle, name, ret_fd, err);
        after = atoll_docker_after();
        if (r < 0) {
            (void)!atoll_docker_container_remove(d, &after, spec->handle, name, &unused);
            atoll_docker_network_put(d, &after, spec);
        }
    }
    if (r < 0)
        spec->handle[0] = '\0';
    return r;
}

static int docker_dial(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    char which[65], name[64];

    return atoll_docker_container_dial(atoll_docker_of(p), call, which_of(spec, which),
                                       name_of(spec, name), ret_fd, err);
}

static int docker_inspect(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                          struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    char which[65];
    int r = atoll_docker_http_askf(atoll_docker_of(p)->http, call, &answer, err, "GET",
                                   "/containers/%s/json", which_of(spec, which));

    if (r == -ENOENT) {
        *ret = (struct atoll_provider_inspection){.state = ATOLL_INSPECT_GONE};
        (void)snprintf(ret->cause, sizeof(ret->cause), "the container was removed");
        return 0;
    }
    if (r < 0)
        return r;
    if (!json_is_object(json_object_get(answer, "State")))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPROTO, "Docker's answer has no state");
    atoll_docker_inspect_parse(answer, ret);
    return 0;
}

static int docker_destroy(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    char which[65], name[64];
    int r = atoll_docker_container_remove(d, call, which_of(spec, which), name_of(spec, name), err);

    if (r == 0)
        atoll_docker_network_put(d, call, spec);
    return r;
}

/* An engine's refusal is success if the container is already in the wanted state. */
static int freeze(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  const struct atoll_spec *spec, const char *verb, bool paused,
                  struct atoll_error *err)
{
    struct atoll_provider_inspection inspection;
    struct atoll_error unused;
    char which[65];
    int r = atoll_docker_http_askf(atoll_docker_of(p)->http, call, NULL, err, "POST",
                                   "/containers/%s/%s", which_of(spec, which), verb);

    if (r >= 0)
        return 0;
    if (r != -ENOENT && docker_inspect(p, call, spec, &inspection, &unused) == 0 &&
        inspection.state == (paused ? ATOLL_INSPECT_PAUSED : ATOLL_INSPECT_ALIVE))
        return 0;
    return r;
}

static int docker_pause(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, struct atoll_error *err)
{
    return freeze(p, call, spec, "pause", true, err);
}

static int docker_resume(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_error *err)
{
    return freeze(p, call, spec, "unpause", false, err);
}

static int docker_set_limits(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                             const struct atoll_spec *spec, const struct atoll_limits *limits,
                             struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_docker_ask ask = {.method = "POST"};
    struct atoll_docker_info info;
    char path[128], which[65];
    int r = atoll_docker_info_get(d, call, &info, err);

    if (r < 0)
        return r;
    (void)snprintf(path, sizeof(path), "/containers/%s/update", which_of(spec, which));
    ask.path = path;
    ask.json = atoll_docker_body_update(limits, spec->waived, info.cpus);
    r = atoll_docker_http_ask(d->http, call, &ask, NULL, err);
    return r < 0 ? r : 0;
}

static int docker_stats(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                        struct atoll_error *err)
{
    ATOLL_DOCKER_AUTOJSON json_t *answer = NULL;
    char which[65];
    int r = atoll_docker_http_askf(atoll_docker_of(p)->http, call, &answer, err, "GET",
                                   "/containers/%s/stats?stream=false&one-shot=true",
                                   which_of(spec, which));

    if (r >= 0)
        atoll_docker_stats_parse(answer, ret);
    return r < 0 ? r : 0;
}

/* The handle comes from our store, but is checked because it becomes part of a URL path. */
static int docker_snapshot(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, const char *image,
                           struct atoll_provider_image *ret, struct atoll_error *err)
{
    struct atoll_spec checked = *spec;

    (void)which_of(spec, checked.handle);
    return atoll_docker_snapshot(p, call, &checked, image, ret, err);
}

static int docker_health(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                         char *detail, size_t cap, struct atoll_error *err)
{
    struct atoll_docker *d = atoll_docker_of(p);
    struct atoll_docker_info info;
    int r = info_ask(d, call, &info, err);
    bool lacks = r == 0 && atoll_docker_lacks_bridge(d, call);

    if (r < 0)
        return r;
    (void)pthread_mutex_lock(&d->lock);
    d->no_bridge = lacks;
    (void)pthread_mutex_unlock(&d->lock);
    (void)snprintf(detail, cap, "Docker %s, %s", info.version, info.storage);
    return 0;
}

static struct atoll_sync_provider *docker_free(struct atoll_sync_provider *p);

static const struct atoll_sync_ops ops = {
    .name = "docker",
    .caps = {.isolation = "container",
             .images = true,
             .builds = true,
             .templates = true,
             .loads = true,
             .snapshots = true,
             .volumes = true,
             .read_only = true,
             .pause = true,
             .set_limits = true,
             .stats = true,
             .networks = 1u << ATOLL_NETWORK_NONE | 1u << ATOLL_NETWORK_ISOLATED |
                         1u << ATOLL_NETWORK_BRIDGE},
    .missing_limits = docker_missing_limits,
    .networks = docker_networks,
    .create = docker_create,
    .dial = docker_dial,
    .inspect = docker_inspect,
    .list = atoll_docker_list,
    .destroy = docker_destroy,
    .pause = docker_pause,
    .resume = docker_resume,
    .set_limits = docker_set_limits,
    .stats = docker_stats,
    .build = atoll_docker_build,
    .snapshot = docker_snapshot,
    .load_image = atoll_docker_load,
    .drop_image = atoll_docker_image_remove,
    .list_volumes = atoll_docker_list_volumes,
    .drop_volume = atoll_docker_drop_volume,
    .health = docker_health,
    .free = docker_free,
};

/* --- open and free --- */

/* Copies every pointer; the copy owns them, also if this fails halfway. */
static bool config_dup(struct atoll_docker_config *to, const struct atoll_docker_config *from)
{
    struct atoll_docker_registry *registries =
        calloc(from->registry_count + 1, sizeof(*registries));
    struct atoll_docker_bind *binds = calloc(from->bind_count + 1, sizeof(*binds));
    struct atoll_docker_bind *allowed = calloc(from->host_path_count + 1, sizeof(*allowed));
    bool ok = registries && binds && allowed;

    *to = (struct atoll_docker_config){.remote = from->remote,
                                       .disk = from->disk,
                                       .pool = from->pool,
                                       .volumes = from->volumes,
                                       .private_registries = from->private_registries};
    to->registries = registries;
    to->binds = binds;
    to->host_paths = allowed;
    to->bridge = strdup(from->bridge && *from->bridge ? from->bridge : "bridge");
    if (from->default_image && *from->default_image)
        ok = (to->default_image = strdup(from->default_image)) && ok;
    if (from->runtime && *from->runtime)
        ok = (to->runtime = strdup(from->runtime)) && ok;
    for (size_t i = 0; ok && i < from->registry_count; i++, to->registry_count++) {
        registries[i].host = strdup(from->registries[i].host);
        registries[i].username = strdup(from->registries[i].username);
        registries[i].password = strdup(from->registries[i].password);
        ok = registries[i].host && registries[i].username && registries[i].password;
    }
    for (size_t i = 0; ok && i < from->bind_count; i++, to->bind_count++) {
        binds[i].source = strdup(from->binds[i].source);
        binds[i].target = strdup(from->binds[i].target);
        binds[i].writable = from->binds[i].writable;
        ok = binds[i].source && binds[i].target;
    }
    for (size_t i = 0; ok && i < from->host_path_count; i++, to->host_path_count++) {
        allowed[i].source = strdup(from->host_paths[i].source);
        allowed[i].writable = from->host_paths[i].writable;
        ok = allowed[i].source != NULL;
    }
    return ok && to->bridge;
}

static void config_done(struct atoll_docker_config *c)
{
    for (size_t i = 0; i < c->registry_count; i++) {
        free((void *)(uintptr_t)c->registries[i].host);
        free((void *)(uintptr_t)c->registries[i].username);
        free((void *)(uintptr_t)c->registries[i].password);
    }
    for (size_t i = 0; i < c->bind_count; i++) {
        free((void *)(uintptr_t)c->binds[i].source);
        free((void *)(uintptr_t)c->binds[i].target);
    }
    for (size_t i = 0; i < c->host_path_count; i++)
        free((void *)(uintptr_t)c->host_paths[i].source);
    free((void *)(uintptr_t)c->registries);
    free((void *)(uintptr_t)c->binds);
    free((void *)(uintptr_t)c->host_paths);
    free((void *)(uintptr_t)c->bridge);
    free((void *)(uintptr_t)c->runtime);
    free((void *)(uintptr_t)c->default_image);
}

static struct atoll_sync_provider *docker_free(struct atoll_sync_provider *p)
{
    struct atoll_docker *d = atoll_docker_of(p);

    d->pool = atoll_docker_pool_free(d->pool);
    d->http = atoll_docker_http_free(d->http);
    config_done(&d->config);
    (void)pthread_mutex_destroy(&d->lock);
    (void)pthread_mutex_destroy(&d->sending);
    (void)pthread_mutex_destroy(&d->cleaning);
    free((void *)(uintptr_t)d->sync.ops);
    free(d->state_dir);
    free(d->agent_path);
    free(d->sudo_path);
    free(d->profile);
    free(d);
    return NULL;
}

/* The id that labels our containers; created with the state directory. */
static int load_id(struct atoll_docker *d, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;
    int r;

    if (mkdir(d->state_dir, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "directory of the Docker provider");
    dir = open(d->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return atoll_fail_errno(err, errno, "directory of the Docker provider");
    r = atoll_fd_read_file(dir, "id", d->daemon_id, sizeof(d->daemon_id));
    if (r == ATOLL_UUID_LEN)
        return 0;
    atoll_rand_uuid(d->daemon_id);
    r = atoll_fd_replace_file(dir, "id", d->daemon_id, ATOLL_UUID_LEN);
    return r < 0 ? atoll_fail_errno(err, -r, "id of the Docker provider") : 0;
}

static bool set_paths(struct atoll_docker *d, const struct atoll_docker_config *config)
{
    ATOLL_DOCKER_AUTOJSON json_t *profile = atoll_docker_profile();

    d->state_dir = realpath(config->state_dir, NULL);
    if (!d->state_dir)
        d->state_dir = strdup(config->state_dir);
    if (asprintf(&d->agent_path, "%s/atoll-agent", config->libexec_dir) < 0)
        d->agent_path = NULL;
    if (asprintf(&d->sudo_path, "%s/atoll-sudo", config->libexec_dir) < 0)
        d->sudo_path = NULL;
    d->profile = profile ? json_dumps(profile, JSON_COMPACT) : NULL;
    return d->state_dir && d->agent_path && d->sudo_path && d->profile;
}

static bool has_runtime(const struct atoll_docker_config *config)
{
    return config->runtime && *config->runtime;
}

/* Derived from the names of well-known runtimes. */
static const char *isolation_of(const struct atoll_docker_config *config)
{
    static const struct {
        const char *runtime, *isolation;
    } known[] = {{"runsc", "gvisor"}, {"kata", "microvm"}};

    for (size_t i = 0; has_runtime(config) && i < ATOLL_ARRAY_LEN(known); i++)
        if (strncmp(config->runtime, known[i].runtime, strlen(known[i].runtime)) == 0)
            return known[i].isolation;
    return ops.caps.isolation;
}

static int fill(struct atoll_docker *d, const struct atoll_docker_config *config,
                struct atoll_error *err)
{
    struct atoll_docker_http_config http = {.host = config->host ? config->host : HOST_DEFAULT,
                                            .ca = config->ca,
                                            .cert = config->cert,
                                            .key = config->key,
                                            .connections = config->connections};
    struct atoll_sync_ops *own = malloc(sizeof(*own));
    int r;

    if (!own)
        return atoll_fail_errno(err, ENOMEM, "Docker provider");
    d->local = strncmp(http.host, "unix://", 7) == 0 && !config->remote && !has_runtime(config);
    memcpy(own, &ops, sizeof(*own));
    own->caps.isolation = isolation_of(config);
    own->caps.remote = !d->local;
    own->caps.descriptors = d->local;
    d->sync.ops = own;
    if (!config_dup(&d->config, config) || !set_paths(d, config))
        return atoll_fail_errno(err, ENOMEM, "Docker provider");
    r = load_id(d, err);
    if (r == 0)
        r = atoll_docker_http_new(&http, &d->http, err);
    if (r == 0 && config->pool > 0 && d->config.default_image)
        r = atoll_docker_pool_new(d, ATOLL_MIN(config->pool, ATOLL_DOCKER_POOL_MAX), &d->pool, err);
    return r;
}

int atoll_docker_provider_new(const struct atoll_docker_config *config,
                              struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_docker *d = calloc(1, sizeof(*d));
    int r;

    if (!d)
        return atoll_fail_errno(err, ENOMEM, "Docker provider");
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_mutex_init(&d->sending, NULL);
    (void)pthread_mutex_init(&d->cleaning, NULL);
    d->cleaned = config->succeeds;
    r = fill(d, config, err);
    if (r < 0) {
        (void)docker_free(&d->sync);
        return r;
    }
    *ret = &d->sync;
    return 0;
}
