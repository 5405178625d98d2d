/*
 * Output of commands: one ring per stream holds the bytes that the daemon has not acknowledged.
 * When it is full, the pipe is not read and the command blocks in write(2): back-pressure, never
 * loss.
 *
 *   0 ........ acked ........ sent ........ produced
 *              |<----- in the ring, at most the window ----->|
 *
 * A new connection continues at the offsets of EXEC_RESUME; only an acknowledgement discards bytes.
 * The pump sends one piece per command in turn, so a command with much output does not delay
 * others.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include "agent/agent_internal.h"

#define READ_MAX (64 * 1024)
#define SEND_MAX (64 * 1024)
#define WATCH_AGAIN_MS 100
/* Reads of an abandoned pipe per wake-up. */
#define DISCARD_TURNS 4

static void stream_ready(void *arg, uint32_t events);

static size_t room(const struct atoll_agent_stream *s)
{
    return s->exec->window - (size_t)(s->produced - s->acked);
}

static void watch_again(void *arg);

/* Watches the pipe only while there is room: otherwise a closed pipe would be reported
 * repeatedly. */
static void update_watch(struct atoll_agent_stream *s)
{
    struct atoll_loop *loop = s->exec->agent->loop;

    if (s->fd < 0 || room(s) == 0)
        atoll_watch_close(&s->watch);
    else if (!s->watch.loop &&
             atoll_watch_open(&s->watch, loop, s->fd, EPOLLIN, stream_ready, s) < 0)
        /* The tenant may have used up the user's limit of epoll watches: try again later. */
        atoll_timer_set(&s->again, loop, WATCH_AGAIN_MS, watch_again, s);
}

static void watch_again(void *arg)
{
    update_watch(arg);
}

int atoll_agent_stream_open(struct atoll_agent_stream *s, struct atoll_agent_exec *exec,
                            uint8_t number, int fd)
{
    *s = (struct atoll_agent_stream){
        .exec = exec,
        .number = number,
        .fd = fd,
        .ring = exec->rings + (number == ATOLL_STREAM_STDERR ? exec->window : 0),
    };
    return atoll_watch_open(&s->watch, exec->agent->loop, fd, EPOLLIN, stream_ready, s);
}

void atoll_agent_stream_done(struct atoll_agent_stream *s)
{
    atoll_timer_cancel(&s->again);
    atoll_watch_close(&s->watch);
    if (s->fd >= 0)
        (void)close(ATOLL_TAKE_FD(s->fd));
}

static void at_end(struct atoll_agent_stream *s)
{
    atoll_watch_close(&s->watch);
    (void)close(ATOLL_TAKE_FD(s->fd));
    s->owed = 0;
}

/* The free part of the ring in up to two pieces, at most `most` bytes. */
static int free_pieces(const struct atoll_agent_stream *s, size_t most, struct iovec iov[2])
{
    size_t window = s->exec->window;
    size_t at = (size_t)(s->produced % window);
    size_t n = ATOLL_MIN(room(s), most);
    size_t first = ATOLL_MIN(n, window - at);

    iov[0] = (struct iovec){s->ring + at, first};
    iov[1] = (struct iovec){s->ring, n - first};
    return n > first ? 2 : 1;
}

/* Reads once. Returns the bytes read; 0: no room, no data now, or the end. */
static size_t read_once(struct atoll_agent_stream *s)
{
    struct iovec iov[2];
    ssize_t got;

    if (s->fd < 0 || room(s) == 0)
        return 0;
    do
        got = readv(s->fd, iov, free_pieces(s, READ_MAX, iov));
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        s->owed = 0; /* a terminal's value was an upper bound */
        return 0;
    }
    if (got <= 0) { /* EIO: the slave of a terminal is closed */
        at_end(s);
        return 0;
    }
    s->produced += (uint64_t)got;
    s->owed -= ATOLL_MIN(s->owed, (size_t)got);
    s->exec->last_output_ms = atoll_loop_now_ms(s->exec->agent->loop);
    return (size_t)got;
}

static void stream_ready(void *arg, uint32_t events)
{
    struct atoll_agent_stream *s = arg;
    struct atoll_agent_exec *exec = s->exec;

    (void)events;
    while (read_once(s) > 0 && s->owed > 0)
        ;
    update_watch(s);
    atoll_agent_output_ready(exec);
    if (exec->reaped)
        atoll_agent_exec_settle(exec);
}

void atoll_agent_stream_drain(struct atoll_agent_stream *s)
{
    while (read_once(s) > 0)
        ;
    if (s->fd >= 0)
        update_watch(s);
    atoll_agent_output_ready(s->exec);
}

int atoll_agent_stream_ack(struct atoll_agent_stream *s, uint64_t offset)
{
    if (offset > s->produced)
        return -EINVAL;
    if (offset <= s->acked)
        return 0;
    s->acked = offset;
    s->sent = ATOLL_MAX(s->sent, offset);
    /* Reads the rest of a stream that was full: the end of an empty pipe causes no event. */
    if (s->owed > 0)
        stream_ready(s, 0);
    else
        update_watch(s);
    return 0;
}

int atoll_agent_stream_resume(struct atoll_agent_stream *s, uint64_t offset,
                              struct atoll_error *err)
{
    if (offset < s->acked || offset > s->produced)
        return atoll_fail(err, ATOLL_ERR_OUT_OF_RANGE, ERANGE,
                          "output is available from byte %llu to %llu, not from %llu",
                          (unsigned long long)s->acked, (unsigned long long)s->produced,
                          (unsigned long long)offset);
    s->sent = offset;
    return 0;
}

/* Sends the next piece of a stream; false if all of it is sent. */
static bool send_piece(struct atoll_agent_stream *s)
{
    struct atoll_agent_exec *exec = s->exec;
    size_t at = (size_t)(s->sent % exec->window);
    size_t n = (size_t)ATOLL_MIN(s->produced - s->sent, (uint64_t)SEND_MAX);
    struct atoll_am_output msg = {.exec = exec->id, .stream = s->number, .offset = s->sent};

    if (n == 0)
        return false;
    n = ATOLL_MIN(n, exec->window - at);
    msg.data = (struct atoll_bytes){s->ring + at, n};
    atoll_agent_event(exec->agent, ATOLL_AGENT_EXEC_OUTPUT, &atoll_am_output_desc, &msg);
    s->sent += n;
    return true;
}

static bool has_news(const struct atoll_agent_exec *exec)
{
    if (!exec->attached)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++)
        if (exec->streams[i].sent < exec->streams[i].produced)
            return true;
    return exec->ended && !exec->exit_sent;
}

void atoll_agent_output_ready(struct atoll_agent_exec *exec)
{
    if (!exec->ready.next && has_news(exec))
        atoll_list_push_back(&exec->agent->ready, &exec->ready);
}

static void send_next(struct atoll_agent_exec *exec)
{
    bool sent = false;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(exec->streams); i++)
        sent |= send_piece(&exec->streams[i]);
    if (sent || !exec->ended || exec->exit_sent)
        return;
    exec->exit_sent = true;
    atoll_agent_event(exec->agent, ATOLL_AGENT_EXEC_EXIT, &atoll_am_exit_desc, &exec->exit);
}

void atoll_agent_output_pump(struct atoll_agent *a)
{
    while (!atoll_list_empty(&a->ready) && atoll_agent_conn_has_room(a)) {
        struct atoll_agent_exec *exec =
            ATOLL_CONTAINER_OF(a->ready.next, struct atoll_agent_exec, ready);
        atoll_list_remove(&exec->ready);
        send_next(exec);
        atoll_agent_output_ready(exec);
    }
}

/* A pipe that is still open after its command ended; its data is discarded. */
struct drain {
    struct atoll_list node;
    struct atoll_agent *agent;
    int fd; /* owned */
    struct atoll_watch watch;
};

static void drain_free(struct drain *d)
{
    atoll_list_remove(&d->node);
    d->agent->drain_count--;
    atoll_watch_close(&d->watch);
    (void)close(d->fd);
    free(d);
}

static void drain_ready(void *arg, uint32_t events)
{
    struct drain *d = arg;
    ssize_t got = 1;

    (void)events;
    for (int turn = 0; turn < DISCARD_TURNS && got > 0; turn++)
        got = read(d->fd, atoll_agent_scratch, ATOLL_AGENT_SCRATCH);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        drain_free(d);
}

void atoll_agent_stream_abandon(struct atoll_agent_stream *s)
{
    struct atoll_agent *a = s->exec->agent;
    struct drain *d;

    if (s->fd < 0)
        return;
    atoll_timer_cancel(&s->again);
    atoll_watch_close(&s->watch);
    d = calloc(1, sizeof(*d));
    if (!d) {
        (void)close(ATOLL_TAKE_FD(s->fd));
        return;
    }
    if (a->drain_count >= ATOLL_AGENT_DRAINS_MAX)
        drain_free(ATOLL_CONTAINER_OF(a->drains.next, struct drain, node));
    d->agent = a;
    d->fd = ATOLL_TAKE_FD(s->fd);
    atoll_list_push_back(&a->drains, &d->node);
    a->drain_count++;
    if (atoll_watch_open(&d->watch, a->loop, d->fd, EPOLLIN, drain_ready, d) < 0)
        drain_free(d);
}

void atoll_agent_drains_drop(struct atoll_agent *a)
{
    ATOLL_LIST_FOREACH (&a->drains, node)
        drain_free(ATOLL_CONTAINER_OF(node, struct drain, node));
}
