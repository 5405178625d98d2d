#include "provider/gvisor/gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/text.h"
#include "provider/gvisor/gvisor_internal.h"
#include "sandbox/copy_tree.h"
#include "sandbox/host_template.h"
#include "sandbox/plan_builder.h"
#include "sys/unix_socket.h"

static struct atoll_gvisor *gvisor_of(const struct atoll_sync_provider *p)
{
    return ATOLL_CONTAINER_OF((uintptr_t)p, struct atoll_gvisor, base);
}

/* Listing. */

struct listing {
    const char *wanted; /* NULL: all sandboxes */
    int alive;          /* of the wanted sandbox; -1: not found */
    const char *hidden;
    void (*each)(void *arg, const char *id, const char *handle, bool alive);
    void *arg;
};

static void on_listed(void *arg, struct atoll_frame *frame)
{
    struct listing *l = arg;
    struct atoll_sm_created msg;
    struct atoll_error err;

    if (frame->type != ATOLL_SPAWN_PART ||
        atoll_msg_decode(&atoll_sm_created_desc, frame->payload, frame->len, &msg, &err) < 0)
        return;
    if (l->wanted && strcmp(l->wanted, msg.id) == 0)
        l->alive = msg.pid != 0;
    if (l->each && strcmp(l->hidden, msg.id) != 0)
        l->each(l->arg, msg.id, "", msg.pid != 0);
}

int atoll_gvisor_alive(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                       struct atoll_error *err)
{
    struct listing l = {.wanted = id, .alive = -1};
    int r = atoll_gvisor_ask(&g->link, call, ATOLL_SPAWN_LIST, NULL, NULL, on_listed, &l, err);

    if (r < 0)
        return r;
    return l.alive < 0 ? atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s is gone", id)
                       : l.alive;
}

static int list(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                void (*each)(void *arg, const char *id, const char *handle, bool alive), void *arg,
                struct atoll_error *err)
{
    struct atoll_gvisor *g = gvisor_of(p);
    char trial[ATOLL_ID_LEN + 1];
    struct listing l = {.each = each, .arg = arg, .hidden = trial};

    (void)pthread_mutex_lock(&g->lock);
    memcpy(trial, g->trial, sizeof(trial));
    (void)pthread_mutex_unlock(&g->lock);
    return atoll_gvisor_ask(&g->link, call, ATOLL_SPAWN_LIST, NULL, NULL, on_listed, &l, err);
}

static void explain(const struct atoll_provider_exit *exit, const struct atoll_spec *spec,
                    char *out, size_t cap)
{
    if (exit->oom_kills > 0)
        (void)snprintf(out, cap, "gVisor was killed at its memory limit of %llu bytes",
                       (unsigned long long)spec->limits.memory_bytes);
    else if (exit->signal)
        (void)snprintf(out, cap, "gVisor was killed by signal %d", exit->signal);
    else
        (void)snprintf(out, cap, "gVisor ended with status %d", exit->code);
}

static int inspect(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                   struct atoll_error *err)
{
    struct atoll_gvisor *g = gvisor_of(p);
    int r = atoll_gvisor_alive(g, call, spec->id, err);

    if (r < 0 && err->kind != ATOLL_ERR_NOT_FOUND)
        return r;
    *ret = (struct atoll_provider_inspection){.state = ATOLL_INSPECT_GONE};
    if (r > 0) {
        ret->state = atoll_cgroup_is_frozen(&g->cgroups, spec->id) == 1 ? ATOLL_INSPECT_PAUSED
                                                                        : ATOLL_INSPECT_ALIVE;
    } else if (r == 0) {
        ret->state = ATOLL_INSPECT_EXITED;
        if (atoll_gvisor_exit_of(&g->link, spec->id, &ret->exit)) {
            /* OOM kills in this cgroup can only be of gVisor's own processes. */
            ret->oom = ret->exit.oom_kills > 0;
            explain(&ret->exit, spec, ret->cause, sizeof(ret->cause));
        } else {
            (void)snprintf(ret->cause, sizeof(ret->cause),
                           "gVisor ended while no daemon was running");
        }
    } else {
        (void)snprintf(ret->cause, sizeof(ret->cause), "atoll-spawn of gVisor has no such sandbox");
    }
    return 0;
}

static int dial(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err)
{
    char name[48];
    int fd;

    (void)call;
    (void)snprintf(name, sizeof(name), "%s.sock", spec->id);
    fd = atoll_unix_connect(gvisor_of(p)->sandboxes, name);
    if (fd == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s is gone", spec->id);
    if (fd < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -fd, "the agent of %s does not answer",
                          spec->id);
    *ret_fd = fd;
    return 0;
}

static void take_sockets(void *arg, struct atoll_frame *frame)
{
    int *fds = arg;

    for (size_t i = 0; i < 2 && frame->nfds == 2; i++)
        fds[i] = ATOLL_TAKE_FD(frame->fds[i]);
}

static int sockets(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, int *ret_tcp_fd, int *ret_dns_fd,
                   struct atoll_error *err)
{
    struct atoll_sm_ref ref = {.id = spec->id};
    int fds[2] = {ATOLL_NO_FD, ATOLL_NO_FD};
    int r = atoll_gvisor_ask(&gvisor_of(p)->link, call, ATOLL_SPAWN_SOCKETS, &atoll_sm_ref_desc,
                             &ref, take_sockets, fds, err);

    if (r < 0)
        return r;
    if (fds[0] < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "atoll-spawn sent no sockets");
    *ret_tcp_fd = fds[0];
    *ret_dns_fd = fds[1];
    return 0;
}

/* Removing. */

int atoll_gvisor_remove(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                        struct atoll_error *err)
{
    struct atoll_sm_remove msg = {.id = id};

    return atoll_gvisor_ask(&g->link, call, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, NULL,
                            NULL, err);
}

int atoll_gvisor_clear(struct atoll_gvisor *g, const struct atoll_sync_call *call, const char *id,
                       struct atoll_error *err)
{
    struct atoll_gvisor_range range = atoll_gvisor_range_of(g, id);
    int r = atoll_gvisor_remove(g, call, id, err);

    if (r == 0)
        atoll_gvisor_range_give(g, &range);
    return r;
}

static int destroy(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    return atoll_gvisor_clear(gvisor_of(p), call, spec->id, err);
}

/* Pausing and measuring. */

static int freeze(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  const struct atoll_spec *spec, uint8_t how, struct atoll_error *err)
{
    struct atoll_sm_freeze msg = {spec->id, how};

    return atoll_gvisor_ask(&gvisor_of(p)->link, call, ATOLL_SPAWN_FREEZE, &atoll_sm_freeze_desc,
                            &msg, NULL, NULL, err);
}

static int pause_sandbox(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_error *err)
{
    return freeze(p, call, spec, ATOLL_FREEZE_FREEZE, err);
}

static int resume_sandbox(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_spec *spec, struct atoll_error *err)
{
    int r = freeze(p, call, spec, ATOLL_FREEZE_THAW, err);

    return r < 0 ? r : atoll_gvisor_restored(gvisor_of(p), call, spec->id, err);
}

static int save(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, struct atoll_error *err)
{
    return freeze(p, call, spec, ATOLL_FREEZE_SAVE, err);
}

static int reclaim(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err)
{
    struct atoll_sm_ref msg = {.id = spec->id};

    return atoll_gvisor_ask(&gvisor_of(p)->link, call, ATOLL_SPAWN_RECLAIM, &atoll_sm_ref_desc,
                            &msg, NULL, NULL, err);
}

static int set_limits(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const struct atoll_spec *spec, const struct atoll_limits *limits,
                      struct atoll_error *err)
{
    struct atoll_sm_limit msg = {
        .id = spec->id,
        .memory_bytes = spec->waived & ATOLL_LIMIT_MEMORY ? 0 : limits->memory_bytes,
        .cpu_millis = spec->waived & ATOLL_LIMIT_CPU ? 0 : limits->cpu_millis,
        .pids = spec->waived & ATOLL_LIMIT_PIDS ? 0 : atoll_plan_runsc_tasks(limits->pids),
    };

    return atoll_gvisor_ask(&gvisor_of(p)->link, call, ATOLL_SPAWN_LIMIT, &atoll_sm_limit_desc,
                            &msg, NULL, NULL, err);
}

static int stats(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                 struct atoll_error *err)
{
    struct atoll_gvisor *g = gvisor_of(p);
    struct atoll_cgroup_stats s;
    int r = g->cgroups.version ? atoll_cgroup_read_stats(&g->cgroups, spec->id, &s) : -EOPNOTSUPP;

    (void)call;
    if (r < 0)
        return atoll_fail(err, r == -ENOENT ? ATOLL_ERR_NOT_FOUND : ATOLL_ERR_UNIMPLEMENTED, -r,
                          "the host has no statistics of sandbox %s", spec->id);
    *ret = (struct atoll_provider_stats){.memory_bytes = s.memory_bytes,
                                         .memory_peak_bytes = s.memory_peak_bytes,
                                         .memory_limit_bytes = s.memory_limit_bytes,
                                         .cpu_us = s.cpu_us,
                                         .processes = s.processes,
                                         .processes_peak = s.processes_peak};
    return 0;
}

static uint32_t missing_limits(const struct atoll_sync_provider *p, const struct atoll_spec *spec)
{
    return atoll_plan_missing_limits(&gvisor_of(p)->plan_host, spec);
}

/* Health. */

/* Starts a sandbox of its own, once: an installed program does not prove that the platform
 * works. */
static int run_test_sandbox(struct atoll_gvisor *g, const struct atoll_sync_call *call,
                            struct atoll_error *err)
{
    struct atoll_spec spec = {.limits = {.memory_bytes = UINT64_C(256) << 20,
                                         .cpu_millis = 1000,
                                         .pids = 64,
                                         .disk_bytes = UINT64_C(16) << 20,
                                         .inodes = 4096,
                                         .open_files = 256},
                              .waived = ATOLL_LIMIT_ALL};
    int fd = ATOLL_NO_FD;
    int r;

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    (void)pthread_mutex_lock(&g->lock);
    memcpy(g->trial, spec.id, sizeof(g->trial));
    (void)pthread_mutex_unlock(&g->lock);
    r = atoll_gvisor_create(&g->base, call, &spec, &fd, err);
    if (r == 0) {
        (void)close(fd);
        r = destroy(&g->base, call, &spec, err);
    }
    (void)pthread_mutex_lock(&g->lock);
    g->tried = g->tried || r == 0;
    g->trial[0] = '\0';
    (void)pthread_mutex_unlock(&g->lock);
    return r < 0 ? atoll_wrap(err, "starting a test sandbox of gVisor") : 0;
}

static int health(struct atoll_sync_provider *p, const struct atoll_sync_call *call, char *detail,
                  size_t cap, struct atoll_error *err)
{
    struct atoll_gvisor *g = gvisor_of(p);
    struct listing l = {.alive = -1};
    bool tried;
    int r;

    (void)pthread_mutex_lock(&g->lock);
    tried = g->tried;
    (void)pthread_mutex_unlock(&g->lock);
    if (access(g->runsc, X_OK) < 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errno, "runsc was removed");
    r = tried ? atoll_gvisor_ask(&g->link, call, ATOLL_SPAWN_LIST, NULL, NULL, on_listed, &l, err)
              : run_test_sandbox(g, call, err);
    if (r == 0)
        (void)snprintf(detail, cap, "runsc %s, %s", g->version, g->platform);
    return r;
}

static int keeper(struct atoll_sync_provider *p)
{
    return atoll_gvisor_link_keeper(&gvisor_of(p)->link);
}

static struct atoll_sync_provider *gvisor_free(struct atoll_sync_provider *p)
{
    struct atoll_gvisor *g = p ? gvisor_of(p) : NULL;

    if (!g)
        return NULL;
    atoll_gvisor_link_close(&g->link);
    atoll_cgroups_close(&g->cgroups);
    atoll_id_pool_done(&g->slots);
    (void)pthread_mutex_destroy(&g->lock);
    (void)pthread_mutex_destroy(&g->link.lock);
    (void)pthread_mutex_destroy(&g->link.keeper_lock);
    free(g->state_dir);
    free(g->sandboxes);
    free(g->runsc);
    free(g);
    return NULL;
}

static const struct atoll_sync_ops gvisor_ops = {
    .name = "gvisor",
    .caps =
        {
            .isolation = "gvisor",
            .templates = true,
            .stacks = true,
            .set_limits = true,
            .networks = 1u << ATOLL_NETWORK_NONE,
        },
    .missing_limits = missing_limits,
    .create = atoll_gvisor_create,
    .dial = dial,
    .inspect = inspect,
    .list = list,
    .sockets = sockets,
    .destroy = destroy,
    .pause = pause_sandbox,
    .reclaim = reclaim,
    .save = save,
    .snapshot_layer = atoll_gvisor_snapshot_layer,
    .resume = resume_sandbox,
    .set_limits = set_limits,
    .stats = stats,
    .health = health,
    .keeper = keeper,
    .free = gvisor_free,
};

/* Opening. */

/* The programs in every root, and their paths below layer/.atoll. */
static const struct {
    const char *program, *path;
} laid_out[] = {{"atoll-agent", "layer/.atoll/agent"},
                {"atoll-preload.so", "layer/.atoll/preload.so"}};

static bool is_current(int programs, int state_fd)
{
    struct stat ours, laid;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(laid_out); i++)
        if (fstatat(programs, laid_out[i].program, &ours, 0) < 0 ||
            fstatat(state_fd, laid_out[i].path, &laid, 0) < 0 || laid.st_size != ours.st_size ||
            laid.st_mtim.tv_sec < ours.st_mtim.tv_sec)
            return false;
    return true;
}

/* Renames the old layer: running sandboxes still use it. */
static int retire_layer(int state_fd)
{
    for (unsigned number = 0;; number++) {
        char name[32];

        (void)snprintf(name, sizeof(name), ATOLL_PROGRAMS_OLD "%u", number);
        if (renameat(state_fd, "layer", state_fd, name) == 0 || errno == ENOENT)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return -errno;
    }
}

/* Replaces the layer only if our programs have changed. */
static int install_programs(int state_fd, const char *program_dir, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int programs = open(program_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = programs < 0 ? -errno : 0;

    if (r == 0 && is_current(programs, state_fd))
        return 0;
    if (r == 0)
        r = retire_layer(state_fd);
    if (r == 0 &&
        (mkdirat(state_fd, "layer", 0755) < 0 || mkdirat(state_fd, "layer/.atoll", 0755) < 0 ||
         mkdirat(state_fd, "layer/.atoll/run", 0755) < 0))
        r = -errno;
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(laid_out); i++) {
        unsigned budget = 1;
        r = atoll_copy_tree(programs, laid_out[i].program, state_fd, laid_out[i].path, &budget);
        if (r == -ENOENT)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                              "%s is not beside atoll-spawn; install it there",
                              laid_out[i].program);
    }
    return r < 0 ? atoll_fail_errno(err, -r, "copy the agent") : 0;
}

static int prepare_state(struct atoll_gvisor *g, const struct atoll_gvisor_config *config,
                         struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int state_fd = ATOLL_NO_FD;
    mode_t mask;
    int r;

    if (mkdir(g->state_dir, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make the state directory of gVisor");
    state_fd = open(g->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* See spawn/own_root.h. */
    if (state_fd < 0 || (mkdirat(state_fd, "above", 0700) < 0 && errno != EEXIST))
        return atoll_fail_errno(err, errno, "open the state directory of gVisor");
    r = atoll_host_template_make(config->state_dir, config->program_dir, err);
    mask = umask(0);
    if (r == 0)
        r = install_programs(state_fd, config->program_dir, err);
    (void)umask(mask);
    return r;
}

static int connect_spawn(struct atoll_gvisor *g, const char *program_dir, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *program = NULL;
    int r;

    if (asprintf(&program, "%s/atoll-spawn", program_dir) < 0) {
        program = NULL;
        return atoll_fail_errno(err, ENOMEM, "gvisor provider");
    }
    r = atoll_gvisor_link_open(&g->link, g->state_dir, program, err);
    if (r < 0)
        return r;
    g->plan_host = (struct atoll_plan_host){.root = g->link.info.root,
                                            .cgroup_version = (int)g->link.info.cgroup_version,
                                            .lacking = g->link.info.lacking,
                                            .hides = g->link.info.hides,
                                            .stacks = g->link.info.stacks};
    r = atoll_cgroups_open(&g->cgroups, g->link.info.instance, g->link.info.cgroup_path);
    if (r < 0)
        return atoll_fail_errno(err, -r, "cgroups");
    g->ops.caps.pause = atoll_cgroups_can_freeze(&g->cgroups);
    g->ops.caps.save = g->link.info.saves;
    g->ops.caps.snapshot_layers = g->link.info.snapshots && g->ops.caps.pause;
    g->ops.caps.reclaim = g->link.info.reclaims;
    g->ops.caps.stats = g->cgroups.version != 0;
    g->ops.caps.sockets = g->link.info.network;
    if (g->link.info.network)
        g->ops.caps.networks |= 1u << ATOLL_NETWORK_ISOLATED | 1u << ATOLL_NETWORK_BRIDGE;
    return 0;
}

int atoll_gvisor_provider_new(const struct atoll_gvisor_config *config,
                              struct atoll_sync_provider **ret, struct atoll_error *err)
{
    struct atoll_gvisor *g = calloc(1, sizeof(*g));
    int r = 0;

    if (!g)
        return atoll_fail_errno(err, ENOMEM, "gvisor provider");
    g->ops = gvisor_ops;
    g->base.ops = &g->ops;
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        g->cgroups.parent_fd[i] = ATOLL_NO_FD;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_mutex_init(&g->link.lock, NULL);
    (void)pthread_mutex_init(&g->link.keeper_lock, NULL);
    g->link.keeper_fd = ATOLL_NO_FD;
    atoll_list_init(&g->link.apart);
    if (geteuid() != 0)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                       "provider gvisor needs atolld to run as root");
    else if (asprintf(&g->state_dir, "%s/" ATOLL_BELOW_GVISOR, config->state_dir) < 0 ||
             asprintf(&g->sandboxes, "%s/sandboxes", g->state_dir) < 0)
        r = atoll_fail_errno(err, ENOMEM, "gvisor provider");
    g->link.state_dir = g->state_dir;
    if (r == 0)
        r = atoll_gvisor_find_runsc(g, config, err);
    if (r == 0)
        r = prepare_state(g, config, err);
    if (r == 0)
        r = connect_spawn(g, config->program_dir, err);
    if (r < 0) {
        (void)gvisor_free(&g->base);
        return r;
    }
    *ret = &g->base;
    return 0;
}
