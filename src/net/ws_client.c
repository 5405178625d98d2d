#include <errno.h>
#include <poll.h>
#include <string.h>
#include "base/base64.h"
#include "base/clock.h"
#include "base/rand.h"
#include "net/http_client_internal.h"
#include "net/ws_codec.h"

#define QUEUE_MAX ((size_t)16 * 1024 * 1024)
#define LOST 1006

struct atoll_wsc {
    struct atoll_http_line line;
    struct atoll_ws_codec *codec; /* owned */
    uint8_t *in;                  /* owned; CLIENT_READ_BYTES */
    size_t in_at, in_len;
    struct atoll_buf out;
    bool close_sent; /* our close frame is queued: no messages after it */
    bool broken;     /* sending has failed; received bytes may still be read */
    bool over;       /* nothing can be received any more */
    uint16_t code;
};

/* A random Sec-WebSocket-Key. */
static void make_key(char key[25])
{
    uint8_t raw[16];

    atoll_rand_bytes(raw, sizeof(raw));
    atoll_base64_text(key, raw, sizeof(raw));
}

static int check_reply(const struct atoll_http_reply *reply, const char *key,
                       struct atoll_error *err)
{
    const char *given = atoll_http_reply_header(reply, "sec-websocket-accept");
    char expected[29];
    int r = atoll_ws_accept_key(key, expected);

    if (r < 0)
        return atoll_fail_errno(err, -r, "SHA-1 for a WebSocket");
    if (!given || strcmp(given, expected) != 0)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "the server's answer to the WebSocket upgrade is not valid");
    return 0;
}

/* Takes ownership of the client's connection on success. */
static int wsc_new(struct atoll_http_client *client, size_t max_message, size_t at, size_t rest,
                   struct atoll_wsc **ret_ws, struct atoll_error *err)
{
    struct atoll_wsc *ws = calloc(1, sizeof(*ws));

    if (!ws)
        return atoll_fail_errno(err, ENOMEM, "websocket");
    ws->line.fd = ATOLL_NO_FD;
    ws->in = malloc(CLIENT_READ_BYTES);
    if (!ws->in || atoll_ws_codec_new(false, max_message, &ws->codec) < 0) {
        (void)atoll_wsc_free(ws);
        return atoll_fail_errno(err, ENOMEM, "websocket");
    }
    memcpy(ws->in, client->in + at, rest);
    ws->in_len = rest;
    ws->code = LOST;
    atoll_buf_init(&ws->out, QUEUE_MAX);
    ws->line = client->line;
    client->line = (struct atoll_http_line){.fd = ATOLL_NO_FD};
    *ret_ws = ws;
    return 0;
}

int atoll_http_client_websocket(struct atoll_http_client *client, const char *target,
                                const struct atoll_http_field *headers, size_t max_message,
                                struct atoll_http_reply *reply, struct atoll_wsc **ret_ws,
                                struct atoll_error *err)
{
    char key[25];
    const struct atoll_http_field own[] = {
        {"Connection", "Upgrade"},
        {"Upgrade", "websocket"},
        {"Sec-WebSocket-Version", "13"},
        {"Sec-WebSocket-Key", key},
        {NULL, NULL},
    };
    struct atoll_http_reply answer;
    size_t at = 0, rest = 0;
    int r;

    *reply = (struct atoll_http_reply){.status = 0};
    make_key(key);
    r = atoll_http_client_upgrade(client, target, headers, own, &answer, &at, &rest, err);
    if (r < 0)
        return r;
    if (answer.status != 101) {
        *reply = answer;
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the server answered %d instead of opening a WebSocket", answer.status);
    }
    r = check_reply(&answer, key, err);
    atoll_http_reply_done(&answer);
    if (r == 0)
        r = wsc_new(client, max_message, at, rest, ret_ws, err);
    atoll_http_client_disconnect(client);
    return r;
}

struct atoll_wsc *atoll_wsc_free(struct atoll_wsc *ws)
{
    if (ws) {
        atoll_http_line_close(&ws->line);
        (void)atoll_ws_codec_free(ws->codec);
        atoll_buf_done(&ws->out);
        free(ws->in);
        free(ws);
    }
    return NULL;
}

int atoll_wsc_fd(const struct atoll_wsc *ws)
{
    return ws->line.fd;
}

size_t atoll_wsc_pending(const struct atoll_wsc *ws)
{
    return ws->broken ? 0 : atoll_buf_size(&ws->out);
}

short atoll_wsc_events(const struct atoll_wsc *ws)
{
    return (short)(atoll_http_line_events(&ws->line) | (atoll_wsc_pending(ws) > 0 ? POLLOUT : 0));
}

uint16_t atoll_wsc_close_code(const struct atoll_wsc *ws)
{
    return ws->code;
}

static int closed(const struct atoll_wsc *ws, struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                      ws->code == LOST ? "lost the connection to atolld; its log says why"
                                       : "atolld closed the connection (code %u)",
                      ws->code);
}

static void flush(struct atoll_wsc *ws)
{
    while (atoll_wsc_pending(ws) > 0) {
        const struct iovec iov = {(void *)atoll_buf_head(&ws->out), atoll_buf_size(&ws->out)};
        ssize_t n = atoll_http_line_sendv(&ws->line, &iov, 1);
        if (n < 0) {
            ws->broken = n != -EAGAIN;
            return;
        }
        atoll_buf_consume(&ws->out, (size_t)n);
    }
}

static int queue_frame(struct atoll_wsc *ws, enum atoll_ws_opcode opcode, const void *bytes,
                       size_t n, struct atoll_error *err)
{
    if (ws->close_sent || ws->broken || ws->over)
        return closed(ws, err);
    if (atoll_ws_codec_mask(ws->codec, opcode, bytes, n, &ws->out) < 0)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                          "atolld does not read our messages");
    ws->close_sent = opcode == ATOLL_WS_CLOSE;
    flush(ws);
    return ws->broken ? closed(ws, err) : 0;
}

int atoll_wsc_send(struct atoll_wsc *ws, bool binary, const void *bytes, size_t n,
                   struct atoll_error *err)
{
    return queue_frame(ws, binary ? ATOLL_WS_BINARY : ATOLL_WS_TEXT, bytes, n, err);
}

int atoll_wsc_close(struct atoll_wsc *ws, uint16_t code, struct atoll_error *err)
{
    uint8_t payload[125];

    if (ws->close_sent)
        return 0;
    return queue_frame(ws, ATOLL_WS_CLOSE, payload, atoll_ws_close_payload(code, NULL, payload),
                       err);
}

static int is_over(struct atoll_wsc *ws, uint16_t code, struct atoll_error *err)
{
    ws->over = true;
    ws->code = code;
    return closed(ws, err);
}

/* Decodes the next message from received bytes: 1, 0 for none, -EPIPE. */
static int decode(struct atoll_wsc *ws, struct atoll_ws_event *ev, struct atoll_error *err)
{
    const uint8_t *at = ws->in + ws->in_at;
    uint16_t code = 0;
    int r;

    while ((r = atoll_ws_codec_decode(ws->codec, &at, &ws->in_len, ev, &code)) == 1) {
        ws->in_at = (size_t)(at - ws->in);
        if (ev->opcode == ATOLL_WS_TEXT || ev->opcode == ATOLL_WS_BINARY)
            return 1;
        if (ev->opcode == ATOLL_WS_PING)
            (void)!queue_frame(ws, ATOLL_WS_PONG, ev->bytes, ev->n, NULL);
        if (ev->opcode == ATOLL_WS_CLOSE) {
            uint16_t theirs = ev->code;
            (void)!atoll_wsc_close(ws, theirs, NULL);
            return is_over(ws, theirs, err);
        }
    }
    ws->in_at = (size_t)(at - ws->in);
    if (r < 0) {
        (void)!atoll_wsc_close(ws, code, NULL);
        return is_over(ws, code, err);
    }
    return 0;
}

/* One recv. 1: bytes came, 0: none now, -EPIPE. */
static int fill(struct atoll_wsc *ws, struct atoll_error *err)
{
    ssize_t n = atoll_http_line_recv(&ws->line, ws->in, CLIENT_READ_BYTES);

    if (n > 0) {
        ws->in_at = 0;
        ws->in_len = (size_t)n;
        return 1;
    }
    if (n == -EAGAIN)
        return 0;
    return is_over(ws, LOST, err);
}

int atoll_wsc_recv(struct atoll_wsc *ws, int timeout_ms, bool *ret_binary,
                   const uint8_t **ret_bytes, size_t *ret_n, struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + timeout_ms;
    struct atoll_ws_event ev;

    if (ws->over)
        return closed(ws, err);
    for (;;) {
        int r = decode(ws, &ev, err);
        if (r < 0)
            return r;
        if (r == 1) {
            *ret_binary = ev.opcode == ATOLL_WS_BINARY;
            *ret_bytes = ev.bytes;
            *ret_n = ev.n;
            return 1;
        }
        flush(ws);
        r = fill(ws, err);
        if (r < 0)
            return r;
        if (r == 1)
            continue;
        if (timeout_ms > 0)
            timeout_ms = (int)ATOLL_MAX(until - atoll_clock_ms(), (int64_t)0);
        if (timeout_ms == 0)
            return 0;
        if (atoll_http_client_wait(ws->line.fd, atoll_wsc_events(ws), timeout_ms, NULL) < 0)
            return 0;
    }
}

int atoll_wsc_flush(struct atoll_wsc *ws, int timeout_ms, struct atoll_error *err)
{
    for (;;) {
        int r;
        flush(ws);
        if (ws->broken)
            return closed(ws, err);
        if (atoll_wsc_pending(ws) == 0)
            return 0;
        r = atoll_http_client_wait(ws->line.fd, POLLOUT, timeout_ms, err);
        if (r < 0)
            return r;
    }
}
