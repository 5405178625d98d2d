#include <errno.h>
#include <sys/socket.h>
#include "base/log.h"
#include "egress/box.h"
#include "egress/cache.h"
#include "egress/control_internal.h"
#include "egress/peers.h"
#include "egress/report.h"

#define OUT_MAX ((size_t)4 * 1024 * 1024)
/* Events wait in their own queue beyond this, so that answers pass. */
#define EVENTS_PENDING_MAX ((size_t)256 * 1024)
/* For a daemon to come, at first and after the last one has left. */
#define IDLE_MS 5000
#define FIRST_MS 60000
/* Counters of the cache are sent together. */
#define COUNTING_MS 200

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

void atoll_control_answer(struct atoll_control *c, uint16_t type, uint32_t id,
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

    atoll_control_answer(c, ATOLL_EGRESS_ERROR, id, &atoll_em_error_desc, &msg);
}

bool atoll_control_tell(struct atoll_control *c, uint16_t type, const struct atoll_msg_desc *desc,
                        const void *msg)
{
    if (!c || c->daemon.fd < 0 || atoll_channel_send(&c->daemon, type, 0, desc, msg, NULL, 0) < 0)
        return false;
    on_event(c);
    return true;
}

bool atoll_control_dial(struct atoll_control *c, const struct atoll_em_dial *message)
{
    return atoll_control_tell(c, ATOLL_EGRESS_DIAL, &atoll_em_dial_desc, message);
}

/* Processes that keep sandboxes alive. */

static void keeper_ended(void *arg, uint32_t events)
{
    struct atoll_control_keeper *k = arg;

    (void)events;
    atoll_watch_close(&k->watch);
    (void)close(ATOLL_TAKE_FD(k->pidfd));
    if (k->control->daemon.fd < 0)
        expect_daemon(k->control);
}

static void keeper_done(struct atoll_control_keeper *k)
{
    atoll_watch_close(&k->watch);
    if (k->pidfd >= 0)
        (void)close(ATOLL_TAKE_FD(k->pidfd));
}

/* Takes the pidfd. */
static void keeper_watch(struct atoll_control *c, struct atoll_control_keeper *k, int pidfd)
{
    k->pidfd = pidfd;
    k->control = c;
    if (atoll_watch_open(&k->watch, c->egress->loop, k->pidfd, EPOLLIN, keeper_ended, k) < 0)
        keeper_done(k);
}

void atoll_control_take_keepers(struct atoll_control *c, struct atoll_frame *frame)
{
    keeper_done(&c->starter);
    for (size_t i = 0; i < KEEPERS_MAX; i++) {
        keeper_done(&c->keepers[i]);
        if (i < frame->nfds)
            keeper_watch(c, &c->keepers[i], ATOLL_TAKE_FD(frame->fds[i]));
    }
}

/* Counters of the cache. */

static void send_counts(void *arg)
{
    struct atoll_control *c = arg;
    struct atoll_cache_counts n;

    if (c->daemon.fd < 0 || !atoll_cache_table_of(c->egress->cache))
        return; /* they are sent after the next CACHE */
    atoll_cache_take_counts(c->egress->cache, &n);
    (void)!atoll_control_tell(c, ATOLL_EGRESS_CACHED, &atoll_em_cached_desc,
                              &(struct atoll_em_cached){.hits = n.hits,
                                                        .misses = n.misses,
                                                        .hit_bytes = n.hit_bytes,
                                                        .miss_bytes = n.miss_bytes,
                                                        .evictions = n.evictions,
                                                        .mismatches = n.mismatches,
                                                        .failures = n.failures,
                                                        .bytes = n.bytes,
                                                        .files = n.files});
}

static void on_count(void *arg)
{
    struct atoll_control *c = arg;

    atoll_timer_set(&c->counting, c->egress->loop, COUNTING_MS, send_counts, c);
}

/* -ECONNRESET: the daemon was disconnected. */
static int on_frame(void *arg, struct atoll_frame *frame)
{
    struct atoll_control *c = arg;
    struct atoll_error err;

    if (atoll_control_serve(c, frame, &err) < 0)
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

int atoll_control_open(struct atoll_egress *egress, int listen_fd, int starter_fd,
                       struct atoll_control **ret, struct atoll_error *err)
{
    struct atoll_control *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        abort();
    c->egress = egress;
    c->daemon.fd = c->starter.pidfd = ATOLL_NO_FD;
    for (size_t i = 0; i < KEEPERS_MAX; i++)
        c->keepers[i].pidfd = ATOLL_NO_FD;
    r = atoll_watch_open(&c->listening, egress->loop, listen_fd, EPOLLIN, on_connect, c);
    if (r < 0) {
        free(c);
        return atoll_fail_errno(err, -r, "watch the control socket");
    }
    atoll_reports_on_queued(egress->reports, on_event, c);
    if (egress->cache)
        atoll_cache_on_count(egress->cache, on_count, c);
    atoll_timer_set(&c->idle, egress->loop, FIRST_MS, check_idle, c);
    if (starter_fd >= 0)
        keeper_watch(c, &c->starter, starter_fd);
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
    if (c->egress->cache)
        atoll_cache_on_count(c->egress->cache, NULL, NULL);
    atoll_timer_cancel(&c->counting);
    atoll_timer_cancel(&c->idle);
    for (size_t i = 0; i < KEEPERS_MAX; i++)
        keeper_done(&c->keepers[i]);
    keeper_done(&c->starter);
    atoll_watch_close(&c->listening);
    c->egress->control = NULL;
    free(c);
    return NULL;
}
