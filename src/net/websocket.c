/*
 * States: open, closing (our close frame is sent), over (on_close was called or is due). A callback that
 * is due inside one of the owner's own calls is deferred to the `kick` timer.
 */
#include "net/websocket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/base64.h"
#include "net/http_internal.h"
#include "net/ws_codec.h"

#define PING_MS (30 * 1000)
#define DEAD_MS (90 * 1000)
#define CLOSE_MS (5 * 1000)

struct atoll_ws {
    struct atoll_http_upgrade upgrade;
    struct atoll_stream *stream;  /* owned; NULL when over */
    struct atoll_ws_codec *codec; /* owned */
    struct atoll_ws_callbacks cb;
    void *arg;
    struct atoll_timer timer; /* next ping, or the timeout for the peer's close frame */
    struct atoll_timer kick;
    int64_t heard_ms; /* when the peer last sent anything */
    unsigned depth;   /* callbacks running; the memory is freed after they return */
    uint16_t code;    /* for on_close */
    bool paused;
    bool closing; /* our close frame is sent: nothing more is sent or delivered */
    bool over;    /* on_close has been called */
    bool freed;
};

static void release(struct atoll_ws *ws)
{
    if (--ws->depth == 0 && ws->freed)
        free(ws);
}

static void tell_close(struct atoll_ws *ws, uint16_t code)
{
    if (ws->over || ws->freed)
        return;
    ws->over = ws->closing = true;
    atoll_timer_cancel(&ws->timer);
    atoll_timer_cancel(&ws->kick);
    ws->stream = atoll_stream_free(ws->stream);
    ws->cb.on_close(ws->arg, ws, code);
}

static void send_control(struct atoll_ws *ws, enum atoll_ws_opcode opcode, const uint8_t *bytes,
                         size_t n)
{
    uint8_t header[ATOLL_WS_HEADER_MAX];
    struct iovec iov[2] = {{header, atoll_ws_codec_header(ws->codec, opcode, n, header)},
                           {(void *)bytes, n}};

    /* A failure is reported by on_close of the stream. */
    (void)!atoll_stream_writev(ws->stream, iov, 2);
}

static void close_timeout(void *arg)
{
    struct atoll_ws *ws = arg;

    ws->depth++;
    tell_close(ws, ws->code);
    release(ws);
}

/* Timeout for the peer's close frame. While earlier bytes are still queued, the peer cannot have seen our
 * close frame: waits again. */
static void answer_due(void *arg)
{
    struct atoll_ws *ws = arg;
    struct atoll_loop *loop = atoll_stream_loop(ws->stream);
    int64_t silent_ms = atoll_loop_now_ms(loop) - atoll_stream_active_ms(ws->stream);
    bool waits = atoll_stream_pending(ws->stream) > 0 && silent_ms < DEAD_MS;

    atoll_timer_set(&ws->timer, loop, CLOSE_MS, waits ? answer_due : close_timeout, ws);
}

/* Sends our close frame, once. on_close reports `code`, unless the peer sends a code of its own. */
static void start_closing(struct atoll_ws *ws, uint16_t frame_code, const char *reason,
                          uint16_t code)
{
    uint8_t payload[125];

    if (ws->closing)
        return;
    send_control(ws, ATOLL_WS_CLOSE, payload, atoll_ws_close_payload(frame_code, reason, payload));
    ws->closing = true;
    ws->code = code;
    atoll_timer_set(&ws->timer, atoll_stream_loop(ws->stream), CLOSE_MS,
                    atoll_stream_pending(ws->stream) > 0 ? answer_due : close_timeout, ws);
}

/* Both close frames were exchanged, or the peer violated the protocol: queued bytes are still sent. */
static void finish(struct atoll_ws *ws, uint16_t code)
{
    ws->code = code;
    atoll_timer_set(&ws->timer, atoll_stream_loop(ws->stream), CLOSE_MS, close_timeout, ws);
    atoll_stream_close_after_flush(ws->stream);
}

static void handle_event(struct atoll_ws *ws, const struct atoll_ws_event *ev)
{
    switch (ev->opcode) {
    case ATOLL_WS_TEXT:
    case ATOLL_WS_BINARY:
        if (!ws->closing)
            ws->cb.on_message(ws->arg, ws, ev->opcode == ATOLL_WS_BINARY, ev->bytes, ev->n);
        break;
    case ATOLL_WS_PING:
        if (!ws->closing)
            send_control(ws, ATOLL_WS_PONG, ev->bytes, ev->n);
        break;
    case ATOLL_WS_CLOSE:
        start_closing(ws, ev->code, NULL, ev->code);
        finish(ws, ev->code);
        break;
    case ATOLL_WS_PONG:
        break;
    }
}

/* Back-pressure for a peer that sends pings but does not read the answers. */
static bool is_congested(const struct atoll_ws *ws)
{
    return atoll_stream_pending(ws->stream) > 4 * ATOLL_HTTP_HIGH_WATER;
}

static void decode(struct atoll_ws *ws, const uint8_t **bytes, size_t *n)
{
    ws->heard_ms = atoll_loop_now_ms(atoll_stream_loop(ws->stream));
    while (!ws->freed && !ws->over && !ws->paused && !is_congested(ws)) {
        struct atoll_ws_event ev;
        uint16_t code;
        int r = atoll_ws_codec_decode(ws->codec, bytes, n, &ev, &code);
        if (r == 0)
            return;
        if (r < 0) {
            start_closing(ws, code, NULL, code);
            finish(ws, code);
            *n = 0;
            return;
        }
        handle_event(ws, &ev);
        if (!ws->freed && !ws->over && ev.opcode == ATOLL_WS_CLOSE) {
            *n = 0;
            return;
        }
    }
    if (!ws->freed && !ws->over)
        atoll_stream_pause(ws->stream);
}

static size_t stream_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_ws *ws = arg;
    size_t left = n;

    ws->depth++;
    decode(ws, &bytes, &left);
    release(ws);
    return n - left;
}

/* The decoder may hold complete messages even if the stream has no input. */
static void kicked(void *arg)
{
    struct atoll_ws *ws = arg;
    const uint8_t *none = NULL;
    size_t n = 0;

    ws->depth++;
    if (!ws->paused && !ws->over)
        decode(ws, &none, &n);
    release(ws);
}

static void go_on_reading(struct atoll_ws *ws)
{
    struct atoll_loop *loop = atoll_stream_loop(ws->stream);

    atoll_stream_resume(ws->stream);
    if (!ws->kick.loop)
        atoll_timer_set(&ws->kick, loop, 0, kicked, ws);
}

static void stream_drain(void *arg)
{
    struct atoll_ws *ws = arg;

    ws->depth++;
    if (!ws->paused)
        go_on_reading(ws);
    if (ws->cb.on_drain && !ws->closing)
        ws->cb.on_drain(ws->arg, ws);
    release(ws);
}

static void stream_closed(void *arg, int error)
{
    struct atoll_ws *ws = arg;

    (void)error;
    ws->depth++;
    tell_close(ws, ws->code);
    release(ws);
}

static const struct atoll_stream_callbacks stream_callbacks = {
    .on_input = stream_input,
    .on_drain = stream_drain,
    .on_close = stream_closed,
};

static void ping_due(void *arg)
{
    struct atoll_ws *ws = arg;
    struct atoll_loop *loop = atoll_stream_loop(ws->stream);

    ws->depth++;
    /* While paused we do not read, so silence does not mean that the peer is dead. */
    if (!ws->paused && atoll_loop_now_ms(loop) - ws->heard_ms >= DEAD_MS) {
        tell_close(ws, ATOLL_WS_LOST);
    } else {
        send_control(ws, ATOLL_WS_PING, NULL, 0);
        atoll_timer_set(&ws->timer, loop, PING_MS, ping_due, ws);
    }
    release(ws);
}

/* The handshake (RFC 6455 section 4.2). */

/* Whether a comma-separated header value contains the token (case-insensitive). */
static bool has_token(const char *value, const char *token)
{
    size_t len = strlen(token);

    for (const char *p = value; p && *p; p += strspn(p, ", \t")) {
        size_t n = strcspn(p, ", \t");
        if (n == len && strncasecmp(p, token, n) == 0)
            return true;
        p += n;
    }
    return false;
}

bool atoll_ws_wanted(const struct atoll_http_request *req)
{
    return has_token(atoll_http_header(req, "upgrade"), "websocket") &&
           has_token(atoll_http_header(req, "connection"), "upgrade");
}

/* 16 bytes in base64: 22 characters and "==". */
static bool key_is_valid(const char *key)
{
    uint8_t raw[16];

    return key && atoll_base64_bytes(raw, sizeof(raw), key, strlen(key)) == (ssize_t)sizeof(raw);
}

static int check_upgrade(struct atoll_http_request *req, struct atoll_error *err)
{
    const char *version = atoll_http_header(req, "sec-websocket-version");
    const char *problem = NULL;

    if (atoll_http_method(req) != ATOLL_GET || req->http10 || req->http2)
        problem = "it must be a GET in HTTP/1.1";
    else if (!atoll_ws_wanted(req))
        problem = "it needs \"Connection: Upgrade\" and \"Upgrade: websocket\"";
    else if (!req->body_done || req->begun)
        problem = "it must have no body and no answer yet";
    else if (!key_is_valid(atoll_http_header(req, "sec-websocket-key")))
        problem = "Sec-WebSocket-Key must be 16 random bytes in base64";
    else if (!version || strcmp(version, "13") != 0)
        problem = "Sec-WebSocket-Version must be 13";
    if (!problem)
        return 0;
    (void)atoll_http_set_header(req, "Sec-WebSocket-Version", "13");
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "this is not a valid WebSocket upgrade: %s", problem);
}

static int answer(struct atoll_http_request *req, struct atoll_error *err)
{
    char fields[128], accept[29];
    int r = atoll_ws_accept_key(atoll_http_header(req, "sec-websocket-key"), accept);

    if (r < 0)
        return atoll_fail_errno(err, -r, "SHA-1 for a WebSocket");
    (void)snprintf(fields, sizeof(fields), "Upgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n",
                   accept);
    /* If the client has disconnected, on_close reports it. */
    (void)!atoll_http_respond_upgrade(req, fields);
    return 0;
}

int atoll_ws_accept(struct atoll_http_request *req, const struct atoll_ws_callbacks *callbacks,
                    void *arg, size_t max_message, struct atoll_ws **ret_ws,
                    struct atoll_error *err)
{
    struct atoll_loop *loop = atoll_http_loop(req);
    struct atoll_ws *ws;
    int r = check_upgrade(req, err);

    if (r < 0)
        return r;
    ws = calloc(1, sizeof(*ws));
    if (!ws || atoll_ws_codec_new(true, max_message, &ws->codec) < 0) {
        free(ws);
        return atoll_fail_errno(err, ENOMEM, "websocket");
    }
    r = answer(req, err);
    if (r < 0) {
        (void)atoll_ws_codec_free(ws->codec);
        free(ws);
        return r;
    }
    ws->cb = *callbacks;
    ws->arg = arg;
    ws->code = ATOLL_WS_LOST;
    ws->heard_ms = atoll_loop_now_ms(loop);
    ws->stream = atoll_http_conn_upgrade(req->conn, &ws->upgrade);
    atoll_stream_set_owner(ws->stream, &stream_callbacks, ws);
    atoll_stream_resume(ws->stream);
    atoll_timer_set(&ws->timer, loop, PING_MS, ping_due, ws);
    *ret_ws = ws;
    return 0;
}

struct atoll_ws *atoll_ws_free(struct atoll_ws *ws)
{
    if (!ws || ws->freed)
        return NULL;
    ws->freed = true;
    atoll_timer_cancel(&ws->timer);
    atoll_timer_cancel(&ws->kick);
    atoll_http_upgrade_done(&ws->upgrade);
    ws->stream = atoll_stream_free(ws->stream);
    ws->codec = atoll_ws_codec_free(ws->codec);
    if (ws->depth == 0)
        free(ws);
    return NULL;
}

int atoll_ws_send(struct atoll_ws *ws, bool binary, const void *bytes, size_t n)
{
    uint8_t header[ATOLL_WS_HEADER_MAX];
    struct iovec iov[2] = {{header, 0}, {(void *)bytes, n}};

    if (ws->closing)
        return -EPIPE;
    if (!binary && !atoll_ws_is_utf8(bytes, n))
        return -EINVAL;
    iov[0].iov_len =
        atoll_ws_codec_header(ws->codec, binary ? ATOLL_WS_BINARY : ATOLL_WS_TEXT, n, header);
    return atoll_stream_writev(ws->stream, iov, 2);
}

size_t atoll_ws_pending(const struct atoll_ws *ws)
{
    return ws->stream ? atoll_stream_pending(ws->stream) : 0;
}

void atoll_ws_await_empty(struct atoll_ws *ws)
{
    if (ws->stream)
        atoll_stream_await_empty(ws->stream);
}

void atoll_ws_pause(struct atoll_ws *ws)
{
    ws->paused = true;
    if (!ws->over)
        atoll_stream_pause(ws->stream);
}

void atoll_ws_resume(struct atoll_ws *ws)
{
    if (!ws->paused)
        return;
    ws->paused = false;
    if (ws->over)
        return;
    ws->heard_ms = atoll_loop_now_ms(atoll_stream_loop(ws->stream));
    go_on_reading(ws);
}

void atoll_ws_close(struct atoll_ws *ws, uint16_t code, const char *reason)
{
    if (ws->over)
        return;
    start_closing(ws, code, reason, ATOLL_WS_LOST);
    /* Resume even if the owner paused: we must read the peer's close frame. */
    atoll_ws_resume(ws);
}
