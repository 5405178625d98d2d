/*
 * DNS by TCP: messages with their length before them, several under way at a time, answers in any order
 * (RFC 7766).
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "egress/dns_internal.h"

#define QUESTION_MAX 4096
#define OUT_MAX ((size_t)4 * (2 + ATOLL_DNS_MESSAGE_MAX))

struct atoll_dns_stream {
    struct atoll_list node;
    struct atoll_dns *dns; /* not used when it has failed */
    int fd;
    struct atoll_watch watch;
    struct atoll_timer idle;
    struct atoll_buf in, out;
    struct atoll_list queries;
    bool no_more; /* questions: the client has ended its side */
    bool failed;
    void (*end)(void *arg);
    void *arg;
};

static void on_idle(void *arg);
static void on_event(void *arg, uint32_t events);

struct atoll_dns_stream *atoll_dns_stream_open(struct atoll_box *box, int fd,
                                               void (*end)(void *arg), void *arg)
{
    struct atoll_dns_stream *s = calloc(1, sizeof(*s));

    if (!s || atoll_watch_open(&s->watch, box->egress->loop, fd, EPOLLIN, on_event, s) < 0) {
        (void)close(fd);
        free(s);
        return NULL;
    }
    s->dns = box->dns;
    s->fd = fd;
    s->end = end;
    s->arg = arg;
    atoll_buf_init(&s->in, 2 + QUESTION_MAX);
    atoll_buf_init(&s->out, OUT_MAX);
    atoll_list_init(&s->queries);
    atoll_list_push_back(&s->dns->streams, &s->node);
    atoll_timer_set(&s->idle, box->egress->loop, ATOLL_DNS_STREAM_IDLE_MS, on_idle, s);
    return s;
}

static void drop_queries(struct atoll_dns_stream *s)
{
    ATOLL_LIST_FOREACH (&s->queries, node)
        atoll_dns_query_free(ATOLL_CONTAINER_OF(node, struct atoll_dns_query, node));
}

struct atoll_dns_stream *atoll_dns_stream_close(struct atoll_dns_stream *s)
{
    if (!s)
        return NULL;
    atoll_list_remove(&s->node);
    atoll_watch_close(&s->watch);
    atoll_timer_cancel(&s->idle);
    drop_queries(s);
    (void)close(s->fd);
    atoll_buf_done(&s->in);
    atoll_buf_done(&s->out);
    free(s);
    return NULL;
}

static void end_stream(struct atoll_dns_stream *s)
{
    void (*end)(void *arg) = s->end;
    void *arg = s->arg;

    atoll_dns_stream_close(s);
    end(arg);
}

static void on_idle(void *arg)
{
    end_stream(arg);
}

void atoll_dns_end_streams(struct atoll_dns *dns)
{
    ATOLL_LIST_FOREACH (&dns->streams, node) {
        struct atoll_dns_stream *s = ATOLL_CONTAINER_OF(node, struct atoll_dns_stream, node);
        drop_queries(s);
        atoll_list_remove(&s->node);
        s->failed = true;
        atoll_timer_set(&s->idle, s->watch.loop, 0, on_idle, s);
    }
}

void atoll_dns_stream_send(struct atoll_dns_stream *s, const uint8_t *bytes, size_t n)
{
    const uint8_t head[] = {(uint8_t)(n >> 8), (uint8_t)n};

    if (atoll_buf_append(&s->out, head, sizeof(head)) < 0 ||
        atoll_buf_append(&s->out, bytes, n) < 0)
        s->failed = true; /* the client does not read, or there is no memory */
}

static bool may_take(const struct atoll_dns_stream *s)
{
    size_t under_way = 0;

    for (const struct atoll_list *node = s->queries.next; node != &s->queries; node = node->next)
        under_way++;
    return !s->failed && under_way < ATOLL_DNS_STREAM_PENDING_MAX &&
           atoll_buf_size(&s->out) <= ATOLL_DNS_MESSAGE_MAX;
}

/* Takes the questions that are whole. */
static void take_questions(struct atoll_dns_stream *s)
{
    const struct atoll_dns_reply to = {.stream = s};

    while (may_take(s) && atoll_buf_size(&s->in) >= 2) {
        const uint8_t *head = atoll_buf_head(&s->in);
        size_t n = (size_t)(head[0] << 8 | head[1]);
        if (n > QUESTION_MAX) {
            s->failed = true;
            return;
        }
        if (atoll_buf_size(&s->in) < 2 + n)
            return;
        if (atoll_dns_take(s->dns, head + 2, n, &to, &s->queries) < 0)
            s->failed = true;
        atoll_buf_consume(&s->in, 2 + n);
    }
}

static void receive(struct atoll_dns_stream *s)
{
    uint8_t *tail;
    size_t room = 2 + QUESTION_MAX - atoll_buf_size(&s->in);
    ssize_t n;

    if (room == 0 || s->no_more)
        return;
    if (atoll_buf_reserve(&s->in, room, &tail) < 0) {
        s->failed = true;
        return;
    }
    n = recv(s->fd, tail, room, MSG_DONTWAIT);
    if (n > 0)
        atoll_buf_commit(&s->in, (size_t)n);
    else if (n == 0)
        s->no_more = true;
    else if (errno != EAGAIN && errno != EINTR)
        s->failed = true;
}

static void flush(struct atoll_dns_stream *s)
{
    while (!s->failed && atoll_buf_size(&s->out) > 0) {
        ssize_t n = send(s->fd, atoll_buf_head(&s->out), atoll_buf_size(&s->out),
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0)
            s->failed = true;
        else
            atoll_buf_consume(&s->out, (size_t)n);
    }
}

/* What to wait for next; ends the stream when nothing is left to do. */
static void go_on(struct atoll_dns_stream *s)
{
    bool is_reading;

    take_questions(s);
    flush(s);
    is_reading = !s->no_more && may_take(s);
    if (s->failed ||
        (s->no_more && atoll_list_empty(&s->queries) && atoll_buf_size(&s->out) == 0) ||
        atoll_watch_set(&s->watch, (is_reading ? EPOLLIN : 0u) |
                                       (atoll_buf_size(&s->out) > 0 ? EPOLLOUT : 0u)) < 0) {
        end_stream(s);
        return;
    }
    atoll_timer_set(&s->idle, s->watch.loop, ATOLL_DNS_STREAM_IDLE_MS, on_idle, s);
}

static void on_event(void *arg, uint32_t events)
{
    struct atoll_dns_stream *s = arg;

    if (events & EPOLLIN)
        receive(s);
    else if (events & (EPOLLERR | EPOLLHUP))
        s->failed = true;
    go_on(s);
}

void atoll_dns_stream_answered(struct atoll_dns_stream *s)
{
    go_on(s);
}
