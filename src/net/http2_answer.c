/*
 * struct atoll_http_wire for HTTP/2: turns answers of handlers into frames. The answer waits in a buffer
 * until the client's window has room; atoll_http_pending() counts it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "net/http2_internal.h"

#define KEEP_BYTES ((size_t)64 * 1024) /* an empty buffer larger than this is freed */

static struct atoll_http2_stream *stream_of(const struct atoll_http_conn *c)
{
    return ATOLL_CONTAINER_OF(c, struct atoll_http2_stream, conn);
}

/* A list of headers under construction. */
struct fields {
    nghttp2_nv *list;
    size_t count;
};

static void add(struct fields *f, const char *name, size_t name_len, const char *value,
                size_t value_len)
{
    f->list[f->count++] =
        (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_len, value_len, NGHTTP2_NV_FLAG_NONE};
}

/* Connection-specific headers of HTTP/1 are an error in HTTP/2 (RFC 9113 section 8.2.2). */
static bool is_of_connection(const char *name, size_t n)
{
    return atoll_http2_is(name, n, "keep-alive") || atoll_http2_is(name, n, "proxy-connection") ||
           atoll_http2_is(name, n, "upgrade");
}

/* Adds "Name: value\r\n" lines, as atoll_http_set_header() stores them; lower-cases the names. */
static void add_lines(struct fields *f, char *text, size_t size)
{
    for (char *end = text + size, *line = text, *next; line < end; line = next) {
        char *colon = memchr(line, ':', (size_t)(end - line));
        char *stop = memchr(colon, '\r', (size_t)(end - colon));
        for (char *p = line; p < colon; p++)
            *p |= *p >= 'A' && *p <= 'Z' ? 0x20 : 0;
        if (!is_of_connection(line, (size_t)(colon - line)))
            add(f, line, (size_t)(colon - line), colon + 2, (size_t)(stop - colon) - 2);
        next = stop + 2;
    }
}

/* A list that has room for `more` headers and the lines of `extra`; free(f->list). -ENOMEM. */
static int fields_new(struct fields *f, size_t more, const struct atoll_buf *extra)
{
    /* A line of `extra` has at least five bytes: "a: \r\n". */
    f->list = malloc((more + 1 + atoll_buf_size(extra) / 5) * sizeof(*f->list));
    f->count = 0;
    return f->list ? 0 : -ENOMEM;
}

static void add_extra(struct fields *f, struct atoll_buf *extra)
{
    if (atoll_buf_size(extra) > 0)
        add_lines(f, (char *)extra->data + extra->off, atoll_buf_size(extra));
}

static void inform(struct atoll_http_conn *c, int status, struct atoll_buf *extra)
{
    struct atoll_http2_stream *st = stream_of(c);
    struct fields f;
    char code[12];

    if (fields_new(&f, 1, extra) < 0)
        return;
    add(&f, ":status", 7, code, (size_t)snprintf(code, sizeof(code), "%d", status));
    add_extra(&f, extra);
    (void)!nghttp2_submit_headers(st->session->lib, NGHTTP2_FLAG_NONE, st->id, NULL, f.list,
                                  f.count, NULL);
    free(f.list);
    atoll_http2_wake(st->session);
}

/* Sends the trailers after the last byte of the answer. Returns whether there are any. */
static bool submit_trailers(struct atoll_http2_stream *st)
{
    struct atoll_buf *extra = &st->conn.extra;
    struct fields f;
    int r;

    if (atoll_buf_size(extra) == 0 || fields_new(&f, 0, extra) < 0)
        return false;
    add_extra(&f, extra);
    r = nghttp2_submit_trailer(st->session->lib, st->id, f.list, f.count);
    free(f.list);
    return r == 0;
}

/* The body. */

static void pause_body(struct atoll_http_conn *c)
{
    (void)c; /* arriving bytes are buffered; the client stops when the window is full */
}

static void resume_body(struct atoll_http_conn *c)
{
    struct atoll_http2_stream *st = stream_of(c);

    atoll_http2_stream_touch(st);
    /* The handler reads the body: enlarge the window, for throughput over long distances. */
    if (!st->remote_ended)
        (void)!nghttp2_session_set_local_window_size(st->session->lib, NGHTTP2_FLAG_NONE, st->id,
                                                     HTTP2_WINDOW_READING);
    atoll_http2_wake(st->session);
}

/* The answer. */

static bool is_drained(const struct atoll_http2_stream *st)
{
    return (st->above && atoll_buf_size(&st->out) < ATOLL_HTTP_HIGH_WATER) ||
           (st->awaited && atoll_buf_size(&st->out) == 0);
}

static ssize_t read_answer(nghttp2_session *lib, int32_t id, uint8_t *buf, size_t cap,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct atoll_http2_stream *st = source->ptr;
    size_t n = ATOLL_MIN(atoll_buf_size(&st->out), cap);

    (void)lib;
    (void)id;
    (void)arg;
    if (n == 0 && !st->ended) {
        st->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) {
        memcpy(buf, atoll_buf_head(&st->out), n);
        atoll_buf_consume(&st->out, n);
        atoll_http2_stream_touch(st);
    }
    if (atoll_buf_size(&st->out) == 0) {
        if (st->out.cap > KEEP_BYTES)
            atoll_buf_done(&st->out);
        if (st->ended)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (st->ended && submit_trailers(st))
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    }
    if (is_drained(st))
        atoll_http_conn_kick(&st->conn);
    return (ssize_t)n;
}

static void more_answer(struct atoll_http2_stream *st)
{
    if (st->deferred) {
        st->deferred = false;
        (void)!nghttp2_session_resume_data(st->session->lib, st->id);
    }
    atoll_http2_wake(st->session);
}

static void cut(struct atoll_http_conn *c)
{
    struct atoll_http2_stream *st = stream_of(c);

    atoll_buf_done(&st->out);
    atoll_http2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
}

static int submit(struct atoll_http2_stream *st, int status, const char *content_type,
                  int64_t length, bool body)
{
    struct atoll_buf *extra = &st->conn.extra;
    nghttp2_data_provider source = {.source.ptr = st, .read_callback = read_answer};
    const char *date = atoll_http_date(&st->conn.req);
    struct fields f;
    char code[12], digits[24];
    int r;

    if (fields_new(&f, 4, extra) < 0)
        return -ENOMEM;
    add(&f, ":status", 7, code, (size_t)snprintf(code, sizeof(code), "%d", status));
    add(&f, "date", 4, date, strlen(date));
    if (content_type && atoll_http_is_field_value(content_type) && strlen(content_type) < 200)
        add(&f, "content-type", 12, content_type, strlen(content_type));
    if (length >= 0 && status != 204 && status != 304)
        add(&f, "content-length", 14, digits,
            (size_t)snprintf(digits, sizeof(digits), "%lld", (long long)length));
    add_extra(&f, extra);
    r = nghttp2_submit_response(st->session->lib, st->id, f.list, f.count, body ? &source : NULL);
    free(f.list);
    atoll_buf_clear(extra); /* from now on for trailers */
    atoll_http2_wake(st->session);
    return r == 0 ? 0 : -EPIPE;
}

static void respond(struct atoll_http_request *req, int status, const char *content_type,
                    const void *bytes, size_t n)
{
    struct atoll_http2_stream *st = stream_of(req->conn);
    bool body = n > 0 && !req->no_body;

    req->conn->phase = PHASE_CLOSING;
    st->ended = true;
    atoll_http2_stream_touch(st);
    if ((body && atoll_buf_append(&st->out, bytes, n) < 0) ||
        submit(st, status, content_type, (int64_t)n, body) < 0)
        cut(req->conn);
}

static void begin(struct atoll_http_request *req, int status, const char *content_type,
                  int64_t length)
{
    struct atoll_http2_stream *st = stream_of(req->conn);

    /* Without END_STREAM, even if the answer has no body: end() sends that. */
    if (submit(st, status, content_type, length, true) < 0)
        cut(req->conn);
}

static int write_piece(struct atoll_http_request *req, const void *bytes, size_t n)
{
    struct atoll_http2_stream *st = stream_of(req->conn);
    size_t pending = atoll_buf_size(&st->out), max = req->conn->server->limits.pending_bytes;

    if (pending > max || n > max - pending)
        return -ENOBUFS;
    if (pending == 0)
        atoll_http2_stream_touch(st);
    if (atoll_buf_append(&st->out, bytes, n) < 0)
        return -ENOBUFS;
    st->above |= atoll_buf_size(&st->out) > ATOLL_HTTP_HIGH_WATER;
    more_answer(st);
    return 0;
}

static void end(struct atoll_http_request *req)
{
    struct atoll_http2_stream *st = stream_of(req->conn);

    req->conn->phase = PHASE_CLOSING;
    st->ended = true;
    more_answer(st);
}

static size_t pending(const struct atoll_http_conn *c)
{
    return atoll_buf_size(&stream_of(c)->out);
}

static void await_empty(struct atoll_http_conn *c)
{
    stream_of(c)->awaited = true;
}

static void kicked(struct atoll_http_conn *c)
{
    struct atoll_http2_stream *st = stream_of(c);

    if (is_drained(st)) {
        st->above = false;
        st->awaited = st->awaited && atoll_buf_size(&st->out) > 0;
        if (c->phase == PHASE_SERVING && c->req.on_drain)
            c->req.on_drain(c->req.drain_arg, &c->req);
    }
    atoll_http2_stream_pump(st);
    atoll_http2_wake(st->session);
}

const struct atoll_http_wire atoll_http2_wire = {
    .begin = begin,
    .write = write_piece,
    .end = end,
    .respond = respond,
    .cut = cut,
    .pending = pending,
    .await_empty = await_empty,
    .inform = inform,
    .pause = pause_body,
    .resume = resume_body,
    .kicked = kicked,
};
