/*
 * Level-triggered: one recv and one send per event, so that no connection starves the others.
 * EPOLLIN is dropped lazily, only when the kernel reports input while paused: a request that is answered
 * before the next one arrives costs no epoll_ctl.
 * A callback that is due inside one of the owner's own calls is deferred to the `kick` timer.
 */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include "base/buf.h"

#define READ_BYTES (64 * 1024)
#define LINGER_MS 1000
#define LINGER_BYTES ((size_t)1024 * 1024)
#define KEEP_BYTES (64 * 1024) /* an empty queue larger than this is freed */

struct atoll_stream {
    struct atoll_loop *loop;
    struct atoll_watch watch;
    struct atoll_timer kick;   /* runs deferred callbacks from the loop */
    struct atoll_timer linger; /* limits the wait for the peer's end */
    int fd;                    /* owned */
    const struct atoll_stream_ops *ops;
    void *transport; /* owned */
    struct atoll_stream_limits limits;
    struct atoll_stream_callbacks cb;
    void *arg;
    struct atoll_buf in; /* received but not consumed by the owner */
    struct atoll_buf out;
    int64_t active_ms;
    size_t lingered; /* input dropped while lingering */
    unsigned depth;  /* callbacks running; the memory is freed after they return */
    unsigned corks;
    int error; /* -errno that broke it */
    bool paused;
    bool more;    /* the transport may hold input that the kernel does not report */
    bool above;   /* the queue has exceeded the high-water mark */
    bool awaited; /* call on_drain when the queue is empty */
    bool hung_up; /* ends_in_order: the peer ended while paused; not watched until resumed */
    bool eof;     /* the peer has ended; on_eof has been called */
    bool shut_wanted, shut;
    bool closing; /* close_after_flush */
    bool close_told;
    bool freed;
};

/* Shared by all streams of the thread: input is consumed or copied before the next recv. */
static _Thread_local uint8_t scratch[READ_BYTES];

/* EINTR counts as EAGAIN: epoll reports the descriptor again. */
static ssize_t result(ssize_t r)
{
    return r >= 0 ? r : errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t socket_recv(void *transport, int fd, void *buf, size_t n)
{
    (void)transport;
    return result(recv(fd, buf, n, MSG_DONTWAIT));
}

static ssize_t socket_sendv(void *transport, int fd, const struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};

    (void)transport;
    return result(sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static int socket_shutdown(void *transport, int fd)
{
    (void)transport;
    return shutdown(fd, SHUT_WR) < 0 ? -errno : 0;
}

const struct atoll_stream_ops atoll_stream_socket_ops = {
    .recv = socket_recv,
    .sendv = socket_sendv,
    .shutdown = socket_shutdown,
};

static void kicked(void *arg);
static void ready(void *arg, uint32_t events);

static void kick(struct atoll_stream *s)
{
    if (!s->kick.loop)
        atoll_timer_set(&s->kick, s->loop, 0, kicked, s);
}

static void break_off(struct atoll_stream *s, int error)
{
    if (s->error == 0)
        s->error = error;
    atoll_watch_close(&s->watch);
    kick(s);
}

static bool wants_out(const struct atoll_stream *s)
{
    return !s->paused && s->ops->wants_out && s->ops->wants_out(s->transport);
}

/* epoll would report a hang-up again and again, so the descriptor was not watched while paused. */
static void watch_again(struct atoll_stream *s)
{
    int r = atoll_watch_open(&s->watch, s->loop, s->fd, EPOLLIN | EPOLLRDHUP, ready, s);

    s->hung_up = false;
    if (r < 0)
        break_off(s, r);
}

static void update_interest(struct atoll_stream *s)
{
    uint32_t events = 0, held;
    int r;

    if (s->hung_up && !s->paused && s->error == 0 && !s->close_told)
        watch_again(s);
    if (!s->watch.loop)
        return;
    /* Events to ignore while paused; level-triggered epoll would report them again and again. */
    held = s->cb.ends_in_order ? EPOLLIN | EPOLLRDHUP : EPOLLIN;
    if (!s->eof)
        events |= (EPOLLIN | EPOLLRDHUP) & ~(s->paused ? held & ~s->watch.events : 0);
    if ((atoll_buf_size(&s->out) > 0 && s->corks == 0) || wants_out(s))
        events |= EPOLLOUT;
    r = atoll_watch_set(&s->watch, events);
    if (r < 0)
        break_off(s, r);
}

static void tell_close(struct atoll_stream *s, int error)
{
    if (s->close_told || s->freed)
        return;
    s->close_told = true;
    atoll_watch_close(&s->watch);
    atoll_timer_cancel(&s->linger);
    s->cb.on_close(s->arg, error);
}

static void tell_eof(struct atoll_stream *s)
{
    if (s->eof || s->freed)
        return;
    s->eof = true;
    update_interest(s);
    if (s->closing)
        return;
    if (s->cb.on_eof)
        s->cb.on_eof(s->arg);
    else
        tell_close(s, 0);
}

/* Frees the memory last: the owner may read buffered input while it frees the stream. */
static void release(struct atoll_stream *s)
{
    atoll_buf_done(&s->in);
    atoll_buf_done(&s->out);
    free(s);
}

static void leave(struct atoll_stream *s)
{
    if (--s->depth == 0 && s->freed)
        release(s);
}

static void linger_over(void *arg)
{
    struct atoll_stream *s = arg;

    s->depth++;
    tell_close(s, 0);
    leave(s);
}

/* The queue is empty: calls on_drain, or half-closes, if one of them waited for that. */
static void emptied(struct atoll_stream *s)
{
    if (s->out.cap > KEEP_BYTES)
        atoll_buf_done(&s->out);
    if (!s->shut_wanted || s->shut)
        return;
    s->shut = true;
    if (s->ops->shutdown(s->transport, s->fd) < 0)
        break_off(s, -EPIPE);
    else if (s->closing && s->eof)
        kick(s);
    else if (s->closing)
        atoll_timer_set(&s->linger, s->loop, LINGER_MS, linger_over, s);
}

/* One send of queued bytes. Makes no callback. */
static void flush(struct atoll_stream *s)
{
    struct iovec iov = {(void *)atoll_buf_head(&s->out), atoll_buf_size(&s->out)};

    if (iov.iov_len > 0) {
        ssize_t r = s->ops->sendv(s->transport, s->fd, &iov, 1);
        if (r > 0) {
            atoll_buf_consume(&s->out, (size_t)r);
            s->active_ms = atoll_loop_now_ms(s->loop);
        } else if (r != -EAGAIN) {
            break_off(s, r == 0 ? -EPIPE : (int)r);
            return;
        }
    }
    if (atoll_buf_size(&s->out) == 0)
        emptied(s);
    update_interest(s);
}

static bool drained(const struct atoll_stream *s)
{
    return (s->above && atoll_buf_size(&s->out) < s->limits.high_water_bytes) ||
           (s->awaited && atoll_buf_size(&s->out) == 0);
}

static void tell_drain(struct atoll_stream *s)
{
    if (!drained(s) || s->freed || s->close_told || s->closing)
        return;
    s->above = false;
    s->awaited = s->awaited && atoll_buf_size(&s->out) > 0;
    if (s->cb.on_drain)
        s->cb.on_drain(s->arg);
}

/* Offers input to the owner and buffers what it does not consume. bytes are in scratch or in s->in. */
static void offer(struct atoll_stream *s, const uint8_t *bytes, size_t n)
{
    bool kept = bytes != scratch;
    size_t used = s->cb.on_input(s->arg, bytes, n);

    if (s->freed)
        return;
    if (kept)
        atoll_buf_consume(&s->in, used);
    else if (used < n && atoll_buf_append(&s->in, bytes + used, n - used) < 0)
        break_off(s, -ENOMEM);
    if (atoll_buf_size(&s->in) > 0) {
        if (!s->paused)
            kick(s);
    } else if (kept) {
        atoll_buf_done(&s->in);
        update_interest(s);
        if (s->more && !s->paused)
            kick(s);
    }
}

static ssize_t receive(struct atoll_stream *s)
{
    ssize_t r = s->ops->recv(s->transport, s->fd, scratch, sizeof(scratch));

    s->more = s->ops->buffers && r == (ssize_t)sizeof(scratch);
    if (s->more)
        kick(s);
    if (s->ops->wants_out)
        update_interest(s);
    return r;
}

static void drop_input(struct atoll_stream *s)
{
    ssize_t r = receive(s);

    s->lingered += r > 0 ? (size_t)r : 0;
    if (r == -EAGAIN || (r > 0 && s->lingered < LINGER_BYTES))
        return;
    if (r > 0) {
        /* The peer only sends; closing now could destroy the answer in flight. Stop reading, so that its
         * window fills and it reads; the linger timer ends the wait. */
        s->paused = true;
        return;
    }
    if (r == 0 && !s->shut)
        tell_eof(s); /* queued bytes are still sent */
    else
        tell_close(s, 0);
}

static void read_input(struct atoll_stream *s)
{
    ssize_t r = receive(s);

    if (r == -EAGAIN)
        return;
    if (r < 0) {
        tell_close(s, (int)r);
    } else if (r == 0) {
        tell_eof(s);
    } else {
        s->active_ms = atoll_loop_now_ms(s->loop);
        offer(s, scratch, (size_t)r);
    }
}

/* ends_in_order: leaves the end of the peer in the socket, behind the unread input. */
static void end_later(struct atoll_stream *s, uint32_t events)
{
    uint32_t rest = s->watch.events & ~(uint32_t)(EPOLLIN | EPOLLRDHUP);

    if (events & EPOLLHUP) {
        s->hung_up = true;
        atoll_watch_close(&s->watch);
    } else if (atoll_watch_set(&s->watch, rest) < 0) {
        tell_close(s, -EIO);
    }
}

/* An event while paused: leaves the input in the socket, but reports the end of the peer. */
static void paused_input(struct atoll_stream *s, uint32_t events)
{
    if (s->cb.ends_in_order && !(events & EPOLLERR))
        end_later(s, events);
    else if (events & (EPOLLHUP | EPOLLERR))
        tell_close(s, -ECONNRESET);
    else if (events & EPOLLRDHUP)
        tell_eof(s);
    else if (events & EPOLLIN && atoll_watch_set(&s->watch, s->watch.events & ~EPOLLIN) < 0)
        tell_close(s, -EIO);
}

/* Enough input was dropped while lingering: further input stays in the socket until the timer fires. */
static void lingering_input(struct atoll_stream *s, uint32_t events)
{
    uint32_t rest = s->watch.events & ~(uint32_t)(EPOLLIN | EPOLLRDHUP);

    if (events & (EPOLLHUP | EPOLLERR) || atoll_watch_set(&s->watch, rest) < 0)
        tell_close(s, 0);
}

static void ready(void *arg, uint32_t events)
{
    struct atoll_stream *s = arg;

    s->depth++;
    if (events & EPOLLOUT) {
        if (wants_out(s))
            events |= EPOLLIN; /* the transport sends from its recv (wants_out) */
        flush(s);
        tell_drain(s);
    }
    if (!s->freed && s->watch.loop && events & ~EPOLLOUT) {
        if (s->closing && !s->eof && s->paused)
            lingering_input(s, events);
        else if (s->closing && !s->eof)
            drop_input(s);
        else if (s->eof)
            tell_close(s, 0); /* only a full hang-up is still reported */
        else if (s->paused)
            paused_input(s, events);
        else if (atoll_buf_size(&s->in) == 0) /* else `kick` delivers the buffered input first */
            read_input(s);
    }
    leave(s);
}

static void kicked(void *arg)
{
    struct atoll_stream *s = arg;

    s->depth++;
    if (s->error != 0)
        tell_close(s, s->error);
    else if (s->closing && s->shut && s->eof)
        tell_close(s, 0);
    if (!s->freed && !s->close_told) {
        tell_drain(s);
        if (!s->freed && !s->paused && !s->closing && atoll_buf_size(&s->in) > 0)
            offer(s, atoll_buf_head(&s->in), atoll_buf_size(&s->in));
        else if (!s->freed && s->more && !s->eof && s->closing)
            drop_input(s);
        else if (!s->freed && s->more && !s->eof && !s->paused)
            read_input(s);
    }
    leave(s);
}

int atoll_stream_new(struct atoll_loop *loop, int fd, const struct atoll_stream_ops *ops,
                     void *transport, const struct atoll_stream_limits *limits,
                     const struct atoll_stream_callbacks *callbacks, void *arg,
                     struct atoll_stream **ret_stream, struct atoll_error *err)
{
    struct atoll_stream *s = malloc(sizeof(*s));
    int r = -ENOMEM;

    if (s) {
        *s = (struct atoll_stream){
            .loop = loop,
            .fd = fd,
            .ops = ops,
            .transport = transport,
            .limits = *limits,
            .cb = *callbacks,
            .arg = arg,
            .active_ms = atoll_loop_now_ms(loop),
        };
        atoll_buf_init(&s->in, READ_BYTES);
        atoll_buf_init(&s->out, SIZE_MAX / 2); /* queue_bytes is checked before it grows */
        r = atoll_watch_open(&s->watch, loop, fd, EPOLLIN | EPOLLRDHUP, ready, s);
    }
    if (r < 0) {
        (void)close(fd);
        free(s);
        return atoll_fail_errno(err, -r, "stream");
    }
    *ret_stream = s;
    return 0;
}

struct atoll_stream *atoll_stream_free(struct atoll_stream *s)
{
    if (!s || s->freed)
        return NULL;
    s->freed = true;
    atoll_watch_close(&s->watch);
    atoll_timer_cancel(&s->kick);
    atoll_timer_cancel(&s->linger);
    if (s->ops->free)
        s->ops->free(s->transport);
    (void)close(ATOLL_TAKE_FD(s->fd));
    if (s->depth == 0)
        release(s);
    return NULL;
}

void atoll_stream_set_owner(struct atoll_stream *s, const struct atoll_stream_callbacks *callbacks,
                            void *arg)
{
    s->cb = *callbacks;
    s->arg = arg;
}

static size_t iov_total(const struct iovec *iov, int count)
{
    size_t total = 0;

    for (int i = 0; i < count; i++)
        total += iov[i].iov_len;
    return total;
}

/* Queues the bytes after the first `skip`. */
static int enqueue(struct atoll_stream *s, const struct iovec *iov, int count, size_t skip)
{
    if (atoll_buf_size(&s->out) == 0)
        s->active_ms = atoll_loop_now_ms(s->loop);
    for (int i = 0; i < count; i++) {
        size_t cut = ATOLL_MIN(skip, iov[i].iov_len);
        size_t n = iov[i].iov_len - cut;
        skip -= cut;
        if (n > 0 && atoll_buf_append(&s->out, (const uint8_t *)iov[i].iov_base + cut, n) < 0)
            return -ENOMEM;
    }
    if (atoll_buf_size(&s->out) > s->limits.high_water_bytes)
        s->above = true;
    return 0;
}

int atoll_stream_writev_whole(struct atoll_stream *s, const struct iovec *iov, int count)
{
    size_t total = iov_total(iov, count);
    ssize_t sent = 0;

    if (s->error != 0 || s->shut_wanted || s->close_told)
        return -EPIPE;
    if (s->corks == 0 && atoll_buf_size(&s->out) == 0 && total > 0) {
        sent = s->ops->sendv(s->transport, s->fd, iov, count);
        if (sent < 0 && sent != -EAGAIN) {
            break_off(s, (int)sent);
            return -EPIPE;
        }
        sent = ATOLL_MAX(sent, (ssize_t)0);
        if (sent > 0)
            s->active_ms = atoll_loop_now_ms(s->loop);
    }
    if ((size_t)sent == total)
        return 0;
    if (enqueue(s, iov, count, (size_t)sent) < 0) {
        /* A part is already sent: the stream cannot be used any more. */
        break_off(s, -ENOMEM);
        return -EPIPE;
    }
    update_interest(s);
    return 0;
}

int atoll_stream_writev(struct atoll_stream *s, const struct iovec *iov, int count)
{
    size_t pending = atoll_buf_size(&s->out);
    size_t total = iov_total(iov, count);

    if (pending > s->limits.queue_bytes || total > s->limits.queue_bytes - pending)
        return -ENOBUFS;
    return atoll_stream_writev_whole(s, iov, count);
}

int atoll_stream_write(struct atoll_stream *s, const void *bytes, size_t n)
{
    struct iovec iov = {(void *)bytes, n};
    return atoll_stream_writev(s, &iov, 1);
}

void atoll_stream_cork(struct atoll_stream *s)
{
    s->corks++;
}

void atoll_stream_uncork(struct atoll_stream *s)
{
    if (--s->corks > 0 || s->error != 0 || s->close_told || atoll_buf_size(&s->out) == 0)
        return;
    flush(s);
    if (drained(s))
        kick(s);
}

size_t atoll_stream_pending(const struct atoll_stream *s)
{
    return atoll_buf_size(&s->out);
}

void atoll_stream_await_empty(struct atoll_stream *s)
{
    s->awaited = true;
}

void atoll_stream_shutdown(struct atoll_stream *s)
{
    s->shut_wanted = true;
    if (atoll_buf_size(&s->out) == 0 && s->error == 0 && !s->close_told)
        emptied(s);
}

void atoll_stream_close_after_flush(struct atoll_stream *s)
{
    if (s->closing)
        return;
    s->closing = true;
    s->paused = false;
    if (s->shut) {
        /* Half-closed earlier: the wait for the peer's end begins now. */
        if (s->eof)
            kick(s);
        else
            atoll_timer_set(&s->linger, s->loop, LINGER_MS, linger_over, s);
    }
    update_interest(s);
    atoll_stream_shutdown(s);
}

void atoll_stream_pause(struct atoll_stream *s)
{
    s->paused = true;
}

void atoll_stream_resume(struct atoll_stream *s)
{
    if (!s->paused)
        return;
    s->paused = false;
    s->active_ms = atoll_loop_now_ms(s->loop);
    if (atoll_buf_size(&s->in) > 0 || s->more)
        kick(s);
    update_interest(s);
}

int64_t atoll_stream_active_ms(const struct atoll_stream *s)
{
    return s->active_ms;
}

struct atoll_loop *atoll_stream_loop(const struct atoll_stream *s)
{
    return s->loop;
}

int atoll_stream_fd(const struct atoll_stream *s)
{
    return s->fd;
}
