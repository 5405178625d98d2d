#include "egress/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "egress/closer.h"
#include "egress/pipes.h"

#define PIECE ((size_t)256 * 1024)
#define COPY_PIECE ((size_t)64 * 1024)
/* Bytes that one callback moves before other connections get their turn. */
#define TURN ((size_t)1024 * 1024)

/* One of the two sockets. */
struct side {
    struct atoll_relay *relay;
    int fd; /* owned */
    struct atoll_watch watch;
};

/* From one socket to the other. */
struct flow {
    struct side *from, *to;
    struct atoll_bucket *bucket;
    struct atoll_pipe pipe;
    uint8_t *copied; /* owned; instead of the pipe: COPY_PIECE bytes, NULL while it holds none */
    size_t at;       /* of the first byte there */
    size_t held;     /* bytes in the pipe or there */
    uint64_t moved;
    bool ended;     /* the source has finished */
    bool passed;    /* and the sink was told */
    bool throttled; /* the bucket is empty; the timer runs */
};

struct atoll_relay {
    struct atoll_relay_config config;
    struct side client, server;
    struct flow up, down;
    struct atoll_timer timer; /* for the buckets */
    bool muted;               /* while it holds: on_held_input was called */
};

void atoll_abort_socket(int fd)
{
    const struct linger none = {.l_onoff = 1, .l_linger = 0};

    if (fd < 0)
        return;
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    (void)close(fd);
}

static struct atoll_pipes *pipes_of(struct atoll_relay *r)
{
    return r->config.box->egress->pipes;
}

static bool is_held(const struct atoll_relay *r, const struct flow *f)
{
    return r->config.hold && f == &r->up;
}

static void on_ready(void *arg, uint32_t events);

static int set_interest(struct side *s, uint32_t events)
{
    if (s->watch.loop)
        return atoll_watch_set(&s->watch, events);
    if (events == 0)
        return 0;
    return atoll_watch_open(&s->watch, s->relay->config.box->egress->loop, s->fd, events, on_ready,
                            s);
}

/* Reads where the pipe is empty, and writes where it is not. */
static uint32_t interest(const struct flow *reads, const struct flow *writes)
{
    return (!reads->ended && !reads->throttled && reads->held == 0 ? EPOLLIN : 0) |
           (writes->held > 0 ? EPOLLOUT : 0);
}

static int set_interests(struct atoll_relay *r)
{
    uint32_t client = interest(&r->up, &r->down);
    int result;

    if (r->config.hold && r->muted)
        client &= ~(uint32_t)EPOLLIN;
    result = set_interest(&r->client, client);
    return result < 0 ? result : set_interest(&r->server, interest(&r->down, &r->up));
}

static void end(struct atoll_relay *r, int error)
{
    atoll_watch_close(&r->client.watch);
    atoll_watch_close(&r->server.watch);
    atoll_timer_cancel(&r->timer);
    r->config.on_end(r->config.arg, error);
}

static ssize_t move(int from, int to, size_t n)
{
    ssize_t r = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    return r < 0 ? -errno : r;
}

/* From the source to the pipe. Bytes, 0 at the end of the source, -EAGAIN, -errno. */
static ssize_t fill_pipe(struct atoll_relay *r, struct flow *f, size_t granted)
{
    if (f->pipe.read_fd < 0 && atoll_pipes_get(pipes_of(r), &f->pipe) < 0) {
        f->throttled = true; /* no descriptors: tried again when the timer fires */
        return -EAGAIN;
    }
    return move(f->from->fd, f->pipe.write_fd, granted);
}

static ssize_t fill_copy(struct flow *f, size_t granted)
{
    ssize_t n;

    if (!f->copied)
        f->copied = malloc(COPY_PIECE);
    if (!f->copied)
        return -ENOMEM;
    f->at = 0;
    n = recv(f->from->fd, f->copied, ATOLL_MIN(granted, COPY_PIECE), MSG_DONTWAIT);
    return n < 0 ? -errno : n;
}

static ssize_t fill(struct atoll_relay *r, struct flow *f)
{
    size_t granted = atoll_bucket_take(f->bucket, PIECE, atoll_clock_us());
    ssize_t n;

    if (granted == 0) {
        f->throttled = true;
        return -EAGAIN;
    }
    n = r->config.copy ? fill_copy(f, granted) : fill_pipe(r, f, granted);
    atoll_bucket_give_back(f->bucket, granted - (size_t)ATOLL_MAX(n, (ssize_t)0));
    f->held += (size_t)ATOLL_MAX(n, (ssize_t)0);
    return n;
}

/* Passes on what is held. Bytes, or -errno. */
static ssize_t drain(struct atoll_relay *r, struct flow *f)
{
    ssize_t n;

    if (!r->config.copy)
        return move(f->pipe.read_fd, f->to->fd, f->held);
    n = send(f->to->fd, f->copied + f->at, f->held, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return -errno;
    f->at += (size_t)n;
    return n;
}

static void count(struct atoll_relay *r, struct flow *f, size_t n)
{
    f->held -= n;
    f->moved += n;
    if (f == &r->up)
        atoll_box_count(r->config.box, 0, n);
    else
        atoll_box_count(r->config.box, n, 0);
}

static void return_pipe(struct atoll_relay *r, struct flow *f)
{
    if (f->held > 0)
        return;
    if (f->pipe.read_fd >= 0)
        atoll_pipes_put(pipes_of(r), &f->pipe);
    free(ATOLL_TAKE_PTR(f->copied));
}

/* Moves what can be moved now. 0, or -errno: the connection is broken. */
static int pump(struct atoll_relay *r, struct flow *f)
{
    size_t turn = 0;

    while (turn < TURN) {
        ssize_t n = 0;

        if (f->held == 0 && (f->ended || f->throttled))
            break;
        if (f->held == 0) {
            n = fill(r, f);
            f->ended = n == 0;
        }
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        if (f->held == 0)
            break;
        n = drain(r, f);
        if (n < 0)
            return n == -EAGAIN ? 0 : (int)n;
        count(r, f, (size_t)n);
        turn += (size_t)n;
    }
    if (f->ended && f->held == 0 && !f->passed) {
        f->passed = true;
        /* ENOTCONN: the sink was reset; reading from it tells. */
        (void)shutdown(f->to->fd, SHUT_WR);
    }
    return 0;
}

static void on_tokens(void *arg);

static void wait_for_tokens(struct atoll_relay *r)
{
    int64_t ms = INT64_MAX;

    if (r->timer.loop)
        return;
    if (r->up.throttled)
        ms = atoll_bucket_wait_ms(r->up.bucket);
    if (r->down.throttled)
        ms = ATOLL_MIN(ms, atoll_bucket_wait_ms(r->down.bucket));
    if (ms != INT64_MAX)
        atoll_timer_set(&r->timer, r->config.box->egress->loop, ms, on_tokens, r);
}

/* After a callback: both watches and the timer as the state needs them. */
static void settle(struct atoll_relay *r)
{
    int result;

    return_pipe(r, &r->up);
    return_pipe(r, &r->down);
    if (r->up.passed && r->down.passed) {
        end(r, 0);
        return;
    }
    wait_for_tokens(r);
    result = set_interests(r);
    if (result < 0)
        end(r, result);
}

static int error_of(int fd)
{
    socklen_t size = sizeof(int);
    int error = 0;

    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error ? -error : -ECONNRESET;
}

static void on_ready(void *arg, uint32_t events)
{
    struct side *s = arg;
    struct atoll_relay *r = s->relay;
    struct flow *reads = s == &r->client ? &r->up : &r->down;
    struct flow *writes = s == &r->client ? &r->down : &r->up;
    int result = 0;

    if (events & EPOLLIN && is_held(r, reads) && !r->muted) {
        r->muted = true;
        (void)set_interests(r);
        r->config.on_held_input(r->config.arg);
        return;
    }
    if (events & (EPOLLOUT | EPOLLERR) && writes->held > 0)
        result = pump(r, writes);
    /* What came before a reset is still read. */
    if (result == 0 && !is_held(r, reads) && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        result = pump(r, reads);
    if (result == 0 && events & EPOLLERR)
        result = error_of(s->fd);
    if (result < 0) {
        end(r, result);
        return;
    }
    /* Always reported while both directions of a socket are shut, wanted or not. */
    if (events & EPOLLHUP && interest(reads, writes) == 0)
        atoll_watch_close(&s->watch);
    settle(r);
}

static void on_tokens(void *arg)
{
    struct atoll_relay *r = arg;
    int result = 0;

    if (r->up.throttled) {
        r->up.throttled = false;
        result = pump(r, &r->up);
    }
    if (result == 0 && r->down.throttled) {
        r->down.throttled = false;
        result = pump(r, &r->down);
    }
    if (result < 0)
        end(r, result);
    else
        settle(r);
}

int atoll_relay_new(const struct atoll_relay_config *config, struct atoll_relay **ret)
{
    struct atoll_relay *r = calloc(1, sizeof(*r));
    int result;

    if (!r)
        abort();
    r->config = *config;
    r->client = (struct side){.relay = r, .fd = config->client_fd};
    r->server = (struct side){.relay = r, .fd = config->server_fd};
    r->up = (struct flow){
        .from = &r->client, .to = &r->server, .bucket = &config->box->up, .pipe = ATOLL_NO_PIPE};
    r->down = (struct flow){
        .from = &r->server, .to = &r->client, .bucket = &config->box->down, .pipe = ATOLL_NO_PIPE};
    result = set_interests(r);
    if (result < 0) {
        (void)atoll_relay_free(r, true);
        return result;
    }
    *ret = r;
    return 0;
}

static void close_socket(int fd, bool reset)
{
    if (reset)
        atoll_abort_socket(fd);
    else if (fd >= 0)
        (void)close(fd);
}

struct atoll_relay *atoll_relay_free(struct atoll_relay *r, bool reset)
{
    if (!r)
        return NULL;
    atoll_watch_close(&r->client.watch);
    atoll_watch_close(&r->server.watch);
    atoll_timer_cancel(&r->timer);
    atoll_pipe_close(&r->up.pipe);
    atoll_pipe_close(&r->down.pipe);
    free(r->up.copied);
    free(r->down.copied);
    close_socket(r->client.fd, reset);
    if (r->config.copy)
        atoll_closer_close(r->config.box->egress->closer, r->server.fd, reset);
    else
        close_socket(r->server.fd, reset);
    free(r);
    return NULL;
}

int atoll_relay_detach(struct atoll_relay *r)
{
    int fd = ATOLL_TAKE_FD(r->client.fd);

    atoll_watch_close(&r->client.watch);
    (void)atoll_relay_free(r, true);
    return fd;
}

void atoll_relay_expect(struct atoll_relay *r)
{
    r->muted = false;
    settle(r);
}

void atoll_relay_release(struct atoll_relay *r)
{
    r->config.hold = false;
    settle(r);
}

void atoll_relay_bytes(const struct atoll_relay *r, uint64_t *ret_rx, uint64_t *ret_tx)
{
    *ret_rx = r->down.moved;
    *ret_tx = r->up.moved;
}

int atoll_relay_client(const struct atoll_relay *r)
{
    return r->client.fd;
}
