/*
 * From bytes to requests. The parser runs in steps that end at each thing of interest (a complete
 * head, a piece of body, the end of a message), so that handlers are only ever called from outside
 * of it and may do what they like: answer, pause, abort, upgrade.
 * Body bytes are handed out where recv put them; only a collected body that does not come in one
 * piece is copied.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "net/http_internal.h"
#include "net/url.h"

#define KEEP_BYTES (64 * 1024) /* buffers larger than this are given back after the request */

static void reset_buf(struct atoll_buf *b)
{
    if (b->cap > KEEP_BYTES)
        atoll_buf_done(b);
    else
        atoll_buf_clear(b);
}

void atoll_http_request_start(struct atoll_http_conn *c)
{
    llhttp_init(&c->parser, HTTP_REQUEST, &atoll_http_parser_settings);
    c->parser.data = c;
    c->phase = PHASE_HEAD;
    c->lines = (struct atoll_http_lines){0};
    c->head_bytes = 0;
    c->head_since_ms = atoll_loop_now_ms(c->server->loop);
    c->head_done = c->message_done = false;
    c->reject_status = 0;
    c->field_count = 0;
    if (c->field_cap > 0)
        c->fields[0].name = 0;
    atoll_buf_clear(&c->head);
    reset_buf(&c->body);
    reset_buf(&c->extra);
}

static bool is_too_large(const struct atoll_http_request *req)
{
    return req->body_mode == BODY_COLLECT && req->content_length > 0 &&
           (uint64_t)req->content_length > req->body_max;
}

void atoll_http_request_deliver(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    if (c->dead || c->phase != PHASE_SERVING || req->body_told)
        return;
    if (is_too_large(req)) {
        atoll_http_conn_reject(c, 413, "the request body is too large");
    } else if (req->body_mode == BODY_COLLECT && req->body_done) {
        req->body_told = true;
        req->on_body(req->body_arg, req, atoll_buf_head(&c->body), atoll_buf_size(&c->body));
    } else if (req->body_mode == BODY_STREAM && req->body_done && !req->body_paused) {
        req->body_told = true;
        req->on_end(req->body_arg, req);
    }
}

/* A piece of a body that is gathered. The whole of it in one piece needs no copy. */
static void collect_piece(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    if (req->body_got > req->body_max) {
        atoll_http_conn_reject(c, 413, "the request body is too large");
    } else if (req->content_length == (int64_t)c->span_len) {
        req->body_done = req->body_told = true;
        req->on_body(req->body_arg, req, c->span, c->span_len);
    } else if (atoll_buf_append(&c->body, c->span, c->span_len) < 0) {
        atoll_http_conn_reject(c, 500, "out of memory");
    }
}

static void body_piece(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    req->body_got += c->span_len;
    if (req->content_length >= 0 && req->body_got == (uint64_t)req->content_length)
        c->message_done = true;
    if (c->phase == PHASE_DRAIN) {
        c->drained += c->span_len;
        if (c->drained > ATOLL_HTTP_DRAIN_MAX) {
            c->phase = PHASE_CLOSING;
            atoll_stream_close_after_flush(c->stream);
        }
    } else if (req->body_mode == BODY_COLLECT) {
        collect_piece(c);
    } else {
        req->on_body(req->body_arg, req, c->span, c->span_len);
    }
}

static void body_end(struct atoll_http_conn *c)
{
    c->req.body_done = true;
    if (c->phase == PHASE_DRAIN)
        c->phase = PHASE_IDLE;
    else
        atoll_http_request_deliver(c);
}

static void head_complete(struct atoll_http_conn *c, bool more_input)
{
    if (!atoll_http_head_finish(c)) {
        atoll_http_conn_reject(c, c->reject_status, c->reject_text);
        return;
    }
    c->phase = PHASE_SERVING;
    c->head_bytes = 0;
    if (more_input && c->req.body_done && !c->corked) {
        c->corked = true;
        atoll_stream_cork(c->stream);
    }
    c->dispatching = true;
    c->server->on_request(c->server->arg, &c->req);
    c->dispatching = false;
    atoll_http_request_deliver(c);
}

/* Checks the framing among the bytes of one parser step; body bytes come last in a step. */
static bool check_framing(struct atoll_http_conn *c, const uint8_t *bytes, size_t used)
{
    size_t framing = c->span ? (size_t)(c->span - bytes) : used;

    if (!atoll_http_lines_check(&c->lines, bytes, framing))
        return atoll_http_reject_with(c, 400, "the request is malformed");
    c->head_bytes += framing;
    if (c->head_bytes > c->server->limits.header_bytes ||
        (c->head_bytes == c->server->limits.header_bytes && !c->head_done))
        return atoll_http_reject_with(c, 431, "the request head is too large");
    if (c->span) {
        c->lines.last = 0;
        c->lines.after_chunk = true;
        c->head_bytes = 0; /* bounds chunk extensions and trailers from here on */
    }
    return true;
}

/* One step of the parser: returns the bytes used. */
static size_t step(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
{
    llhttp_errno_t e;
    size_t used = n;

    if (c->phase == PHASE_IDLE)
        atoll_http_request_start(c);
    if (c->phase == PHASE_HEAD)
        used = ATOLL_MIN(n, c->server->limits.header_bytes - c->head_bytes);
    c->span = NULL;
    c->span_len = 0;
    e = llhttp_execute(&c->parser, (const char *)bytes, used);
    if (e == HPE_PAUSED) {
        used = (size_t)(llhttp_get_error_pos(&c->parser) - (const char *)bytes);
        llhttp_resume(&c->parser);
    } else if (e != HPE_OK) {
        (void)atoll_http_reject_with(c, 400, "the request is malformed");
    }
    if (c->reject_status != 0 || !check_framing(c, bytes, used)) {
        atoll_http_conn_reject(c, c->reject_status, c->reject_text);
        return used;
    }
    if (c->phase == PHASE_HEAD && c->head_done)
        head_complete(c, used < n);
    else if (c->span)
        body_piece(c);
    if (!c->dead && c->message_done && !c->req.body_done &&
        (c->phase == PHASE_SERVING || c->phase == PHASE_DRAIN))
        body_end(c);
    return used;
}

/* Whether the connection can make use of input now. */
static bool wants_input(const struct atoll_http_conn *c)
{
    const struct atoll_http_request *req = &c->req;

    switch (c->phase) {
    case PHASE_IDLE:
        /* A client that pipelines requests but reads no answers has to wait. */
        return atoll_stream_pending(c->stream) <= ATOLL_HTTP_HIGH_WATER;
    case PHASE_HEAD:
    case PHASE_DRAIN:
        return true;
    case PHASE_SERVING:
        return req->body_mode != BODY_UNREAD && !req->body_done && !req->body_paused;
    case PHASE_CLOSING:
        break;
    }
    return false;
}

size_t atoll_http_conn_input(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
{
    size_t used = 0;

    c->depth++;
    while (!c->dead && used < n && wants_input(c))
        used += step(c, bytes + used, n - used);
    if (!c->dead && c->corked) {
        c->corked = false;
        atoll_stream_uncork(c->stream);
    }
    if (!c->dead && used < n)
        atoll_stream_pause(c->stream);
    if (--c->depth == 0 && c->dead)
        free(c);
    return used;
}

static void kicked(void *arg)
{
    struct atoll_http_conn *c = arg;

    c->depth++;
    atoll_http_conn_release(c);
    atoll_http_request_deliver(c);
    if (--c->depth == 0 && c->dead)
        free(c);
}

void atoll_http_conn_kick(struct atoll_http_conn *c)
{
    if (!c->kick.loop)
        atoll_timer_set(&c->kick, c->server->loop, 0, kicked, c);
}

/* The body, for handlers. */

static void body_wanted(struct atoll_http_request *req, enum atoll_http_body_mode mode)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct atoll_http_conn *c = req->conn;

    req->body_mode = mode;
    if (req->expect_continue && !req->body_done && !req->begun && !is_too_large(req)) {
        req->expect_continue = false;
        /* A failure shows up as on_close. */
        (void)!atoll_stream_write(c->stream, go_on, sizeof(go_on) - 1);
    }
    if (!c->dispatching)
        atoll_http_conn_kick(c);
    atoll_stream_resume(c->stream);
}

void atoll_http_body_collect(struct atoll_http_request *req, size_t max,
                             void (*done)(void *arg, struct atoll_http_request *req,
                                          const uint8_t *bytes, size_t n),
                             void *arg)
{
    req->on_body = done;
    req->body_arg = arg;
    req->body_max = max;
    req->conn->body.max = max;
    body_wanted(req, BODY_COLLECT);
}

void atoll_http_body_stream(struct atoll_http_request *req,
                            void (*on_data)(void *arg, struct atoll_http_request *req,
                                            const uint8_t *bytes, size_t n),
                            void (*on_end)(void *arg, struct atoll_http_request *req), void *arg)
{
    req->on_body = on_data;
    req->on_end = on_end;
    req->body_arg = arg;
    body_wanted(req, BODY_STREAM);
}

void atoll_http_body_pause(struct atoll_http_request *req)
{
    req->body_paused = true;
    atoll_stream_pause(req->conn->stream);
}

void atoll_http_body_resume(struct atoll_http_request *req)
{
    if (!req->body_paused)
        return;
    req->body_paused = false;
    if (!req->conn->dispatching)
        atoll_http_conn_kick(req->conn);
    atoll_stream_resume(req->conn->stream);
}

/* What the head says, for handlers. */

static const char *text_at(const struct atoll_http_conn *c, uint32_t offset)
{
    return (const char *)c->head.data + offset;
}

enum atoll_http_method atoll_http_method(const struct atoll_http_request *req)
{
    return req->method;
}

const char *atoll_http_method_name(enum atoll_http_method method)
{
    static const char *const names[] = {
        [ATOLL_GET] = "GET",         [ATOLL_HEAD] = "HEAD",   [ATOLL_POST] = "POST",
        [ATOLL_PUT] = "PUT",         [ATOLL_PATCH] = "PATCH", [ATOLL_DELETE] = "DELETE",
        [ATOLL_OPTIONS] = "OPTIONS",
    };
    return (size_t)method < ATOLL_ARRAY_LEN(names) ? names[method] : "?";
}

const char *atoll_http_path(const struct atoll_http_request *req)
{
    return text_at(req->conn, req->path);
}

const char *atoll_http_target(const struct atoll_http_request *req)
{
    return text_at(req->conn, req->target);
}

const char *atoll_http_query(const struct atoll_http_request *req, const char *name)
{
    return atoll_url_pair(text_at(req->conn, req->query), req->query_len, name);
}

const char *atoll_http_header(const struct atoll_http_request *req, const char *name)
{
    const struct atoll_http_conn *c = req->conn;

    for (size_t i = 0; i < c->field_count; i++)
        if (strcasecmp(text_at(c, c->fields[i].name), name) == 0)
            return text_at(c, c->fields[i].value);
    return NULL;
}

bool atoll_http_header_at(const struct atoll_http_request *req, size_t i, const char **ret_name,
                          const char **ret_value)
{
    const struct atoll_http_conn *c = req->conn;

    if (i >= c->field_count)
        return false;
    *ret_name = text_at(c, c->fields[i].name);
    *ret_value = text_at(c, c->fields[i].value);
    return true;
}

int64_t atoll_http_content_length(const struct atoll_http_request *req)
{
    return req->content_length;
}

const struct atoll_http_peer *atoll_http_peer(const struct atoll_http_request *req)
{
    return &req->conn->peer;
}

struct atoll_loop *atoll_http_loop(const struct atoll_http_request *req)
{
    return req->conn->server->loop;
}

void atoll_http_set_user(struct atoll_http_request *req, void *user)
{
    req->user = user;
}

void *atoll_http_user(const struct atoll_http_request *req)
{
    return req->user;
}
