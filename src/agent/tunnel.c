/*
 * Tunnels: a separate connection that becomes a byte stream to a port or unix socket inside, for
 * transports that cannot pass descriptors. Either side may close its half and continue to read. A
 * side is not read while the other does not accept data, so a tunnel buffers little.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "agent/agent_internal.h"

#define PIECE (64 * 1024)
/* Maximum data buffered for one side: a piece, or bytes received after the request plus its
 * answer. */
#define HELD_MAX (2 * PIECE + 4096)
#define ANSWER_MAX 4096
#define REQUEST_MAX (ATOLL_AGENT_PATH_MAX + 512)
/* Pieces read from one side before other descriptors get their turn. */
#define TURNS 4
/* Time limit for delivering the remaining data after one side closed. */
#define LINGER_MS 30000

struct side {
    struct tunnel *tunnel;
    int fd; /* owned; ATOLL_NO_FD: not connected yet */
    struct atoll_watch watch;
    struct atoll_buf held; /* received from it, not yet accepted by the other side */
    bool ended;            /* no more data comes from it */
    bool closed;           /* no more data is sent to it */
    bool gone;             /* hung up: no longer watched, because the event would repeat */
};

struct tunnel {
    struct atoll_list node; /* in agent.tunnels */
    struct atoll_agent *agent;
    uint32_t request;
    struct atoll_agent_dial dial;
    struct side daemon, port;
    struct atoll_timer linger;
};

static void side_done(struct side *s)
{
    atoll_watch_close(&s->watch);
    atoll_buf_done(&s->held);
    if (s->fd >= 0)
        (void)close(s->fd);
}

static void tunnel_free(struct tunnel *t)
{
    atoll_list_remove(&t->node);
    t->agent->tunnel_count--;
    atoll_agent_dial_cancel(&t->dial);
    atoll_timer_cancel(&t->linger);
    side_done(&t->daemon);
    side_done(&t->port);
    free(t);
}

void atoll_agent_tunnels_drop(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->tunnels, node)
        tunnel_free(ATOLL_CONTAINER_OF(node, struct tunnel, node));
}

static void lingered(void *arg)
{
    tunnel_free(arg);
}

/* Sends up to n bytes. < 0: the side accepts no more data. */
static ssize_t put(const struct side *to, const uint8_t *bytes, size_t n)
{
    size_t sent = 0;

    while (sent < n) {
        ssize_t r = send(to->fd, bytes + sent, n - sent, MSG_NOSIGNAL);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0 && errno == EAGAIN)
            break;
        if (r < 0)
            return -errno;
        sent += (size_t)r;
    }
    return (ssize_t)sent;
}

/* Data from `from` cannot be delivered any more: discards it. The other direction continues. */
static void give_up(struct side *from, struct side *to)
{
    atoll_buf_done(&from->held);
    atoll_buf_init(&from->held, HELD_MAX);
    from->ended = to->closed = true;
}

/* Moves one piece. False: nothing can be moved now. */
static bool move_piece(struct side *from, struct side *to)
{
    uint8_t *piece = atoll_agent_scratch;
    ssize_t sent, got;

    if (atoll_buf_size(&from->held) > 0) {
        sent = put(to, atoll_buf_head(&from->held), atoll_buf_size(&from->held));
        if (sent < 0)
            give_up(from, to);
        else
            atoll_buf_consume(&from->held, (size_t)sent);
        if (atoll_buf_size(&from->held) > 0)
            return false;
        atoll_buf_done(&from->held); /* idle tunnels hold no memory */
        atoll_buf_init(&from->held, HELD_MAX);
    }
    if (from->ended)
        return false;
    got = recv(from->fd, piece, PIECE, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return errno == EINTR;
    if (got <= 0) {
        from->ended = true;
        return false;
    }
    sent = put(to, piece, (size_t)got);
    if (sent < 0 ||
        (sent < got && atoll_buf_append(&from->held, piece + sent, (size_t)(got - sent)) < 0))
        give_up(from, to);
    return sent == got;
}

static void move(struct side *from, struct side *to)
{
    _Static_assert(PIECE <= ATOLL_AGENT_SCRATCH, "a piece fits");
    if (to->closed)
        return;
    /* A side that hung up causes no more events: all of its remaining data, at most a socket
     * buffer, is read now or when the other side has room. */
    for (int turn = 0; turn < TURNS || from->gone; turn++)
        if (!move_piece(from, to))
            break;
    if (from->ended && atoll_buf_size(&from->held) == 0 && !to->closed) {
        (void)shutdown(to->fd, SHUT_WR);
        to->closed = true;
    }
}

static bool finished(const struct tunnel *t)
{
    return (t->daemon.closed || t->daemon.gone) && (t->port.closed || t->port.gone) &&
           (t->daemon.closed || t->port.closed);
}

static int watch_side(struct side *s, const struct side *other)
{
    uint32_t events = 0;

    if (s->gone || s->fd < 0)
        return 0;
    if (!s->ended && !other->closed && atoll_buf_size(&s->held) == 0)
        events |= EPOLLIN;
    if (!s->closed && atoll_buf_size(&other->held) > 0)
        events |= EPOLLOUT;
    return atoll_watch_set(&s->watch, events);
}

static void pump(struct tunnel *t)
{
    move(&t->daemon, &t->port);
    move(&t->port, &t->daemon);
    if (finished(t) || watch_side(&t->daemon, &t->port) < 0 || watch_side(&t->port, &t->daemon) < 0)
        tunnel_free(t);
}

static void side_ready(void *arg, uint32_t events)
{
    struct side *s = arg;
    struct tunnel *t = s->tunnel;

    if (events & (EPOLLHUP | EPOLLERR)) {
        s->gone = true;
        atoll_watch_close(&s->watch);
        atoll_timer_set(&t->linger, t->agent->loop, LINGER_MS, lingered, t);
    }
    if (t->dial.agent) { /* the client left before the connection was made */
        tunnel_free(t);
        return;
    }
    pump(t);
}

/* Queues the answer as the first data of the stream. */
static int queue_answer(struct tunnel *t, const struct atoll_error *error)
{
    struct atoll_am_error msg = {0};
    struct atoll_channel c;
    int r = atoll_channel_init(&c, t->daemon.fd, ANSWER_MAX);

    if (error)
        msg = (struct atoll_am_error){(uint32_t)error->kind, error->errnum, error->text};
    if (r == 0)
        r = atoll_channel_send(&c, error ? ATOLL_AGENT_ERROR : ATOLL_AGENT_REPLY, t->request,
                               error ? &atoll_am_error_desc : NULL, &msg, NULL, 0);
    if (r == 0)
        r = atoll_buf_append(&t->port.held, atoll_buf_head(&c.out), atoll_buf_size(&c.out));
    (void)ATOLL_TAKE_FD(c.fd);
    atoll_channel_done(&c);
    return r;
}

static void dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct tunnel *t = arg;
    int r = queue_answer(t, error);

    if (error) {
        t->port.ended = true;
        give_up(&t->daemon, &t->port);
    } else {
        t->port.fd = fd;
        if (r == 0)
            r = atoll_watch_open(&t->port.watch, t->agent->loop, fd, EPOLLIN, side_ready, &t->port);
    }
    if (r < 0)
        tunnel_free(t);
    else
        pump(t);
}

/* Takes ownership of the stream and of the bytes received after the request. */
static int start(struct tunnel *t, struct atoll_channel *channel, size_t request_len)
{
    int r;

    atoll_buf_init(&t->daemon.held, HELD_MAX);
    atoll_buf_init(&t->port.held, HELD_MAX);
    atoll_buf_consume(&channel->in, ATOLL_FRAME_HEADER + request_len);
    t->daemon.fd = ATOLL_TAKE_FD(channel->fd);
    r = atoll_buf_append(&t->daemon.held, atoll_buf_head(&channel->in),
                         atoll_buf_size(&channel->in));
    if (r == 0)
        r = atoll_watch_open(&t->daemon.watch, t->agent->loop, t->daemon.fd, 0, side_ready,
                             &t->daemon);
    return r;
}

static struct tunnel *tunnel_new(struct atoll_agent *a, uint32_t request)
{
    struct tunnel *t = a->tunnel_count < ATOLL_AGENT_TUNNELS_MAX ? calloc(1, sizeof(*t)) : NULL;

    if (!t)
        return NULL;
    t->agent = a;
    t->request = request;
    t->daemon.tunnel = t->port.tunnel = t;
    t->daemon.fd = t->port.fd = ATOLL_NO_FD;
    atoll_list_push_back(&a->tunnels, &t->node);
    a->tunnel_count++;
    return t;
}

static void refuse(struct atoll_channel *channel, uint32_t request)
{
    struct atoll_am_error msg = {ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                                 "too many tunnels into this sandbox are open"};

    if (atoll_channel_send(channel, ATOLL_AGENT_ERROR, request, &atoll_am_error_desc, &msg, NULL,
                           0) == 0)
        (void)!atoll_channel_flush(channel); /* a new stream has room for the answer */
}

void atoll_agent_tunnel_take(struct atoll_agent *a, struct atoll_channel *channel, uint32_t request,
                             size_t request_len)
{
    uint8_t bytes[REQUEST_MAX]; /* the message borrows from it */
    struct atoll_am_connect msg;
    struct tunnel *t = NULL;
    bool valid = request_len <= sizeof(bytes);

    if (valid) {
        memcpy(bytes, atoll_buf_head(&channel->in) + ATOLL_FRAME_HEADER, request_len);
        valid = atoll_msg_decode(&atoll_am_connect_desc, bytes, request_len, &msg, NULL) == 0;
    }
    if (valid) {
        t = tunnel_new(a, request);
        if (!t)
            refuse(channel, request);
    }
    if (t && start(t, channel, request_len) < 0) {
        tunnel_free(t);
        t = NULL;
    }
    atoll_channel_done(channel);
    if (t)
        atoll_agent_dial_start(&t->dial, a, &msg, dialed, t);
}
