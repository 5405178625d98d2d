#include "egress/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "base/log.h"
#include "egress/box.h"
#include "egress/peers.h"
#include "egress/report.h"
#include "egress/secrets.h"

#define OUT_MAX ((size_t)4 * 1024 * 1024)
/* Events wait in their own queue beyond this, so that answers pass. */
#define EVENTS_PENDING_MAX ((size_t)256 * 1024)
/* For a daemon to come, at first and after the last one has left. */
#define IDLE_MS 5000
#define FIRST_MS 60000
#define KEEPERS_MAX ATOLL_FD_PASS_MAX
/* Descriptors: of everything else, of one sandbox, of one connection. A relay waits for a pipe if there is
 * none. Shares may exceed their total three times (base/shares.h). */
#define FDS_OTHERS 1024
#define FDS_BOX 2
#define FDS_CONNECTION (2 * 3)
#define CONNECTIONS_MIN 64

/* A process that keeps sandboxes alive. */
struct keeper {
    int pidfd; /* owned; ATOLL_NO_FD: none, or it has ended */
    struct atoll_watch watch;
    struct atoll_control *control;
};

struct atoll_control {
    struct atoll_egress *egress;
    struct atoll_watch listening;
    struct atoll_channel daemon; /* fd ATOLL_NO_FD: not connected */
    struct atoll_watch watch;
    struct atoll_timer idle;
    struct keeper keepers[KEEPERS_MAX];
    size_t total_wanted; /* connections, by the daemon; 0: as many as possible */
};

static void check_idle(void *arg)
{
    struct atoll_control *c = arg;

    if (c->daemon.fd >= 0)
        return;
    for (size_t i = 0; i < KEEPERS_MAX; i++)
        if (c->keepers[i].pidfd >= 0)
            return;
    atoll_loop_stop(c->egress->loop);
}

static void expect_daemon(struct atoll_control *c)
{
    atoll_timer_set(&c->idle, c->egress->loop, IDLE_MS, check_idle, c);
}

static void drop_daemon(struct atoll_control *c)
{
    atoll_watch_close(&c->watch);
    if (c->daemon.fd >= 0)
        atoll_channel_done(&c->daemon);
    c->daemon.fd = ATOLL_NO_FD;
    atoll_peer_dials_fail(c->egress);
    expect_daemon(c);
}

/* Sending. A daemon that does not read its answers is disconnected; it connects again. */

/* Moves events to the channel as far as there is room. */
static int send_events(struct atoll_control *c)
{
    struct atoll_reports *reports = c->egress->reports;
    const struct atoll_em_connection *event;
    int r = 0;

    while (r == 0 && atoll_channel_pending(&c->daemon) < EVENTS_PENDING_MAX &&
           (event = atoll_reports_first(reports))) {
        r = atoll_channel_send(&c->daemon, ATOLL_EGRESS_CONNECTION, 0, &atoll_em_connection_desc,
                               event, NULL, 0);
        if (r == 0)
            atoll_reports_pop(reports);
    }
    return r;
}

/* Writes what is queued. May disconnect the daemon. */
static void flush(struct atoll_control *c)
{
    int r;

    do {
        r = send_events(c);
        if (r == 0)
            r = atoll_channel_flush(&c->daemon);
    } while (r == 1 && atoll_reports_first(c->egress->reports));
    if (r >= 0)
        r = atoll_watch_set(&c->watch, r == 1 ? EPOLLIN : EPOLLIN | EPOLLOUT);
    if (r < 0)
        drop_daemon(c);
}

/* Events are written by the next turn of the loop, many at once. */
static void on_event(void *arg)
{
    struct atoll_control *c = arg;

    if (c->daemon.fd >= 0 && atoll_watch_set(&c->watch, EPOLLIN | EPOLLOUT) < 0)
        atoll_log(ATOLL_LOG_WARN, "cannot watch the daemon's connection", NULL);
}

static void answer(struct atoll_control *c, uint16_t type, uint32_t id,
                   const struct atoll_msg_desc *desc, const void *msg)
{
    if (c->daemon.fd < 0)
        return;
    /* Events of what the request did come before its answer, unless very many wait. */
    if (send_events(c) < 0 || atoll_channel_send(&c->daemon, type, id, desc, msg, NULL, 0) < 0)
        drop_daemon(c);
    else
        flush(c);
}

static void answer_error(struct atoll_control *c, uint32_t id, const struct atoll_error *error)
{
    struct atoll_em_error msg = {(uint32_t)error->kind, error->errnum, error->text};

    answer(c, ATOLL_EGRESS_ERROR, id, &atoll_em_error_desc, &msg);
}

bool atoll_control_dial(struct atoll_control *c, const struct atoll_em_dial *message)
{
    if (!c || c->daemon.fd < 0 ||
        atoll_channel_send(&c->daemon, ATOLL_EGRESS_DIAL, 0, &atoll_em_dial_desc, message, NULL,
                           0) < 0)
        return false;
    on_event(c);
    return true;
}

/* Requests: each gets its decoded message and takes the descriptors that it uses; an error that it returns
 * is the answer. */

static void keeper_ended(void *arg, uint32_t events)
{
    struct keeper *k = arg;

    (void)events;
    atoll_watch_close(&k->watch);
    (void)close(ATOLL_TAKE_FD(k->pidfd));
    if (k->control->daemon.fd < 0)
        expect_daemon(k->control);
}

static void keeper_done(struct keeper *k)
{
    atoll_watch_close(&k->watch);
    if (k->pidfd >= 0)
        (void)close(ATOLL_TAKE_FD(k->pidfd));
}

static void take_keepers(struct atoll_control *c, struct atoll_frame *frame)
{
    for (size_t i = 0; i < KEEPERS_MAX; i++) {
        struct keeper *k = &c->keepers[i];

        keeper_done(k);
        if (i >= frame->nfds)
            continue;
        k->pidfd = ATOLL_TAKE_FD(frame->fds[i]);
        k->control = c;
        if (atoll_watch_open(&k->watch, c->egress->loop, k->pidfd, EPOLLIN, keeper_ended, k) < 0)
            keeper_done(k);
    }
}

/* As many connections as the limit of descriptors permits. */
static void set_total(struct atoll_control *c)
{
    struct rlimit limit = {1024, 1024};
    size_t used = FDS_OTHERS + FDS_BOX * c->egress->boxes.used, most;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_cur > used ? ((size_t)limit.rlim_cur - used) / FDS_CONNECTION : 0;
    most = ATOLL_MAX(most, (size_t)CONNECTIONS_MIN);
    c->egress->shares.max = c->total_wanted > 0 ? ATOLL_MIN(most, c->total_wanted) : most;
}

static int do_hello(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_em_hello *hello = msg;
    struct atoll_em_hello reply = {.version = ATOLL_EGRESS_VERSION, .pid = (uint32_t)getpid()};
    struct atoll_box *box;

    if (hello->version != ATOLL_EGRESS_VERSION)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "this atoll-egress speaks version %d, the daemon %u",
                          ATOLL_EGRESS_VERSION, hello->version);
    take_keepers(c, frame);
    c->total_wanted = (size_t)hello->total_max;
    set_total(c);
    reply.total_max = c->egress->shares.max;
    for (size_t pos = 0; (box = atoll_map_next(&c->egress->boxes, &pos));)
        box->named = false;
    answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_hello_desc, &reply);
    return 0;
}

static int parse_put(const struct atoll_em_put *put, struct atoll_network_policy **ret_policy,
                     struct atoll_network_bound **ret_bound, struct atoll_error *err)
{
    json_t *policy = put->policy.len > 0 ? json_loadb((const char *)put->policy.data,
                                                      put->policy.len, JSON_DECODE_ANY, NULL)
                                         : json_null();
    json_t *bound = put->bound.len > 0 ? json_loadb((const char *)put->bound.data, put->bound.len,
                                                    JSON_DECODE_ANY, NULL)
                                       : json_null();
    int r = policy && bound
                ? 0
                : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the policy is not JSON");

    if (r == 0)
        r = atoll_network_policy_parse(policy, ret_policy, err);
    if (r == 0 && (r = atoll_network_bound_parse(bound, ret_bound, err)) < 0)
        *ret_policy = atoll_network_policy_free(*ret_policy);
    json_decref(policy);
    json_decref(bound);
    return r;
}

static struct atoll_box *find_box(const struct atoll_control *c, const char *id,
                                  struct atoll_error *err)
{
    struct atoll_box *box = atoll_map_get(&c->egress->boxes, id);

    if (!box)
        (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "no sandbox %.64s here", id);
    return box;
}

static int do_policy(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_em_put *put = msg;
    struct atoll_box *box = find_box(c, put->id, err);
    struct atoll_network_policy *policy;
    struct atoll_network_bound *bound;
    int r = box ? parse_put(put, &policy, &bound, err) : -ENOENT;

    if (r < 0)
        return r;
    atoll_peers_add(box, put->name);
    atoll_box_set_policy(box, policy, bound);
    answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int put_again(struct atoll_box *box, struct atoll_frame *frame,
                     struct atoll_network_policy *policy, struct atoll_network_bound *bound,
                     struct atoll_error *err)
{
    int r =
        atoll_box_set_sockets(box, ATOLL_TAKE_FD(frame->fds[0]), ATOLL_TAKE_FD(frame->fds[1]), err);

    if (r < 0) {
        (void)atoll_network_policy_free(policy);
        (void)atoll_network_bound_free(bound);
        atoll_box_remove(box);
        return r;
    }
    box->named = true;
    atoll_box_set_policy(box, policy, bound);
    return 0;
}

static int do_put(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                  struct atoll_error *err)
{
    const struct atoll_em_put *put = msg;
    struct atoll_box *box = atoll_map_get(&c->egress->boxes, put->id);
    struct atoll_network_policy *policy;
    struct atoll_network_bound *bound;
    int r;

    if (frame->nfds != 2)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "two descriptors are needed");
    /* A sandbox of another tenant cannot have the same id, but what it left behind could. */
    if (box && strcmp(box->tenant, put->tenant) != 0) {
        atoll_box_remove(box);
        box = NULL;
    }
    r = parse_put(put, &policy, &bound, err);
    if (r < 0)
        return r;
    if (box) {
        atoll_peers_add(box, put->name);
        r = put_again(box, frame, policy, bound, err);
    } else {
        r = atoll_box_open(c->egress, put, ATOLL_TAKE_FD(frame->fds[0]),
                           ATOLL_TAKE_FD(frame->fds[1]), policy, bound, err);
        if (r < 0) {
            (void)atoll_network_policy_free(policy);
            (void)atoll_network_bound_free(bound);
        }
    }
    set_total(c);
    if (r == 0)
        answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return r;
}

static int do_synced(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    struct atoll_box *box;

    (void)msg;
    (void)err;
    for (size_t pos = 0; (box = atoll_map_next(&c->egress->boxes, &pos));)
        if (!box->named)
            atoll_box_remove(box);
    answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int do_drop(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                   struct atoll_error *err)
{
    const struct atoll_em_ref *ref = msg;
    struct atoll_box *box = find_box(c, ref->id, err);
    struct atoll_em_stats stats;

    if (!box)
        return -ENOENT;
    atoll_box_close_connections(box);
    stats = box->stats;
    atoll_box_remove(box);
    set_total(c);
    answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_stats_desc, &stats);
    return 0;
}

static int do_stats(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                    struct atoll_error *err)
{
    const struct atoll_em_ref *ref = msg;
    struct atoll_box *box = find_box(c, ref->id, err);

    if (!box)
        return -ENOENT;
    answer(c, ATOLL_EGRESS_REPLY, frame->id, &atoll_em_stats_desc, &box->stats);
    return 0;
}

static int do_end(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                  struct atoll_error *err)
{
    (void)frame;
    (void)msg;
    (void)err;
    atoll_loop_stop(c->egress->loop);
    return 0;
}

static int do_ping(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                   struct atoll_error *err)
{
    (void)msg;
    (void)err;
    answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static int do_secrets(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                      struct atoll_error *err)
{
    const struct atoll_em_secrets *secrets = msg;
    int r = atoll_secrets_set(&c->egress->secrets, secrets->tenant, &secrets->secrets, err);

    if (r == 0)
        answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return r;
}

static int do_dialed(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
                     struct atoll_error *err)
{
    const struct atoll_em_dialed *dialed = msg;

    (void)err;
    atoll_peer_dial_answer(c->egress, dialed->number,
                           frame->nfds > 0 ? ATOLL_TAKE_FD(frame->fds[0]) : ATOLL_NO_FD,
                           dialed->errnum);
    answer(c, ATOLL_EGRESS_REPLY, frame->id, NULL, NULL);
    return 0;
}

static const struct request {
    uint16_t type;
    const struct atoll_msg_desc *desc; /* NULL: empty */
    int (*fn)(struct atoll_control *c, struct atoll_frame *frame, const void *msg,
              struct atoll_error *err);
} requests[] = {
    {ATOLL_EGRESS_HELLO, &atoll_em_hello_desc, do_hello},
    {ATOLL_EGRESS_PUT, &atoll_em_put_desc, do_put},
    {ATOLL_EGRESS_SYNCED, NULL, do_synced},
    {ATOLL_EGRESS_POLICY, &atoll_em_put_desc, do_policy},
    {ATOLL_EGRESS_DROP, &atoll_em_ref_desc, do_drop},
    {ATOLL_EGRESS_STATS, &atoll_em_ref_desc, do_stats},
    {ATOLL_EGRESS_END, NULL, do_end},
    {ATOLL_EGRESS_PING, NULL, do_ping},
    {ATOLL_EGRESS_SECRETS, &atoll_em_secrets_desc, do_secrets},
    {ATOLL_EGRESS_DIALED, &atoll_em_dialed_desc, do_dialed},
};

static int serve(struct atoll_control *c, struct atoll_frame *frame, struct atoll_error *err)
{
    union {
        struct atoll_em_hello hello;
        struct atoll_em_put put;
        struct atoll_em_ref ref;
        struct atoll_em_secrets secrets;
        struct atoll_em_dialed dialed;
    } msg;
    int r;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(requests); i++) {
        const struct request *request = &requests[i];

        if (request->type != frame->type)
            continue;
        r = request->desc ? atoll_msg_decode(request->desc, frame->payload, frame->len, &msg, err)
                          : 0;
        return r < 0 ? r : request->fn(c, frame, &msg, err);
    }
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS, "unknown request %u",
                      (unsigned)frame->type);
}

/* -ECONNRESET: the daemon was disconnected. */
static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_control *c = arg;
    struct atoll_error err;

    if (serve(c, frame, &err) < 0)
        answer_error(c, frame->id, &err);
    for (size_t i = 0; i < frame->nfds; i++)
        if (frame->fds[i] >= 0)
            (void)close(frame->fds[i]);
    return c->daemon.fd < 0 ? -ECONNRESET : 0;
}

/* The loop */

static void on_daemon(void *arg, uint32_t events)
{
    struct atoll_control *c = arg;
    int r = 0;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        r = atoll_channel_receive(&c->daemon, on_frame, c);
    if (c->daemon.fd >= 0 && (r < 0 && r != -EAGAIN))
        drop_daemon(c);
    if (c->daemon.fd >= 0 && events & EPOLLOUT)
        flush(c);
}

/* The socket is in a directory of mode 0700; this is for a descriptor that got elsewhere. */
static bool is_daemon(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

static void on_connect(void *arg, uint32_t events)
{
    struct atoll_control *c = arg;
    int fd = accept4(c->listening.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)events;
    if (fd < 0)
        return;
    if (!is_daemon(fd)) {
        (void)close(fd);
        return;
    }
    drop_daemon(c);
    if (atoll_channel_init(&c->daemon, fd, OUT_MAX) < 0) {
        c->daemon.fd = ATOLL_NO_FD;
        return;
    }
    if (atoll_watch_open(&c->watch, c->egress->loop, fd, EPOLLIN, on_daemon, c) < 0)
        drop_daemon(c);
    else
        atoll_timer_cancel(&c->idle);
}

int atoll_control_open(struct atoll_egress *egress, int listen_fd, struct atoll_control **ret,
                       struct atoll_error *err)
{
    struct atoll_control *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        abort();
    c->egress = egress;
    c->daemon.fd = ATOLL_NO_FD;
    for (size_t i = 0; i < KEEPERS_MAX; i++)
        c->keepers[i].pidfd = ATOLL_NO_FD;
    r = atoll_watch_open(&c->listening, egress->loop, listen_fd, EPOLLIN, on_connect, c);
    if (r < 0) {
        free(c);
        return atoll_fail_errno(err, -r, "watch the control socket");
    }
    atoll_reports_on_queued(egress->reports, on_event, c);
    atoll_timer_set(&c->idle, egress->loop, FIRST_MS, check_idle, c);
    egress->control = c;
    *ret = c;
    return 0;
}

struct atoll_control *atoll_control_close(struct atoll_control *c)
{
    struct atoll_box *box;

    if (!c)
        return NULL;
    for (size_t pos = 0; (box = atoll_map_next(&c->egress->boxes, &pos));)
        atoll_box_remove(box);
    atoll_reports_on_queued(c->egress->reports, NULL, NULL);
    drop_daemon(c);
    atoll_timer_cancel(&c->idle);
    for (size_t i = 0; i < KEEPERS_MAX; i++)
        keeper_done(&c->keepers[i]);
    atoll_watch_close(&c->listening);
    c->egress->control = NULL;
    free(c);
    return NULL;
}
