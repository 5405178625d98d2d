#include "spawn/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "base/log.h"
#include "base/switches.h"
#include "base/text.h"
#include "proto/spawn_proto.h"
#include "spawn/disk_pool.h"
#include "spawn/id_block.h"
#include "spawn/layers.h"
#include "spawn/leftovers.h"
#include "spawn/paths.h"
#include "spawn/sandbox.h"
#include "spawn/volume_copy.h"

#define OUT_MAX (8 * 1024 * 1024) /* enough for a list with a sandbox for each id range */

/* Without a daemon, sandboxes and pending removals the process exits after this time, which is long
 * enough for a restart of the daemon. */
#define IDLE_MS 5000

struct atoll_server {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    struct atoll_sandboxes *sandboxes;
    struct atoll_layers layers;
    struct atoll_volume_copies copies;
    struct atoll_leftovers leftovers;
    int listen_fd;
    struct atoll_watch listen_watch;
    struct atoll_channel daemon; /* fd ATOLL_NO_FD: not connected */
    struct atoll_watch daemon_watch;
    struct atoll_timer idle;
};

static void check_idle(void *arg)
{
    struct atoll_server *server = arg;

    if (server->daemon.fd >= 0)
        return;
    if (atoll_sandboxes_count(server->sandboxes) == 0 && server->layers.count == 0 &&
        !atoll_leftovers_live(&server->leftovers))
        atoll_loop_stop(server->loop);
    else
        atoll_timer_set(&server->idle, server->loop, IDLE_MS, check_idle, server);
}

static void drop_daemon(struct atoll_server *server)
{
    atoll_watch_close(&server->daemon_watch);
    if (server->daemon.fd >= 0)
        atoll_channel_done(&server->daemon);
    atoll_sandboxes_forget_requests(server->sandboxes);
    atoll_layers_forget_requests(&server->layers);
    atoll_volume_copies_forget_requests(&server->copies);
    atoll_timer_set(&server->idle, server->loop, IDLE_MS, check_idle, server);
}

/* Sends at once; bytes that the socket does not accept wait for EPOLLOUT. A daemon that does not
 * read is disconnected when the queue is full; it connects again and gets the current state with
 * LIST. */
static void send_with(struct atoll_server *server, uint16_t type, uint32_t id,
                      const struct atoll_msg_desc *desc, const void *msg, const int *fds,
                      size_t nfds)
{
    int r;

    if (server->daemon.fd < 0)
        return;
    r = atoll_channel_send(&server->daemon, type, id, desc, msg, fds, nfds);
    if (r == 0)
        r = atoll_channel_flush(&server->daemon);
    if (r == 0)
        r = atoll_watch_set(&server->daemon_watch, EPOLLIN | EPOLLOUT);
    if (r < 0)
        drop_daemon(server);
}

static void send_frame(struct atoll_server *server, uint16_t type, uint32_t id,
                       const struct atoll_msg_desc *desc, const void *msg)
{
    send_with(server, type, id, desc, msg, NULL, 0);
}

static void send_error(struct atoll_server *server, uint32_t id, const struct atoll_error *error,
                       const char *step)
{
    struct atoll_sm_error msg = {(uint32_t)error->kind, error->errnum, error->text, step};
    send_frame(server, ATOLL_SPAWN_ERROR, id, &atoll_sm_error_desc, &msg);
}

static void on_started(void *arg, const char *id, uint32_t request, pid_t pid, uint64_t boot_us,
                       const struct atoll_error *error, const char *step)
{
    struct atoll_sm_created msg = {id, (uint32_t)pid, boot_us};
    struct atoll_server *server = arg;
    const struct atoll_netspace *space;

    if (request == 0)
        return;
    if (error) {
        send_error(server, request, error, step);
        return;
    }
    /* With its sockets: a request for them would wait while the next namespaces are prepared. */
    space = server->daemon.out_nfds == 0 ? atoll_sandboxes_network(server->sandboxes, id) : NULL;
    send_with(server, ATOLL_SPAWN_REPLY, request, &atoll_sm_created_desc, &msg,
              space ? (int[]){space->tcp, space->udp} : NULL, space ? 2 : 0);
}

static struct atoll_sm_exited exit_message(const char *id, const struct atoll_sandbox_exit *e)
{
    return (struct atoll_sm_exited){
        id, e->code, e->signal, e->stats.oom_kills, e->stats.memory_peak_bytes, e->stats.cpu_us};
}

static void on_exited(void *arg, const char *id, const struct atoll_sandbox_exit *e)
{
    struct atoll_sm_exited msg = exit_message(id, e);
    send_frame(arg, ATOLL_SPAWN_EXITED, 0, &atoll_sm_exited_desc, &msg);
}

static void on_removed(void *arg, const char *id, uint32_t request,
                       const struct atoll_sandbox_exit *e, const struct atoll_error *error)
{
    struct atoll_sm_exited msg = exit_message(id, e);

    if (request == 0)
        return;
    if (error)
        send_error(arg, request, error, "remove");
    else
        send_frame(arg, ATOLL_SPAWN_REPLY, request, &atoll_sm_exited_desc, &msg);
}

static void on_frozen(void *arg, uint32_t request, const struct atoll_error *error)
{
    if (error)
        send_error(arg, request, error, "freeze");
    else
        send_frame(arg, ATOLL_SPAWN_REPLY, request, NULL, NULL);
}

static void on_dropped(void *arg, uint32_t request, const struct atoll_error *error)
{
    if (error)
        send_error(arg, request, error, "");
    else
        send_frame(arg, ATOLL_SPAWN_REPLY, request, NULL, NULL);
}

static void on_committed(void *arg, uint32_t request, const struct atoll_sm_layer *made,
                         const struct atoll_error *error)
{
    if (error)
        send_error(arg, request, error, "");
    else
        send_frame(arg, ATOLL_SPAWN_REPLY, request, &atoll_sm_layer_desc, made);
}

static void on_left(void *arg, const char *name, const struct atoll_po_ids *ids)
{
    struct atoll_server *server = arg;
    struct atoll_error err;

    if (atoll_layers_drop(&server->layers, name, ids, 0, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "an incomplete layer stays until the next start", "error",
                  err.text, NULL);
}

static const struct atoll_sandboxes_events sandbox_events = {on_started, on_exited,    on_removed,
                                                             on_frozen,  on_committed, on_left};

/* Requests: each gets its decoded message; an error returned here is the answer. */

static uint32_t lacking_limits(const struct atoll_cgroups *cg)
{
    return (cg->has[ATOLL_CG_MEMORY] ? 0 : ATOLL_SPAWN_LACKS_MEMORY) |
           (cg->has[ATOLL_CG_CPU] ? 0 : ATOLL_SPAWN_LACKS_CPU) |
           (cg->has[ATOLL_CG_PIDS] ? 0 : ATOLL_SPAWN_LACKS_PIDS);
}

static int do_hello(struct atoll_server *server, uint32_t id, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_sm_hello *hello = msg;
    uint32_t bases[ATOLL_ID_BLOCKS] = {0};
    size_t blocks = server->host->ids ? atoll_id_blocks_list(server->host->ids, bases) : 0;
    struct atoll_sm_hello reply = {
        .version = ATOLL_SPAWN_VERSION,
        .pid = (uint32_t)getpid(),
        .root = server->host->root,
        .cgroup_version = (uint32_t)server->host->cgroups.version,
        .id_base = bases[0],
        .id_slots = blocks > 0 ? atoll_id_block_ranges() : 0,
        .instance = server->host->instance,
        .cgroup_path = server->host->cgroups.path,
        .cgroup_lacks = lacking_limits(&server->host->cgroups),
        .hides = true,
        .gives =
            (server->host->cgroups.has[ATOLL_CG_IO] ? ATOLL_SPAWN_GIVES_IO : 0) |
            (server->host->network ? ATOLL_SPAWN_GIVES_NETWORK : 0) | ATOLL_SPAWN_GIVES_STACKS |
            ATOLL_SPAWN_GIVES_SNAPSHOTS | ATOLL_SPAWN_GIVES_VOLUMES |
            (server->host->root ? ATOLL_SPAWN_GIVES_VOLUME_IMAGES | ATOLL_SPAWN_GIVES_VOLUME_COPIES
                                : 0) |
            ATOLL_SPAWN_GIVES_SAVE |
            (atoll_cgroups_can_reclaim(&server->host->cgroups) ? ATOLL_SPAWN_GIVES_RECLAIM : 0) |
            (server->host->pool_fd >= 0 ? ATOLL_SPAWN_GIVES_POOL : 0) | ATOLL_SPAWN_GIVES_FOLDERS,
    };

    if (blocks > 1)
        reply.id_more =
            (struct atoll_bytes){(const uint8_t *)&bases[1], (blocks - 1) * sizeof(bases[0])};

    if (hello->version != ATOLL_SPAWN_VERSION)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "this spawn speaks version %d, the daemon %u", ATOLL_SPAWN_VERSION,
                          hello->version);
    send_frame(server, ATOLL_SPAWN_REPLY, id, &atoll_sm_hello_desc, &reply);
    return 0;
}

static int do_create(struct atoll_server *server, uint32_t id, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_sm_create *create = msg;
    return atoll_sandboxes_start(server->sandboxes, create->id, id, create->plan.data,
                                 create->plan.len, err);
}

static int do_remove(struct atoll_server *server, uint32_t id, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_sm_remove *want = msg;

    (void)err;
    atoll_sandboxes_remove(server->sandboxes, id, want);
    return 0;
}

static int do_freeze(struct atoll_server *server, uint32_t id, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_sm_freeze *want = msg;

    (void)err;
    atoll_sandboxes_freeze(server->sandboxes, want->id, id, want->frozen);
    return 0;
}

static int do_reclaim(struct atoll_server *server, uint32_t id, const void *msg,
                      struct atoll_error *err)
{
    const struct atoll_sm_ref *want = msg;

    return atoll_sandboxes_reclaim(server->sandboxes, want->id, id, err);
}

static int do_limit(struct atoll_server *server, uint32_t id, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_sm_limit *want = msg;
    struct atoll_cgroup_limits limits = {want->memory_bytes, want->cpu_millis, want->pids};
    int r = atoll_text_is_id(want->id)
                ? atoll_cgroup_set_limits(&server->host->cgroups, want->id, &limits)
                : -EINVAL;

    if (r < 0)
        return atoll_fail_errno(err, -r, "set limits");
    send_frame(server, ATOLL_SPAWN_REPLY, id, NULL, NULL);
    return 0;
}

static int do_list(struct atoll_server *server, uint32_t id, const void *msg,
                   struct atoll_error *err)
{
    size_t pos = 0;
    const char *name;
    pid_t pid;

    (void)msg;
    (void)err;
    while ((name = atoll_sandboxes_next(server->sandboxes, &pos, &pid)) != NULL) {
        struct atoll_sm_created part = {name, (uint32_t)pid, 0};
        send_frame(server, ATOLL_SPAWN_PART, id, &atoll_sm_created_desc, &part);
    }
    send_frame(server, ATOLL_SPAWN_REPLY, id, NULL, NULL);
    return 0;
}

static int do_sockets(struct atoll_server *server, uint32_t id, const void *msg,
                      struct atoll_error *err)
{
    const struct atoll_sm_ref *ref = msg;
    const struct atoll_netspace *space = atoll_sandboxes_network(server->sandboxes, ref->id);

    if (!space)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %s with a network",
                          ref->id);
    send_with(server, ATOLL_SPAWN_REPLY, id, NULL, NULL, (int[]){space->tcp, space->udp}, 2);
    return 0;
}

static int do_take_ids(struct atoll_server *server, uint32_t id, const void *msg,
                       struct atoll_error *err)
{
    struct atoll_sm_ids reply = {.slots = atoll_id_block_ranges()};
    int r = server->host->ids
                ? atoll_id_blocks_take(server->host->ids, &reply.base, err)
                : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM, "id ranges need root");

    (void)msg;
    if (r == 0)
        send_frame(server, ATOLL_SPAWN_REPLY, id, &atoll_sm_ids_desc, &reply);
    return r;
}

static int do_give_ids(struct atoll_server *server, uint32_t id, const void *msg,
                       struct atoll_error *err)
{
    const struct atoll_sm_ids *ids = msg;
    int r;

    if (!server->host->ids ||
        atoll_sandboxes_use_ids(server->sandboxes, ids->base, UINT32_C(1) << ATOLL_ID_BLOCK_BITS))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY, "the id block is in use");
    r = atoll_id_blocks_give(server->host->ids, ids->base, err);
    if (r == 0)
        send_frame(server, ATOLL_SPAWN_REPLY, id, NULL, NULL);
    return r;
}

static int do_ping(struct atoll_server *server, uint32_t id, const void *msg,
                   struct atoll_error *err)
{
    (void)msg;
    (void)err;
    send_frame(server, ATOLL_SPAWN_REPLY, id, NULL, NULL);
    return 0;
}

static int do_commit(struct atoll_server *server, uint32_t id, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_sm_commit *commit = msg;
    return atoll_sandboxes_commit(server->sandboxes, commit->id, id, commit->path, commit->layer,
                                  err);
}

static int do_snapshot(struct atoll_server *server, uint32_t id, const void *msg,
                       struct atoll_error *err)
{
    return atoll_sandboxes_snapshot(server->sandboxes, id, msg, err);
}

/* Possible owners of the files of a tree. */
static struct atoll_po_ids ids_of(const struct atoll_sm_ref *ref)
{
    return (struct atoll_po_ids){.mode = ref->count ? ATOLL_IDS_SUBIDS : ATOLL_IDS_SINGLE,
                                 .outside = ref->outside,
                                 .outside_gid = ref->outside_gid,
                                 .count = ref->count};
}

static int do_drop_layer(struct atoll_server *server, uint32_t id, const void *msg,
                         struct atoll_error *err)
{
    const struct atoll_sm_ref *ref = msg;
    struct atoll_po_ids ids = ids_of(ref);

    return atoll_layers_drop(&server->layers, ref->id, &ids, id, err);
}

static int do_drop_volume(struct atoll_server *server, uint32_t id, const void *msg,
                          struct atoll_error *err)
{
    const struct atoll_sm_ref *ref = msg;
    struct atoll_po_ids ids = ids_of(ref);

    return atoll_volumes_drop(&server->layers, ref->id, &ids, id, err);
}

static int do_copy_volume(struct atoll_server *server, uint32_t id, const void *msg,
                          struct atoll_error *err)
{
    const struct atoll_sm_copy *want = msg;

    return atoll_volume_copy(&server->copies, want->from, want->to, id, err);
}

static int do_disk(struct atoll_server *server, uint32_t id, const void *msg,
                   struct atoll_error *err)
{
    const struct atoll_sm_ref *ref = msg;
    struct atoll_btrfs_group group;
    struct atoll_sm_disk reply;
    int r =
        atoll_text_is_id(ref->id) ? atoll_disk_pool_group(server->host, ref->id, &group) : -EINVAL;

    if (r < 0)
        return atoll_fail(err, r == -ENOENT ? ATOLL_ERR_NOT_FOUND : ATOLL_ERR_INTERNAL, -r,
                          "sandbox %s has no disk in the pool", ref->id);
    reply = (struct atoll_sm_disk){{group.file_system, sizeof(group.file_system)}, group.subvolume};
    send_frame(server, ATOLL_SPAWN_REPLY, id, &atoll_sm_disk_desc, &reply);
    return 0;
}

static int do_end(struct atoll_server *server, uint32_t id, const void *msg,
                  struct atoll_error *err)
{
    (void)id;
    (void)msg;
    (void)err;
    atoll_loop_stop(server->loop);
    return 0;
}

static const struct {
    uint16_t type;
    const char *name;
    const struct atoll_msg_desc *desc;
    int (*fn)(struct atoll_server *server, uint32_t id, const void *msg, struct atoll_error *err);
} requests[] = {
    {ATOLL_SPAWN_HELLO, "hello", &atoll_sm_hello_desc, do_hello},
    {ATOLL_SPAWN_CREATE, "create", &atoll_sm_create_desc, do_create},
    {ATOLL_SPAWN_REMOVE, "remove", &atoll_sm_remove_desc, do_remove},
    {ATOLL_SPAWN_FREEZE, "freeze", &atoll_sm_freeze_desc, do_freeze},
    {ATOLL_SPAWN_RECLAIM, "reclaim", &atoll_sm_ref_desc, do_reclaim},
    {ATOLL_SPAWN_LIMIT, "limit", &atoll_sm_limit_desc, do_limit},
    {ATOLL_SPAWN_LIST, "list", NULL, do_list},
    {ATOLL_SPAWN_COMMIT, "commit", &atoll_sm_commit_desc, do_commit},
    {ATOLL_SPAWN_DROP_LAYER, "drop_layer", &atoll_sm_ref_desc, do_drop_layer},
    {ATOLL_SPAWN_COPY_VOLUME, "copy_volume", &atoll_sm_copy_desc, do_copy_volume},
    {ATOLL_SPAWN_DROP_VOLUME, "drop_volume", &atoll_sm_ref_desc, do_drop_volume},
    {ATOLL_SPAWN_END, "end", NULL, do_end},
    {ATOLL_SPAWN_TAKE_IDS, "take_ids", NULL, do_take_ids},
    {ATOLL_SPAWN_GIVE_IDS, "give_ids", &atoll_sm_ids_desc, do_give_ids},
    {ATOLL_SPAWN_PING, "ping", NULL, do_ping},
    {ATOLL_SPAWN_SOCKETS, "sockets", &atoll_sm_ref_desc, do_sockets},
    {ATOLL_SPAWN_SNAPSHOT, "snapshot", &atoll_sm_snapshot_desc, do_snapshot},
    {ATOLL_SPAWN_DISK, "disk", &atoll_sm_ref_desc, do_disk},
};

union any_request {
    struct atoll_sm_hello hello;
    struct atoll_sm_create create;
    struct atoll_sm_limit limit;
    struct atoll_sm_commit commit;
    struct atoll_sm_snapshot snapshot;
    struct atoll_sm_ref ref;
    struct atoll_sm_copy copy;
    struct atoll_sm_remove remove;
    struct atoll_sm_freeze freeze;
    struct atoll_sm_ids ids;
};

/* While processes of an earlier atoll-spawn are left, only HELLO and END are handled. A request whose
 * answer has descriptors waits until the daemon has read the earlier ones. */
static bool has_to_wait(const struct atoll_server *server, uint16_t type)
{
    if (type == ATOLL_SPAWN_SOCKETS && server->daemon.out_nfds > 0)
        return true;
    return type != ATOLL_SPAWN_HELLO && type != ATOLL_SPAWN_END &&
           atoll_leftovers_live(&server->leftovers);
}

static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_server *server = arg;
    struct atoll_error err;
    union any_request msg;
    int r =
        atoll_fail(&err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS, "request %u is not known", frame->type);

    for (size_t i = 0; i < frame->nfds; i++)
        (void)close(frame->fds[i]);
    if (has_to_wait(server, frame->type))
        return -EAGAIN;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(requests); i++) {
        if (requests[i].type != frame->type)
            continue;
        if ((r = atoll_faultf("spawn.request_%s", requests[i].name)) != 0) {
            r = atoll_fail_errno(&err, r, "fault");
            break;
        }
        r = requests[i].desc
                ? atoll_msg_decode(requests[i].desc, frame->payload, frame->len, &msg, &err)
                : 0;
        if (r == 0)
            r = requests[i].fn(server, frame->id, &msg, &err);
    }
    if (r < 0)
        send_error(server, frame->id, &err, "");
    return server->daemon.fd >= 0 ? 0 : -EPIPE;
}

static void daemon_ready(void *arg, uint32_t events)
{
    struct atoll_server *server = arg;
    int r = 1;

    if (events & EPOLLOUT)
        r = atoll_channel_flush(&server->daemon);
    if (r > 0) {
        /* Requests that waited may be in the buffer already: no EPOLLIN announces them. */
        events |= EPOLLIN;
        r = atoll_watch_set(&server->daemon_watch, EPOLLIN);
    }
    if (r >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        r = atoll_channel_receive(&server->daemon, on_frame, server);
    if (r == -EAGAIN && !(events & (EPOLLHUP | EPOLLERR)))
        r = atoll_watch_set(&server->daemon_watch,
                            atoll_channel_pending(&server->daemon) ? EPOLLOUT : 0);
    if (r < 0)
        drop_daemon(server);
}

static void on_leftovers_ended(void *arg)
{
    struct atoll_server *server = arg;

    atoll_layers_sweep(&server->layers);
    if (server->daemon.fd < 0)
        return;
    if (atoll_watch_set(&server->daemon_watch, EPOLLIN | EPOLLOUT) < 0)
        drop_daemon(server);
    else
        daemon_ready(server, EPOLLIN); /* postponed requests may already be in the buffer */
}

static void accept_daemon(void *arg, uint32_t events)
{
    struct atoll_server *server = arg;
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd < 0)
        return;
    drop_daemon(server);
    if (atoll_channel_init(&server->daemon, fd, OUT_MAX) < 0 ||
        atoll_watch_open(&server->daemon_watch, server->loop, fd, EPOLLIN, daemon_ready, server) <
            0)
        drop_daemon(server);
}

int atoll_server_new(struct atoll_loop *loop, const struct atoll_spawn_host *host, int listen_fd,
                     struct atoll_server **ret, struct atoll_error *err)
{
    struct atoll_server *server = calloc(1, sizeof(*server));
    int r;

    if (!server)
        return atoll_fail_errno(err, ENOMEM, "server");
    server->loop = loop;
    server->host = host;
    server->listen_fd = listen_fd;
    server->daemon.fd = ATOLL_NO_FD;
    atoll_layers_init(&server->layers, loop, host, on_dropped, server);
    atoll_volume_copies_init(&server->copies, loop, host, on_dropped, server);
    r = atoll_sandboxes_new(loop, host, &sandbox_events, server, &server->sandboxes, err);
    if (r < 0) {
        free(server);
        return r;
    }
    r = atoll_watch_open(&server->listen_watch, loop, listen_fd, EPOLLIN, accept_daemon, server);
    if (r < 0)
        return atoll_fail_errno(err, -r, "watch the listening socket");
    atoll_timer_set(&server->idle, loop, IDLE_MS, check_idle, server);
    atoll_volume_copies_begin(
        &server->copies); /* what waits for a frozen volume cannot be killed */
    r = atoll_leftovers_end(&server->leftovers, loop, host, on_leftovers_ended, server, err);
    if (r < 0)
        return r;
    *ret = server;
    return 0;
}
