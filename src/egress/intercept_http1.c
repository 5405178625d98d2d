/*
 * A server that speaks HTTP/1.1: one request at a time. Messages are written and parsed anew, so that
 * neither side sees the framing of the other.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "egress/intercept_internal.h"
#include "net/stream.h"

/* The request. */

static int put_fields(struct atoll_buf *out, const struct atoll_buf *fields)
{
    const char *name, *value;
    int r = 0;

    for (size_t at = 0; r == 0 && atoll_intercept_next_field(fields, &at, &name, &value);)
        r = atoll_buf_appendf(out, "%s: %s\r\n", name, value);
    return r;
}

static int put_framing(struct atoll_buf *out, const struct atoll_exchange *x)
{
    enum atoll_http_method method = atoll_http_method(x->req);
    int64_t length = atoll_http_content_length(x->req);

    if (x->upgrade)
        return atoll_buf_appendf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n",
                                 atoll_http_wanted_upgrade(x->req));
    if (x->wants_trailers && atoll_buf_appends(out, "Connection: TE\r\nTE: trailers\r\n") < 0)
        return -ENOMEM;
    if (length < 0)
        return atoll_buf_appends(out, "Transfer-Encoding: chunked\r\n");
    if (length > 0 || method == ATOLL_POST || method == ATOLL_PUT || method == ATOLL_PATCH)
        return atoll_buf_appendf(out, "Content-Length: %lld\r\n", (long long)length);
    return 0;
}

static int send_head(struct atoll_upstream *up, struct atoll_exchange *x)
{
    struct atoll_buf head;
    struct iovec iov;
    int r;

    atoll_buf_init(&head, SIZE_MAX / 2); /* its parts are bounded */
    r = atoll_buf_appendf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\n",
                          atoll_http_method_name(atoll_http_method(x->req)),
                          atoll_buf_str(&x->target), atoll_buf_str(&x->authority));
    if (r == 0)
        r = put_fields(&head, &x->fields);
    if (r == 0)
        r = put_framing(&head, x);
    if (r == 0)
        r = atoll_buf_appends(&head, "\r\n");
    if (r == 0) {
        iov = (struct iovec){(void *)atoll_buf_head(&head), atoll_buf_size(&head)};
        /* A failure is reported by on_close of the stream. */
        (void)!atoll_stream_writev_whole(up->stream, &iov, 1);
    }
    if (head.data)
        explicit_bzero(head.data, head.cap); /* secrets */
    atoll_buf_done(&head);
    return r;
}

static void write_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n)
{
    struct iovec iov[3] = {{NULL, 0}, {(void *)bytes, n}, {(void *)"\r\n", 2}};
    bool chunked = atoll_http_content_length(x->req) < 0;
    char size[24];

    iov[0] = (struct iovec){size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n)};
    (void)!atoll_stream_writev_whole(x->up->stream, chunked ? iov : iov + 1, chunked ? 3 : 1);
}

static void end_body(struct atoll_exchange *x)
{
    struct iovec last = {(void *)"0\r\n\r\n", 5};

    if (atoll_http_content_length(x->req) < 0)
        (void)!atoll_stream_writev_whole(x->up->stream, &last, 1);
}

static size_t pending(const struct atoll_exchange *x)
{
    return atoll_stream_pending(x->up->stream);
}

/* The answer. */

static void inform(void *arg, int status)
{
    struct atoll_upstream *up = arg;
    atoll_exchange_inform(up->busy, status, &up->answer.fields);
}

static bool head(void *arg, int status, int64_t length)
{
    struct atoll_upstream *up = arg;

    return atoll_exchange_head(up->busy, status, atoll_buf_str(&up->answer.reason),
                               &up->answer.fields, length);
}

static bool body(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_upstream *up = arg;
    bool full, passed = atoll_exchange_body(up->busy, bytes, n, &full);

    if (full)
        atoll_stream_pause(up->stream);
    return passed;
}

static const struct atoll_http1_answer_events events = {inform, head, body};

static void switch_protocols(struct atoll_upstream *up, const uint8_t *early, size_t n)
{
    struct atoll_stream *stream = ATOLL_TAKE_PTR(up->stream);

    up->tls = NULL; /* the stream's */
    atoll_exchange_switch(up->busy, &up->answer.fields, stream, early, n);
}

static size_t on_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_upstream *up = arg;
    struct atoll_exchange *x = up->busy;
    size_t used;

    if (!x) {
        atoll_upstream_free(up); /* bytes without a request */
        return n;
    }
    up->depth++;
    switch (atoll_http1_answer_feed(&up->answer, bytes, n, &used)) {
    case ATOLL_HTTP1_MORE:
        break;
    case ATOLL_HTTP1_SWITCHED:
        switch_protocols(up, bytes + used, n - used);
        break;
    case ATOLL_HTTP1_COMPLETE:
        up->answer.keep = up->answer.keep && used == n;
        atoll_exchange_end(x, &up->answer.fields);
        break;
    case ATOLL_HTTP1_MALFORMED:
        atoll_exchange_fail(x, "%s sent a malformed answer", x->place.host);
        break;
    case ATOLL_HTTP1_TOO_LARGE:
        atoll_exchange_fail(x, "%s sent too large a head", x->place.host);
        break;
    }
    atoll_upstream_leave(up);
    return n;
}

static void on_drain(void *arg)
{
    struct atoll_upstream *up = arg;

    if (up->busy)
        atoll_exchange_drained(up->busy);
}

static void on_close(void *arg, int error)
{
    struct atoll_upstream *up = arg;
    struct atoll_exchange *x = ATOLL_TAKE_PTR(up->busy);
    bool answered = up->answer.answered;

    up->depth++;
    if (x && error == 0 && atoll_http1_answer_end(&up->answer)) {
        up->busy = x;
        up->answer.keep = false;
        atoll_exchange_end(x, &up->answer.fields);
        x = NULL;
    }
    atoll_upstream_free(up);
    if (x) {
        x->up = NULL;
        atoll_exchange_lost(x, answered, false);
    }
    atoll_upstream_leave(up);
}

static const struct atoll_stream_callbacks callbacks = {
    .on_input = on_input,
    .on_drain = on_drain,
    .on_close = on_close,
    .ends_in_order = true,
};

/* The connection. */

static int open_wire(struct atoll_upstream *up)
{
    return atoll_upstream_open_stream(up, &callbacks);
}

static bool has_room(const struct atoll_upstream *up)
{
    return !up->busy;
}

static void ask(struct atoll_upstream *up, struct atoll_exchange *x)
{
    up->busy = x;
    atoll_http1_answer_start(&up->answer, atoll_http_method(x->req) == ATOLL_HEAD, x->upgrade,
                             &events, up);
    if (send_head(up, x) < 0) {
        atoll_exchange_fail(x, "out of memory for the request");
        return;
    }
    atoll_stream_resume(up->stream); /* the previous exchange may have paused it */
    atoll_exchange_go(x);
}

static void resume(struct atoll_exchange *x)
{
    atoll_stream_resume(x->up->stream);
}

/* A connection is used again if both messages are complete; one that was made for a download is not. */
static void leave(struct atoll_exchange *x, bool complete)
{
    struct atoll_upstream *up = x->up;

    up->busy = NULL;
    if (!complete || x->fresh || !up->stream || !up->answer.keep || !x->body_ended ||
        atoll_stream_pending(up->stream) > 0)
        atoll_upstream_free(up);
    else
        atoll_stream_resume(up->stream);
}

static void free_wire(struct atoll_upstream *up)
{
    atoll_http1_answer_done(&up->answer);
}

const struct atoll_upstream_wire atoll_upstream_http1 = {
    .open = open_wire,
    .has_room = has_room,
    .ask = ask,
    .write = write_body,
    .end_body = end_body,
    .pending = pending,
    .resume = resume,
    .leave = leave,
    .free = free_wire,
};
