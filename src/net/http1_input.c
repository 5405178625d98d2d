/*
 * HTTP/1, from bytes to requests. The parser stops after each complete head, piece of a body and end of
 * a message. Handlers are called only between these steps, never from a parser callback, so that they
 * may answer, pause, abort or upgrade.
 */
#include "net/http_internal.h"

#define KEEP_BYTES (64 * 1024) /* buffers larger than this are freed after the request */

static void reset_buf(struct atoll_buf *b)
{
    if (b->cap > KEEP_BYTES)
        atoll_buf_done(b);
    else
        atoll_buf_clear(b);
}

static void request_start(struct atoll_http_conn *c)
{
    llhttp_init(&c->parser, HTTP_REQUEST, &atoll_http1_parser_settings);
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

static void body_piece(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;
    uint64_t got = req->body_got + c->span_len;

    if (req->content_length >= 0 && got == (uint64_t)req->content_length)
        c->message_done = true;
    if (c->phase == PHASE_DRAIN)
        req->body_got = got;
    else
        atoll_http_request_piece(c, c->span, c->span_len);
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
    if (!atoll_http1_head_finish(c)) {
        atoll_http_conn_reject(c, c->reject_status, c->reject_text);
        return;
    }
    c->phase = PHASE_SERVING;
    c->head_bytes = 0;
    if (more_input && c->req.body_done && !c->corked) {
        c->corked = true;
        atoll_stream_cork(c->stream);
    }
    atoll_http_request_serve(c);
}

/* Checks the framing among the bytes of one parser step; body bytes come last in a step. */
static bool check_framing(struct atoll_http_conn *c, const uint8_t *bytes, size_t used)
{
    size_t framing = c->span ? (size_t)(c->span - bytes) : used;

    if (!atoll_http1_lines_check(&c->lines, bytes, framing))
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

/* One step of the parser: returns the number of bytes it consumed. */
static size_t step(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
{
    llhttp_errno_t e;
    size_t used = n;

    if (c->phase == PHASE_IDLE)
        request_start(c);
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

/* Whether the connection can process input now. */
static bool wants_input(const struct atoll_http_conn *c)
{
    const struct atoll_http_request *req = &c->req;

    switch (c->phase) {
    case PHASE_IDLE:
        /* Back-pressure for a client that pipelines requests but does not read the answers. */
        return atoll_stream_pending(c->stream) <= ATOLL_HTTP_HIGH_WATER;
    case PHASE_HEAD:
    case PHASE_DRAIN:
        return true;
    case PHASE_SERVING:
        return req->body_mode != BODY_UNREAD && !req->body_done && !req->body_paused;
    case PHASE_HANDSHAKE:
    case PHASE_CLOSING:
        break;
    }
    return false;
}

size_t atoll_http1_input(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
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
