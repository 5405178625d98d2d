/*
 * A connection to an upstream: input by callback, output through a queue. The peer may be hostile, and
 * so may the descriptor: one that is not a connected socket fails as a closed connection.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include "net/proxy_internal.h"

#define READ_BYTES (64 * 1024)
#define KEEP_BYTES (64 * 1024) /* an empty queue larger than this is freed */

struct atoll_proxy_conn {
    struct atoll_loop *loop;
    void (*discard)(void *arg, const char *key, int fd); /* as in the proxy's configuration */
    void *discard_arg;
    char key[ATOLL_PROXY_KEY_MAX];
    struct atoll_watch watch;
    int fd; /* owned */
    struct atoll_buf out;
    const struct atoll_proxy_conn_events *events;
    void *arg;
    unsigned depth; /* callbacks running; the memory is freed after they return */
    bool paused;
    bool above;  /* the queue has exceeded the high-water mark */
    bool broken; /* sending has failed */
    bool shut_wanted;
    bool closed; /* the owner's closed() has been called */
    bool freed;
};

static _Thread_local uint8_t scratch[READ_BYTES];

static void ready(void *arg, uint32_t events);

static void leave(struct atoll_proxy_conn *c)
{
    if (--c->depth == 0 && c->freed) {
        atoll_buf_done(&c->out);
        free(c);
    }
}

static uint32_t wanted(const struct atoll_proxy_conn *c)
{
    return (c->paused ? 0 : EPOLLIN) | (atoll_buf_size(&c->out) > 0 ? EPOLLOUT : 0);
}

static void update(struct atoll_proxy_conn *c)
{
    if (c->freed || c->closed)
        return;
    /* A watch that was closed on a hang-up while paused is opened again. */
    if (!c->watch.loop && !c->paused)
        (void)!atoll_watch_open(&c->watch, c->loop, c->fd, wanted(c), ready, c);
    else if (c->watch.loop && c->watch.events != wanted(c))
        (void)!atoll_watch_set(&c->watch, wanted(c));
}

static void break_off(struct atoll_proxy_conn *c)
{
    c->broken = true;
    atoll_buf_done(&c->out);
}

static void flush(struct atoll_proxy_conn *c)
{
    size_t n = atoll_buf_size(&c->out);
    ssize_t r = n == 0 ? 0 : send(c->fd, atoll_buf_head(&c->out), n, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (r > 0)
        atoll_buf_consume(&c->out, (size_t)r);
    else if (r < 0 && errno != EAGAIN && errno != EINTR)
        break_off(c);
    if (atoll_buf_size(&c->out) > 0)
        return;
    if (c->out.cap > KEEP_BYTES)
        atoll_buf_done(&c->out);
    if (c->shut_wanted && !c->broken) {
        c->broken = true;
        (void)shutdown(c->fd, SHUT_WR);
    }
}

static void tell_closed(struct atoll_proxy_conn *c, int error)
{
    c->closed = true;
    atoll_watch_close(&c->watch);
    c->events->closed(c->arg, error);
}

static void read_input(struct atoll_proxy_conn *c)
{
    ssize_t n = recv(c->fd, scratch, sizeof(scratch), MSG_DONTWAIT);

    if (n > 0)
        c->events->input(c->arg, scratch, (size_t)n);
    else if (n == 0)
        tell_closed(c, 0);
    else if (errno != EAGAIN && errno != EINTR)
        tell_closed(c, -errno);
}

static void ready(void *arg, uint32_t events)
{
    struct atoll_proxy_conn *c = arg;

    c->depth++;
    if (events & EPOLLOUT) {
        flush(c);
        update(c);
        if (c->above && atoll_buf_size(&c->out) < PROXY_HIGH_WATER) {
            c->above = false;
            c->events->drain(c->arg);
        }
    }
    if (!c->freed && !c->closed && events & ~EPOLLOUT) {
        if (c->paused)
            atoll_watch_close(&c->watch); /* epoll would report the hang-up again and again */
        else
            read_input(c);
    }
    leave(c);
}

static void discard(struct atoll_proxy_conn *c)
{
    if (c->discard)
        c->discard(c->discard_arg, c->key, ATOLL_TAKE_FD(c->fd));
    else
        (void)close(ATOLL_TAKE_FD(c->fd));
}

struct atoll_proxy_conn *atoll_proxy_conn_new(const struct atoll_proxy_config *config,
                                              const char *key, int fd)
{
    struct atoll_proxy_conn *c = calloc(1, sizeof(*c));
    const int on = 1;

    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    c->loop = config->loop;
    c->discard = config->discard;
    c->discard_arg = config->arg;
    (void)snprintf(c->key, sizeof(c->key), "%s", key);
    c->fd = fd;
    atoll_buf_init(&c->out, SIZE_MAX / 2); /* writers stop at the high-water mark */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (atoll_watch_open(&c->watch, c->loop, fd, EPOLLIN, ready, c) < 0) {
        discard(c);
        free(c);
        return NULL;
    }
    return c;
}

struct atoll_proxy_conn *atoll_proxy_conn_free(struct atoll_proxy_conn *c)
{
    if (!c || c->freed)
        return NULL;
    c->freed = true;
    atoll_watch_close(&c->watch);
    (void)shutdown(c->fd, SHUT_RDWR); /* ends the connection now; the close may be deferred */
    discard(c);
    c->depth++;
    leave(c);
    return NULL;
}

void atoll_proxy_conn_own(struct atoll_proxy_conn *c, const struct atoll_proxy_conn_events *events,
                          void *arg)
{
    c->events = events;
    c->arg = arg;
}

/* Queues the bytes after the first `skip`. */
static void enqueue(struct atoll_proxy_conn *c, const struct iovec *iov, int count, size_t skip)
{
    for (int i = 0; i < count; i++) {
        size_t cut = ATOLL_MIN(skip, iov[i].iov_len);
        size_t n = iov[i].iov_len - cut;
        skip -= cut;
        if (n > 0 && atoll_buf_append(&c->out, (const uint8_t *)iov[i].iov_base + cut, n) < 0)
            break_off(c);
    }
    c->above = c->above || atoll_buf_size(&c->out) > PROXY_HIGH_WATER;
}

void atoll_proxy_conn_write(struct atoll_proxy_conn *c, const struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
    ssize_t sent = 0;

    if (c->broken || c->shut_wanted)
        return;
    if (atoll_buf_size(&c->out) == 0) {
        sent = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            break_off(c);
            return;
        }
    }
    enqueue(c, iov, count, (size_t)ATOLL_MAX(sent, (ssize_t)0));
    update(c);
}

size_t atoll_proxy_conn_pending(const struct atoll_proxy_conn *c)
{
    return atoll_buf_size(&c->out);
}

void atoll_proxy_conn_pause(struct atoll_proxy_conn *c)
{
    c->paused = true;
    update(c);
}

void atoll_proxy_conn_resume(struct atoll_proxy_conn *c)
{
    if (c->paused) {
        c->paused = false;
        update(c);
    }
}

void atoll_proxy_conn_shutdown(struct atoll_proxy_conn *c)
{
    c->shut_wanted = true;
    flush(c);
    update(c);
}

bool atoll_proxy_conn_broken(const struct atoll_proxy_conn *c)
{
    return c->broken || c->closed || c->shut_wanted;
}
