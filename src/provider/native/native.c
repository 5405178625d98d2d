#include "provider/native/native.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "provider/by_list.h"
#include "provider/image.h"
#include "provider/native/homes.h"
#include "provider/spawn_client.h"
#include "sandbox/host.h"
#include "sandbox/host_template.h"
#include "sandbox/plan_builder.h"
#include "sandbox/seccomp.h"
#include "sys/cgroup.h"
#include "sys/unix_socket.h"

#define SECCOMP_MAX_BYTES (64 * 1024)

struct native {
    struct atoll_provider base;
    struct atoll_loop *loop;
    char *state_dir, *spawn_program;
    struct atoll_spawn_info spawn;
    struct atoll_rpc *rpc;
    struct atoll_plan_host plan_host;
    struct atoll_cgroups cgroups; /* for reading */
    struct atoll_buf seccomp;
    struct atoll_homes homes;
    struct atoll_provider_caps caps;
    bool ending;
};

static struct native *native_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct native, base);
}

/* Creating: plan → spawn → connect to the agent. */

struct creation {
    struct native *n;
    struct atoll_spec spec;
    atoll_provider_created_fn *done;
    void *arg;
    struct atoll_error error; /* why it is being taken down again */
    bool cleared;             /* what stood in its way */
};

static void fail_creation(struct creation *c, const struct atoll_error *error)
{
    if (!c->spec.resume_disk) {
        atoll_homes_forget(&c->n->homes, c->spec.id);
        if (c->spec.persistent) /* where atoll-spawn died before it could */
            atoll_image_drop_kept(c->n->state_dir, c->spec.id);
    }
    c->done(c->arg, ATOLL_NO_FD, 0, error);
    free(c);
}

static int connect_agent(struct native *n, const char *id, struct atoll_error *err)
{
    char dir[4096], name[48];
    int fd;

    (void)snprintf(dir, sizeof(dir), "%s/sandboxes", n->state_dir);
    (void)snprintf(name, sizeof(name), "%s.sock", id);
    fd = atoll_unix_connect(dir, name);
    return fd < 0 ? atoll_fail_errno(err, -fd, "connect to the agent") : fd;
}

static void on_taken_down(void *arg, const struct atoll_answer *answer)
{
    struct creation *c = arg;

    (void)answer; /* what could not be removed atoll-spawn has logged */
    fail_creation(c, &c->error);
}

/* It runs, but nobody would ever reach it. */
static void take_down(struct creation *c, const struct atoll_error *error)
{
    struct atoll_sm_remove msg = {.id = c->spec.id, .keep_disk = c->spec.resume_disk};
    struct atoll_error err;

    c->error = *error;
    if (atoll_rpc_ask(c->n->rpc, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, on_taken_down, c,
                      &err) < 0)
        fail_creation(c, error);
}

static int send_plan(struct creation *c, struct atoll_error *err);

static void on_cleared(void *arg, const struct atoll_answer *answer)
{
    struct creation *c = arg;
    struct atoll_error err;

    if (answer->error)
        fail_creation(c, answer->error);
    else if (send_plan(c, &err) < 0)
        fail_creation(c, &err);
}

/* An earlier daemon died after it had asked for this start and before it could note that it was made:
 * nobody has had the result, and its disk is what counts. */
static bool clear_way(struct creation *c, const struct atoll_error *error)
{
    struct atoll_sm_remove msg = {.id = c->spec.id, .keep_disk = true};
    struct atoll_error err;

    if (error->kind != ATOLL_ERR_ALREADY_EXISTS || !c->spec.resume_disk || c->cleared)
        return false;
    c->cleared = true;
    return atoll_rpc_ask(c->n->rpc, ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, on_cleared, c,
                         &err) == 0;
}

static void on_created(void *arg, const struct atoll_answer *answer)
{
    struct creation *c = arg;
    struct atoll_sm_created created;
    struct atoll_error err;
    int fd;

    if (answer->error) {
        if (!clear_way(c, answer->error))
            fail_creation(c, answer->error);
        return;
    }
    if (atoll_msg_decode(&atoll_sm_created_desc, answer->frame->payload, answer->frame->len,
                         &created, &err) < 0) {
        fail_creation(c, &err);
        return;
    }
    fd = connect_agent(c->n, c->spec.id, &err);
    if (fd < 0) {
        take_down(c, &err);
        return;
    }
    c->done(c->arg, fd, created.boot_us, NULL);
    free(c);
}

static int send_plan(struct creation *c, struct atoll_error *err)
{
    struct native *n = c->n;
    struct atoll_sm_create create = {.id = c->spec.id};
    struct atoll_buf plan;
    int r;

    if (!n->rpc)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "atoll-spawn is not running");
    atoll_buf_init(&plan, ATOLL_PLAN_MAX);
    r = atoll_plan_build(&n->plan_host, &c->spec, &n->seccomp, &plan, err);
    if (r == 0) {
        create.plan = (struct atoll_bytes){atoll_buf_head(&plan), atoll_buf_size(&plan)};
        r = atoll_rpc_ask(n->rpc, ATOLL_SPAWN_CREATE, &atoll_sm_create_desc, &create, on_created, c,
                          err);
    }
    atoll_buf_done(&plan);
    return r;
}

static void image_ready(void *arg, const struct atoll_error *error)
{
    struct creation *c = arg;
    struct atoll_error err;

    if (error)
        fail_creation(c, error);
    else if (send_plan(c, &err) < 0)
        fail_creation(c, &err);
}

static void create(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg)
{
    struct native *n = native_of(p);
    struct creation *c = calloc(1, sizeof(*c));
    struct atoll_error err;
    char image[64];

    if (!c) {
        (void)atoll_fail_errno(&err, ENOMEM, "sandbox");
        done(arg, ATOLL_NO_FD, 0, &err);
        return;
    }
    *c = (struct creation){.n = n, .spec = *spec, .done = done, .arg = arg};
    if (atoll_homes_take(&n->homes, &c->spec, &err) < 0) {
        done(arg, ATOLL_NO_FD, 0, &err);
        free(c);
        return;
    }
    spec->outside_id = c->spec.outside_id;
    if (!c->spec.resume_disk &&
        atoll_plan_needs_image(&n->plan_host, &c->spec, image, sizeof(image))) {
        atoll_image_make(n->loop, n->state_dir, image, c->spec.limits.disk_bytes,
                         c->spec.limits.inodes, c->spec.persistent, image_ready, c);
        return;
    }
    image_ready(c, NULL);
}

/* Taking over what an earlier daemon made. */

struct listing {
    struct native *n;
    atoll_provider_each_fn *each;
    atoll_provider_done_fn *done;
    void *arg;
};

/* Of stopped sandboxes, and of those that were listed already: the first mention counts. */
static void on_disk(void *arg, const char *id)
{
    struct listing *l = arg;
    l->each(l->arg, id, "", false);
}

static void on_listed(void *arg, const struct atoll_answer *answer)
{
    struct listing *l = arg;
    struct atoll_sm_created msg;
    struct atoll_error err;

    if (answer->more) {
        if (atoll_msg_decode(&atoll_sm_created_desc, answer->frame->payload, answer->frame->len,
                             &msg, &err) == 0)
            l->each(l->arg, msg.id, "", msg.pid != 0);
        return;
    }
    if (!answer->error)
        atoll_image_each_kept(l->n->state_dir, on_disk, l);
    l->done(l->arg, answer->error);
    free(l);
}

static void list(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg)
{
    struct native *n = native_of(p);
    struct listing *l = calloc(1, sizeof(*l));
    struct atoll_error err;
    int r;

    if (!l)
        abort(); /* a small fixed object: the daemon is crash-only */
    *l = (struct listing){n, each, done, arg};
    r = n->rpc ? atoll_rpc_ask(n->rpc, ATOLL_SPAWN_LIST, NULL, NULL, on_listed, l, &err)
               : atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EPIPE, "atoll-spawn is not running");
    if (r < 0) {
        free(l);
        done(arg, &err);
    }
}

static void reserve(struct atoll_provider *p, const struct atoll_spec *spec)
{
    atoll_homes_reserve(&native_of(p)->homes, spec);
}

static void adopt(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg)
{
    struct atoll_error err;
    int fd = connect_agent(native_of(p), spec->id, &err);

    reserve(p, spec);
    done(arg, fd, 0, fd < 0 ? &err : NULL);
}

static void dial(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg)
{
    struct atoll_error err;
    int fd = connect_agent(native_of(p), spec->id, &err);

    done(arg, fd, fd < 0 ? &err : NULL);
}

/* Requests whose answer carries nothing but success. */

struct plain {
    struct native *n;
    char gone[ATOLL_ID_LEN + 1]; /* a sandbox to forget when it succeeded, or "" */
    atoll_provider_done_fn *done;
    void *arg;
};

static void on_plain(void *arg, const struct atoll_answer *answer)
{
    struct plain *p = arg;

    if (!answer->error && *p->gone)
        atoll_homes_forget(&p->n->homes, p->gone);
    p->done(p->arg, answer->error);
    free(p);
}

static void ask_plain(struct native *n, uint16_t type, const struct atoll_msg_desc *desc,
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
    r = n->rpc ? atoll_rpc_ask(n->rpc, type, desc, msg, on_plain, p, &err)
               : atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EPIPE, "atoll-spawn is not running");
    if (r < 0) {
        free(p);
        done(arg, &err);
    }
}

static void destroy(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_remove msg = {.id = spec->id};
    ask_plain(native_of(p), ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, spec->id, done, arg);
}

static void stop(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_remove msg = {.id = spec->id, .keep_disk = 1};
    ask_plain(native_of(p), ATOLL_SPAWN_REMOVE, &atoll_sm_remove_desc, &msg, "", done, arg);
}

static const struct atoll_provider_caps *caps_of(struct atoll_provider *p)
{
    return &native_of(p)->caps;
}

static void freeze(struct atoll_provider *p, const struct atoll_spec *spec, bool frozen,
                   atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_freeze msg = {spec->id, frozen};
    ask_plain(native_of(p), ATOLL_SPAWN_FREEZE, &atoll_sm_freeze_desc, &msg, "", done, arg);
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

static void set_limits(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_limit msg = {
        .id = spec->id,
        .memory_bytes = spec->waived & ATOLL_LIMIT_MEMORY ? 0 : limits->memory_bytes,
        .cpu_millis = spec->waived & ATOLL_LIMIT_CPU ? 0 : limits->cpu_millis,
        .pids = spec->waived & ATOLL_LIMIT_PIDS ? 0 : limits->pids,
    };
    ask_plain(native_of(p), ATOLL_SPAWN_LIMIT, &atoll_sm_limit_desc, &msg, "", done, arg);
}

static void keep_layer(struct atoll_provider *p, const struct atoll_spec *spec, const char *path,
                       const char *layer, atoll_provider_done_fn *done, void *arg)
{
    struct atoll_sm_commit msg = {spec->id, path, layer};
    ask_plain(native_of(p), ATOLL_SPAWN_COMMIT, &atoll_sm_commit_desc, &msg, "", done, arg);
}

static void drop_layer(struct atoll_provider *p, const char *layer, atoll_provider_done_fn *done,
                       void *arg)
{
    struct atoll_sm_ref ref = {layer};
    ask_plain(native_of(p), ATOLL_SPAWN_DROP_LAYER, &atoll_sm_ref_desc, &ref, "", done, arg);
}

static uint32_t missing_limits(struct atoll_provider *p, const struct atoll_spec *spec)
{
    return atoll_plan_missing_limits(&native_of(p)->plan_host, spec);
}

static void stats(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg)
{
    struct native *n = native_of(p);
    struct atoll_cgroup_stats s;
    struct atoll_error err;
    int r = n->cgroups.version ? atoll_cgroup_read_stats(&n->cgroups, spec->id, &s) : -EOPNOTSUPP;

    if (r < 0) {
        (void)atoll_fail(&err, r == -ENOENT ? ATOLL_ERR_NOT_FOUND : ATOLL_ERR_UNIMPLEMENTED, -r,
                         "the host has no figures about sandbox %s", spec->id);
        done(arg, NULL, &err);
        return;
    }
    done(arg,
         &(struct atoll_provider_stats){.memory_bytes = s.memory_bytes,
                                        .memory_peak_bytes = s.memory_peak_bytes,
                                        .memory_limit_bytes = s.memory_limit_bytes,
                                        .cpu_us = s.cpu_us,
                                        .processes = s.processes,
                                        .processes_peak = s.processes_peak},
         NULL);
}

/* Connection to spawn, and what happens when it breaks. */

static int on_event(void *arg, struct atoll_frame *frame)
{
    struct native *n = arg;
    struct atoll_sm_exited msg;
    struct atoll_error err;

    if (frame->type != ATOLL_SPAWN_EXITED ||
        atoll_msg_decode(&atoll_sm_exited_desc, frame->payload, frame->len, &msg, &err) < 0)
        return -EBADMSG;
    n->base.events->exited(n->base.events_arg, msg.id,
                           &(struct atoll_provider_exit){msg.code, msg.signal, msg.oom_kills,
                                                         msg.memory_peak_bytes, msg.cpu_us});
    return 0;
}

static void on_lost(void *arg, const char *why);
static const struct atoll_rpc_events rpc_events = {on_event, on_lost};

static int connect_spawn(struct native *n, const char *program, struct atoll_error *err)
{
    int fd;
    int r = atoll_spawn_connect(n->state_dir, program, &fd, &n->spawn, err);

    if (r < 0)
        return r;
    r = atoll_homes_open(&n->homes, n->spawn.id_base, n->spawn.id_slots);
    if (r < 0) {
        (void)close(fd);
        return atoll_fail_errno(err, -r, "id ranges");
    }
    return atoll_rpc_open(n->loop, fd, &atoll_spawn_protocol, &rpc_events, n, &n->rpc, err);
}

/* Its sandboxes died with it. Its keeper starts another, which clears away what they left. */
static void on_lost(void *arg, const char *why)
{
    struct native *n = arg;
    struct atoll_error err;

    n->rpc = atoll_rpc_close(n->rpc);
    if (n->ending)
        return;
    atoll_log(ATOLL_LOG_ERROR, "atoll-spawn is gone", "why", why, NULL);
    if (connect_spawn(n, NULL, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "atoll-spawn does not come back", "error", err.text, NULL);
    n->base.events->lost(n->base.events_arg, "atoll-spawn died, and its sandboxes with it");
}

static void shutdown_spawn(struct atoll_provider *p)
{
    struct native *n = native_of(p);

    n->ending = true;
    if (n->rpc)
        (void)!atoll_rpc_tell(n->rpc, ATOLL_SPAWN_END, NULL, NULL);
}

static struct atoll_provider *native_free(struct atoll_provider *p)
{
    struct native *n = p ? native_of(p) : NULL;

    if (!n)
        return NULL;
    n->rpc = atoll_rpc_close(n->rpc);
    atoll_homes_done(&n->homes);
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
    .create = create,
    .dial = dial,
    .look = atoll_look_by_list,
    .list = list,
    .reserve = reserve,
    .adopt = adopt,
    .destroy = destroy,
    .stop = stop,
    .pause = pause_sandbox,
    .resume = resume_sandbox,
    .set_limits = set_limits,
    .stats = stats,
    .keep_layer = keep_layer,
    .drop_layer = drop_layer,
    .health = atoll_health_by_list,
    .shutdown = shutdown_spawn,
    .free = native_free,
};

static int prepare(struct native *n, const struct atoll_native_config *config,
                   struct atoll_error *err)
{
    struct atoll_host_caps caps;
    int r = atoll_host_caps_probe(&caps, err);

    if (r == 0)
        r = atoll_host_template_make(config->state_dir, config->program_dir, err);
    if (r == 0)
        r = atoll_seccomp_build(&n->seccomp, err);
    if (r == 0)
        r = connect_spawn(n, n->spawn_program, err);
    if (r < 0)
        return r;
    n->plan_host = (struct atoll_plan_host){
        .root = n->spawn.root,
        .cgroup_version = (int)n->spawn.cgroup_version,
        .lacking = n->spawn.lacking,
        .subuid = caps.subuid,
        .subgid = caps.subgid,
        .subid_count = caps.subids ? ATOLL_MIN(caps.subuids, caps.subgids) : 0,
    };
    r = atoll_cgroups_open(&n->cgroups, n->spawn.instance, n->spawn.cgroup_path);
    if (r < 0)
        return atoll_fail_errno(err, -r, "cgroups");
    n->caps = (struct atoll_provider_caps){
        .isolation = "namespaces",
        .templates = true,
        .layers = true,
        .descriptors = true,
        .pause = atoll_cgroups_can_freeze(&n->cgroups),
        .persistent = true,
        .set_limits = true,
        .stats = n->cgroups.version != 0,
        .networks = 1u << ATOLL_NETWORK_NONE,
    };
    return 0;
}

int atoll_native_open(struct atoll_loop *loop, const struct atoll_native_config *config,
                      struct atoll_provider **ret, struct atoll_error *err)
{
    struct native *n = calloc(1, sizeof(*n));
    int r;

    if (!n)
        return atoll_fail_errno(err, ENOMEM, "native provider");
    n->base.ops = &ops;
    n->loop = loop;
    for (size_t i = 0; i < ATOLL_CG_COUNT; i++)
        n->cgroups.parent_fd[i] = ATOLL_NO_FD;
    atoll_homes_init(&n->homes);
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
