/*
 * The connection to the daemon: one at a time, replaced by the next one that sends HELLO, because
 * the daemon of the old one may be dead. Its queue has two limits: above the soft limit output,
 * listings and new requests wait, so that a daemon that reads slowly never reaches the hard limit.
 */
#include <errno.h>
#include "agent/agent_internal.h"

/* Maximum number of fill-and-write passes per round, so that other descriptors get their turn. */
#define FLUSH_TURNS 8
/* An empty queue keeps at most this much memory. */
#define QUEUE_KEEP (64 * 1024)
/* Descriptors queued before requests wait; the rest is reserved for connects that finish
 * meanwhile. */
#define QUEUE_FDS_SOFT \
    (ATOLL_ARRAY_LEN(((struct atoll_channel *)NULL)->out_fds) - ATOLL_AGENT_CONNECTS_MAX)

static int frame_came(void *arg, struct atoll_frame *frame)
{
    struct atoll_agent *a = arg;

    if (!atoll_agent_conn_has_room(a)) {
        a->conn.stalled = true;
        return -EAGAIN;
    }
    return atoll_agent_dispatch(a, frame);
}

static void receive(struct atoll_agent *a)
{
    int r;

    a->conn.stalled = false;
    r = atoll_channel_receive(&a->conn.channel, frame_came, a);
    if (r < 0 && r != -EAGAIN)
        a->conn.broken = true;
}

static void conn_ready(void *arg, uint32_t events)
{
    struct atoll_agent *a = arg;

    /* EPOLLOUT needs no handling: each round ends with a flush. */
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    if (a->conn.stalled && (events & (EPOLLHUP | EPOLLERR)))
        a->conn.broken = true; /* not polled again: it would be reported at once */
    else if (!a->conn.stalled)
        receive(a);
}

void atoll_agent_conn_take(struct atoll_agent *a, struct atoll_channel *channel)
{
    struct atoll_agent_conn *c = &a->conn;

    atoll_agent_conn_close(a);
    c->channel = *channel;
    c->channel.out.max = ATOLL_AGENT_QUEUE_MAX;
    if (atoll_watch_open(&c->watch, a->loop, c->channel.fd, EPOLLIN, conn_ready, a) < 0) {
        atoll_channel_done(&c->channel); /* the daemon sees the close and reconnects */
        return;
    }
    c->open = true;
    if (atoll_buf_size(&c->channel.in) > 0)
        receive(a);
}

void atoll_agent_conn_open(struct atoll_agent *a, int fd)
{
    struct atoll_channel channel;

    if (atoll_channel_init(&channel, fd, ATOLL_AGENT_QUEUE_MAX) < 0)
        atoll_channel_done(&channel);
    else
        atoll_agent_conn_take(a, &channel);
}

void atoll_agent_conn_close(struct atoll_agent *a)
{
    struct atoll_agent_conn *c = &a->conn;

    if (!c->open)
        return;
    atoll_watch_close(&c->watch);
    atoll_channel_done(&c->channel);
    *c = (struct atoll_agent_conn){0};
    atoll_agent_execs_detach(a);
    atoll_agent_jobs_drop(a);
    atoll_agent_handles_drop(a);
    atoll_agent_watches_drop(a);
    atoll_agent_connects_drop(a);
    atoll_agent_pause_drop(a);
}

bool atoll_agent_conn_has_room(const struct atoll_agent *a)
{
    const struct atoll_channel *ch = &a->conn.channel;

    return a->conn.open && !a->conn.broken && atoll_channel_pending(ch) < ATOLL_AGENT_QUEUE_SOFT &&
           ch->out_nfds < QUEUE_FDS_SOFT;
}

/* Writes until the socket is full or the queue is empty. 1: empty, 0: wait, < 0: broken. */
static int write_out(struct atoll_agent *a)
{
    struct atoll_channel *ch = &a->conn.channel;
    int r = 1;

    for (int turn = 0; turn < FLUSH_TURNS; turn++) {
        if (a->conn.greeted)
            atoll_agent_output_pump(a);
        if (a->conn.broken)
            return -EPIPE;
        if (atoll_channel_pending(ch) == 0)
            break;
        r = atoll_channel_flush(ch);
        if (r <= 0)
            return r;
        if (a->conn.stalled)
            receive(a);
    }
    if (atoll_channel_pending(ch) > 0 || (a->conn.greeted && !atoll_list_empty(&a->ready)))
        return 0; /* the socket is writable: EPOLLOUT comes at once */
    if (ch->out.cap > QUEUE_KEEP)
        atoll_buf_done(&ch->out);
    return 1;
}

void atoll_agent_conn_flush(struct atoll_agent *a)
{
    struct atoll_agent_conn *c = &a->conn;
    uint32_t events = 0;
    int r;

    if (!c->open)
        return;
    r = write_out(a);
    if (r == 0)
        events |= EPOLLOUT;
    if (atoll_agent_conn_has_room(a) && !c->stalled)
        events |= EPOLLIN;
    if (r < 0 || c->broken || atoll_watch_set(&c->watch, events) < 0)
        atoll_agent_conn_close(a);
    else if (events & EPOLLIN)
        atoll_agent_watches_resume(a);
}

static void send_frame(struct atoll_agent *a, uint16_t type, uint32_t id,
                       const struct atoll_msg_desc *desc, const void *msg)
{
    if (!a->conn.open || a->conn.broken)
        return;
    if (atoll_channel_send(&a->conn.channel, type, id, desc, msg, NULL, 0) < 0)
        a->conn.broken = true;
}

void atoll_agent_reply(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                       const void *msg)
{
    send_frame(a, ATOLL_AGENT_REPLY, request, desc, msg);
}

void atoll_agent_reply_fd(struct atoll_agent *a, uint32_t request,
                          const struct atoll_msg_desc *desc, const void *msg, int fd)
{
    int r;

    if (!a->conn.fds) {
        atoll_agent_reply(a, request, desc, msg);
        return;
    }
    if (!a->conn.open || a->conn.broken)
        return;
    r = atoll_channel_send(&a->conn.channel, ATOLL_AGENT_REPLY, request, desc, msg, &fd, 1);
    if (r == -EMFILE) {
        struct atoll_error err;
        (void)atoll_fail(&err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                         "the sandbox has too many open files");
        atoll_agent_error(a, request, &err);
    } else if (r < 0) {
        a->conn.broken = true;
    }
}

void atoll_agent_part(struct atoll_agent *a, uint32_t request, const struct atoll_msg_desc *desc,
                      const void *msg)
{
    send_frame(a, ATOLL_AGENT_PART, request, desc, msg);
}

void atoll_agent_event(struct atoll_agent *a, uint16_t type, const struct atoll_msg_desc *desc,
                       const void *msg)
{
    send_frame(a, type, 0, desc, msg);
}

void atoll_agent_error(struct atoll_agent *a, uint32_t request, const struct atoll_error *err)
{
    struct atoll_am_error msg = {
        .kind = (uint32_t)err->kind, .errnum = err->errnum, .text = err->text};
    send_frame(a, ATOLL_AGENT_ERROR, request, &atoll_am_error_desc, &msg);
}
