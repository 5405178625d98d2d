#include "base/memory.h"
#include "provider/native/native_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "provider/by_list.h"
#include "provider/disk_image.h"
#include "provider/pool_image.h"
#include "sandbox/host.h"
#include "sandbox/host_template.h"
#include "sandbox/seccomp.h"

#define SECCOMP_MAX_BYTES (64 * 1024)

/* Taking over what an earlier daemon made. */

struct listing {
    struct atoll_native *n;
    atoll_provider_each_fn *each;
    atoll_provider_done_fn *done; /* NULL: told */
    void *arg;
    struct atoll_timer silence;
};

static void list_too_late(void *arg)
{
    struct listing *l = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, ATOLL_NATIVE_LIST_MS);
    ATOLL_TAKE_PTR(l->done)(l->arg, &err);
}

/* Of stopped sandboxes, and of those that were listed already: the first mention counts. */
static void on_disk(void *arg, const char *id)
{
    struct listing *l = arg;
    l->each(l->arg, id, "", false);
}

static void on_listed(void *arg, const struct atoll_reply *answer)
{
    struct listing *l = arg;
    struct atoll_sm_created msg;
    struct atoll_error err;

    if (answer->more) {
        if (l->done && atoll_msg_decode(&atoll_sm_created_desc, answer->frame->payload,
                                        answer->frame->len, &msg, &err) == 0)
            l->each(l->arg, msg.id, "", msg.pid != 0);
        return;
    }
    if (l->done && !answer->error)
        atoll_disk_image_each_kept(l->n->state_dir, on_disk, l);
    atoll_timer_cancel(&l->silence);
    if (l->done)
        l->done(l->arg, answer->error);
    free(l);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_native *n = atoll_native_of(p);
    struct listing *l = atoll_alloc(sizeof(*l));
    struct atoll_error err;
    int r;

    *l = (struct listing){.n = n, .each = each, .done = done, .arg = arg};
    r = n->rpc ? atoll_rpc_ask(n->rpc, ATOLL_SPAWN_LIST, NULL, NULL, on_listed, l, &err)
               : atoll_native_absent(n, &err);
    if (r < 0) {
        free(l);
        done(arg, &err);
        return;
    }
    atoll_timer_set(&l->silence, n->loop, ATOLL_MIN(n->answer_ms, (int64_t)ATOLL_NATIVE_LIST_MS),
                    list_too_late, l);
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    atoll_id_ranges_reserve(&atoll_native_of(p)->homes, spec);
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_error err;
    int fd = atoll_native_connect(atoll_native_of(p), spec->id, &err);

    reserve(p, spec);
    atoll_native_note_ids(atoll_native_of(p));
    done(arg, fd, 0, fd < 0 ? &err : NULL);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_error err;
    int fd = atoll_native_connect(atoll_native_of(p), spec->id, &err);

    done(arg, fd, fd < 0 ? &err : NULL);
}

/* Requests whose answer carries nothing but success. */

struct plain {
    struct atoll_native *n;
    char gone[ATOLL_ID_LEN + 1];  /* a sandbox to forget when it succeeded, or "" */
    atoll_provider_done_fn *done; /* NULL: told */
    void *arg;
    int64_t may_take_ms;
    struct atoll_timer silence;
};

int atoll_native_silent(struct atoll_error *err, int64_t waited_ms)
{
    return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                      "atoll-spawn has not answered for %lld s", (long long)waited_ms / 1000);
}

static void plain_too_late(void *arg)
{
    struct plain *p = arg;
    struct atoll_error err;

    (void)atoll_native_silent(&err, p->may_take_ms);
    ATOLL_TAKE_PTR(p->done)(p->arg, &err);
}

static void on_plain(void *arg, const struct atoll_reply *answer)
{
    struct plain *p = arg;

    if (!answer->error && *p->gone)
        atoll_native_forget(p->n, p->gone);
    atoll_timer_cancel(&p->silence);
    if (p->done)
        p->done(p->arg, answer->error);
    free(p);
}

static void ask_plain(struct atoll_native *n, uint16_t type, const struct atoll_msg_desc *desc,
                      const void *msg, const char *gone, atoll_provider_done_fn *done, void *arg)
{
    struct plain *p = calloc(1, sizeof(*p));
    struct atoll_error err;
    int r;

    if (!p || atoll_text_copy(p->gone, sizeof(p->gone), gone) < 0) {
        (void)atoll_fail_errno(&err, ENOMEM, "request");
        free(p);
        done(arg, &err);
        return;
    }
    p->n = n;
    p->done = done;
    p->arg = arg;
    p->may_take_ms = type == ATOLL_SPAWN_DROP_LAYER || type == ATOLL_SPAWN_DROP_VOLUME ||
                             type == ATOLL_SPAWN_COPY_VOLUME
                         ? ATOLL_NATIVE_LAYER_MS
                         : n->answer_ms;
    r = n->rpc ? atoll_rpc_ask(n->rpc, type, desc, msg, on_plain, p, &err)
               : atoll_native_absent(n, &err);
    if (r < 0) {
        free(p);
        done(arg, &err);
        return;
    }
    atoll_timer_set(&p->silence, n->loop, p->may_take_ms, plain_too_late, p);
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_remove msg = {.id = spec->id};

    atoll_native_drop_sockets(atoll_native_of(p), spec->id);
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, spec->id, done,
              arg);
}

static void stop(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_remove msg = {.id = spec->id, .keep_disk = 1, .unwritten = spec->unwritten};

    atoll_native_drop_sockets(atoll_native_of(p), spec->id);
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, "", done, arg);
}

static const struct atoll_provider_caps *caps_of(struct atoll_provider *p)
{
    return &atoll_native_of(p)->caps;
}

static void freeze(struct atoll_provider *p, const struct atoll_spec *spec, bool frozen,
                   atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_freeze msg = {spec->id, frozen};
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_FREEZE, &atoll_sm_freeze_desc, &msg, "", done, arg);
}

static void pause_sandbox(struct atoll_provider *p, const struct atoll_spec *spec,
                          atoll_provider_done_fn *done, void *arg)
{
    freeze(p, spec, true, done, arg);
}

static void resume_sandbox(struct atoll_provider *p, const struct atoll_spec *spec,
                           atoll_provider_done_fn *done, void *arg)
{
    freeze(p, spec, false, done, arg);
}

static void reclaim(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_ref msg = {.id = spec->id};
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_RECLAIM, &atoll_sm_ref_desc, &msg, "", done, arg);
}

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_limit msg = {
        .id = spec->id,
        .memory_bytes = spec->waived & ATOLL_LIMIT_MEMORY ? 0 : limits->memory_bytes,
        .cpu_millis = spec->waived & ATOLL_LIMIT_CPU ? 0 : limits->cpu_millis,
        .pids = spec->waived & ATOLL_LIMIT_PIDS ? 0 : limits->pids,
    };
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_LIMIT, &atoll_sm_limit_desc, &msg, "", done, arg);
}

void atoll_native_drop_layer(struct atoll_provider *p, const char *layer,
                             atoll_provider_done_fn *done, void *arg)
{
    const struct atoll_plan_host *host = &atoll_native_of(p)->plan_host;
    struct atoll_sm_ref ref = {layer, host->subuid, host->subgid,
                               ATOLL_MIN(host->subid_count, ATOLL_ID_RANGE - 1)};
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_DROP_LAYER, &atoll_sm_ref_desc, &ref, "", done, arg);
}

static void drop_volume(struct atoll_provider *p, const char *tenant, const char *name,
                        atoll_provider_done_fn *done, void *arg)
{
    const struct atoll_plan_host *host = &atoll_native_of(p)->plan_host;
    char volume[2 * 65];
    struct atoll_sm_ref ref = {volume, host->subuid, host->subgid,
                               ATOLL_MIN(host->subid_count, ATOLL_ID_RANGE - 1)};

    (void)snprintf(volume, sizeof(volume), "%.64s/%.64s", tenant, name);
    ask_plain(atoll_native_of(p), ATOLL_SPAWN_DROP_VOLUME, &atoll_sm_ref_desc, &ref, "", done, arg);
}

static void copy_volume(struct atoll_provider *p, const char *tenant, const char *from,
                        const char *to, atoll_provider_done_fn *done, void *arg)
{
    char volume[2 * 65];
    struct atoll_sm_copy msg = {volume, to};
    struct atoll_error err;

    (void)snprintf(volume, sizeof(volume), "%.64s/%.64s", tenant, from);
    if (atoll_native_check_copy(atoll_native_of(p), tenant, from, to, &err) < 0)
        done(arg, &err);
    else
        ask_plain(atoll_native_of(p), ATOLL_SPAWN_COPY_VOLUME, &atoll_sm_copy_desc, &msg, "", done,
                  arg);
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    return atoll_plan_missing_limits(&atoll_native_of(p)->plan_host, spec);
}

static int keeper(struct atoll_provider *p)
{
    const struct atoll_native *n = atoll_native_of(p);
    return n->rpc ? atoll_rpc_peer_pidfd(n->rpc) : -ENOTCONN;
}

static void shutdown_spawn(struct atoll_provider *p)
{
    struct atoll_native *n = atoll_native_of(p);

    n->ending = true;
    if (n->rpc)
        (void)!atoll_rpc_tell(n->rpc, ATOLL_SPAWN_END, NULL, NULL);
}

static struct atoll_provider *native_free(struct atoll_provider *p)
{
    struct atoll_native *n = p ? atoll_native_of(p) : NULL;

    if (!n)
        return NULL;
    /* Those who wait for an answer have things to release. */
    atoll_rpc_fail_all(n->rpc, "the daemon is ending");
    n->rpc = atoll_rpc_close(n->rpc);
    atoll_native_drop_all_sockets(n);
    atoll_native_end_return(n);
    atoll_id_ranges_done(&n->homes);
    atoll_cgroups_close(&n->cgroups);
    atoll_buf_done(&n->seccomp);
    free(n->state_dir);
    free(n->spawn_program);
    free(n);
    return NULL;
}

static const struct atoll_provider_ops ops = {
    .name = "native",
    .caps = caps_of,
    .missing_limits = missing_limits,
    .create = atoll_native_create,
    .dial = dial,
    .inspect = atoll_inspect_by_list,
    .list = list,
    .reserve = reserve,
    .adopt = adopt,
    .sockets = atoll_native_sockets,
    .destroy = destroy,
    .stop = stop,
    .pause = pause_sandbox,
    .reclaim = reclaim,
    .resume = resume_sandbox,
    .set_limits = set_limits,
    .stats = atoll_native_stats,
    .keep_layer = atoll_native_keep_layer,
    .snapshot_layer = atoll_native_snapshot_layer,
    .drop_layer = atoll_native_drop_layer,
    .list_volumes = atoll_native_list_volumes,
    .drop_volume = drop_volume,
    .copy_volume = copy_volume,
    .health = atoll_native_health,
    .keeper = keeper,
    .shutdown = shutdown_spawn,
    .free = native_free,
};

/* What the kernel tells about the first CPU, up to the empty line behind it. Reading it is slow where
 * it asks every CPU for its frequency: once is enough. */
static void read_cpu(char *out, size_t cap)
{
    ATOLL_AUTOCLOSE int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
    char *end;

    out[n > 0 ? n : 0] = '\0';
    end = strstr(out, "\n\n");
    out[end ? end + 1 - out : 0] = '\0';
}

/* Without a pool there are the other kinds of disks. */
static void make_pool(const struct atoll_native_config *config)
{
    struct atoll_error err;

    if (atoll_pool_image_make(config->state_dir, &err) < 0)
        atoll_log(config->disks == ATOLL_DISKS_COW ? ATOLL_LOG_WARN : ATOLL_LOG_INFO,
                  "there are no copy-on-write disks", "error", err.text, NULL);
}

static int prepare(struct atoll_native *n, const struct atoll_native_config *config,
                   struct atoll_error *err)
{
    struct atoll_host_caps caps;
    int r = atoll_host_caps_probe(&caps, err);

    if (r == 0)
        r = atoll_native_read_folders(n, config->host_folders, err);
    if (r == 0)
        r = atoll_host_template_make(config->state_dir, config->program_dir, err);
    if (r == 0)
        r = atoll_seccomp_build(&n->seccomp, err);
    if (r == 0 && config->disks != ATOLL_DISKS_PLAIN && caps.cow)
        make_pool(config);
    if (r == 0)
        r = atoll_native_connect_spawn(n, err);
    if (r < 0)
        return r;
    n->images = caps.loop;
    n->plan_host = (struct atoll_plan_host){
        .root = n->spawn.root,
        .cgroup_version = (int)n->spawn.cgroup_version,
        .lacking = n->spawn.lacking,
        .subuid = caps.subuid,
        .subgid = caps.subgid,
        .hides = n->spawn.hides,
        .stacks = n->spawn.stacks,
        .pool = n->spawn.pool,
        .folders = n->spawn.folders,
        .disks = config->disks,
        .subid_count = caps.subids ? ATOLL_MIN(caps.subuids, caps.subgids) : 0,
    };
    if (!n->spawn.hides)
        atoll_log(ATOLL_LOG_WARN,
                  "this atoll-spawn is of an earlier version, and does not hide private files of "
                  "/usr; it ends with its last sandbox when atolld is stopped",
                  NULL);
    read_cpu(n->plan_host.cpu, sizeof(n->plan_host.cpu));
    r = atoll_cgroups_open(&n->cgroups, n->spawn.instance, n->spawn.cgroup_path);
    if (r < 0)
        return atoll_fail_errno(err, -r, "cgroups");
    n->caps = (struct atoll_provider_caps){
        .isolation = "namespaces",
        .templates = true,
        .read_only = true,
        .disk_choice = true,
        .disk_pool = n->plan_host.pool && n->plan_host.disks != ATOLL_DISKS_PLAIN,
        .layers = true,
        .stacks = n->spawn.stacks,
        .snapshot_layers = n->spawn.snapshots && atoll_cgroups_can_freeze(&n->cgroups),
        .volumes = n->spawn.volumes,
        .volume_copies = n->spawn.volume_copies,
        .descriptors = true,
        .pause = atoll_cgroups_can_freeze(&n->cgroups),
        .reclaim = n->spawn.reclaims,
        .persistent = n->plan_host.root, /* disk images need loop devices */
        .set_limits = true,
        .stats = n->cgroups.version != 0,
        .networks = 1u << ATOLL_NETWORK_NONE,
        .sockets = n->spawn.network,
    };
    if (n->spawn.network)
        n->caps.networks |= 1u << ATOLL_NETWORK_ISOLATED | 1u << ATOLL_NETWORK_BRIDGE;
    return 0;
}

int atoll_native_open(struct atoll_loop *loop, const struct atoll_native_config *config,
                      struct atoll_provider **ret, struct atoll_error *err)
{
    struct atoll_native *n = calloc(1, sizeof(*n));
    int r;

    if (!n)
        return atoll_fail_errno(err, ENOMEM, "native provider");
    n->base.ops = &ops;
    n->loop = loop;
    n->answer_ms = ATOLL_NATIVE_ANSWER_MS;
    n->volumes = config->volumes;
    n->volume_bytes = config->volume_bytes;
    if (!config->volumes_are_given && config->free_tenant)
        (void)snprintf(n->free_tenant, sizeof(n->free_tenant), "%s", config->free_tenant);
    if (config->free_tenant)
        (void)snprintf(n->operator, sizeof(n->operator), "%s", config->free_tenant);
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        n->cgroups.parent_fd[i] = ATOLL_NO_FD;
    atoll_id_ranges_init(&n->homes);
    atoll_list_init(&n->id_waiters);
    atoll_buf_init(&n->seccomp, SECCOMP_MAX_BYTES);
    n->state_dir = strdup(config->state_dir);
    if (!n->state_dir || asprintf(&n->spawn_program, "%s/atoll-spawn", config->program_dir) < 0)
        r = atoll_fail_errno(err, ENOMEM, "native provider");
    else
        r = prepare(n, config, err);
    if (r < 0) {
        (void)native_free(&n->base);
        return r;
    }
    *ret = &n->base;
    return 0;
}
