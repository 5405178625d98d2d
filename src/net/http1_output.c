/*
 * HTTP/1, from answers to bytes. A whole response is sent with one sendmsg of head and body; the body is
 * copied only if the socket does not take all of it. The head of a response in pieces is held back
 * (corked) until the end of the loop iteration, so that one send carries it and the first pieces.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "net/http_internal.h"

#define HELD_MAX (16 * 1024) /* most bytes that are held back */
#define SMALL_PIECE 4096     /* smaller pieces are held back until the end of the loop iteration */

#define BUSY_BODY                                                                \
    "{\"error\":{\"code\":\"unavailable\",\"message\":\"too many connections\"," \
    "\"hint\":\"close idle connections, or try again soon\"}}\n"

_Static_assert(sizeof(BUSY_BODY) - 1 == 117, "Content-Length of the busy answer");

const char atoll_http1_busy_answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                       "Content-Type: application/json\r\n"
                                       "Content-Length: 117\r\n"
                                       "Retry-After: 1\r\n"
                                       "Connection: close\r\n"
                                       "\r\n" BUSY_BODY;

/* A head under construction. It cannot overflow: all parts are short, except a content type, and one
 * that is too long is omitted. */
struct head {
    char text[640];
    size_t len;
};

static void put(struct head *h, const char *text)
{
    size_t n = strlen(text);

    if (n <= sizeof(h->text) - h->len) {
        memcpy(h->text + h->len, text, n);
        h->len += n;
    }
}

static void put_number(struct head *h, uint64_t value)
{
    char digits[24];
    size_t i = sizeof(digits);

    digits[--i] = '\0';
    do
        digits[--i] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    put(h, digits + i);
}

/* Whether the connection can serve another request after this answer. */
static void decide_keep_alive(struct atoll_http_request *req)
{
    if (req->body_done)
        return;
    /* We sent no 100 Continue, so the client may or may not send the body: the next bytes are
     * ambiguous. */
    if (req->expect_continue)
        req->keep_alive = false;
    /* Of a chunked body it is not known how much follows. If that turned out to be too much only after the
     * answer, a client that has sent all of it would begin its next request on a connection that closes. */
    if (req->content_length < 0 ||
        (uint64_t)req->content_length - req->body_got > ATOLL_HTTP_DRAIN_MAX)
        req->keep_alive = false;
}

/* length: -1 for unknown. */
static void make_head(struct atoll_http_request *req, struct head *h, int status,
                      const char *content_type, int64_t length)
{
    h->len = 0;
    decide_keep_alive(req);
    req->chunked = length < 0 && !req->http10;
    if (length < 0 && req->http10)
        req->keep_alive = false; /* closing the connection marks the end of the body */
    put(h, "HTTP/1.1 ");
    put_number(h, (uint64_t)status);
    put(h, " ");
    put(h, *req->reason ? req->reason : atoll_http_reason(status));
    put(h, "\r\nDate: ");
    put(h, atoll_http_date(req));
    if (content_type && atoll_http_is_field_value(content_type) && strlen(content_type) < 200) {
        put(h, "\r\nContent-Type: ");
        put(h, content_type);
    }
    if (status != 204 && status != 304) {
        if (length >= 0) {
            put(h, "\r\nContent-Length: ");
            put_number(h, (uint64_t)length);
        } else if (req->chunked) {
            put(h, "\r\nTransfer-Encoding: chunked");
        }
    }
    if (!req->keep_alive)
        put(h, "\r\nConnection: close");
    else if (req->http10)
        put(h, "\r\nConnection: keep-alive");
    put(h, "\r\n");
}

static void release(struct atoll_http_conn *c)
{
    if (c->held && !c->dead) {
        c->held = false;
        atoll_stream_uncork(c->stream);
    }
}

/* The handler has ended the request: the connection drains its body or serves the next one. */
static void finish(struct atoll_http_request *req)
{
    struct atoll_http_conn *c = req->conn;

    release(c);
    if (!req->keep_alive) {
        c->phase = PHASE_CLOSING;
        atoll_stream_close_after_flush(c->stream);
        return;
    }
    c->phase = req->body_done ? PHASE_IDLE : PHASE_DRAIN;
    atoll_stream_resume(c->stream);
}

static void respond(struct atoll_http_request *req, int status, const char *content_type,
                    const void *bytes, size_t n)
{
    struct atoll_http_conn *c = req->conn;
    struct head h;
    struct iovec iov[4];

    make_head(req, &h, status, content_type, (int64_t)n);
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    iov[3] = (struct iovec){(void *)bytes, n};
    /* A failure is reported by on_close of the stream. */
    (void)!atoll_stream_writev_whole(c->stream, iov, req->no_body || n == 0 ? 3 : 4);
    finish(req);
}

static void begin(struct atoll_http_request *req, int status, const char *content_type,
                  int64_t length)
{
    struct atoll_http_conn *c = req->conn;
    struct head h;
    struct iovec iov[3];

    make_head(req, &h, status, content_type, length);
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    c->held = true;
    atoll_stream_cork(c->stream);
    (void)!atoll_stream_writev_whole(c->stream, iov, 3);
    atoll_buf_clear(&c->extra); /* from now on for trailers */
    atoll_http_conn_kick(c);
}

static int write_piece(struct atoll_http_request *req, const void *bytes, size_t n)
{
    struct atoll_http_conn *c = req->conn;
    struct iovec iov[3] = {{NULL, 0}, {(void *)bytes, n}, {(void *)"\r\n", 2}};
    char size[24];
    int r;

    if (req->chunked)
        iov[0] = (struct iovec){size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n)};
    if (!c->held && n <= SMALL_PIECE) {
        c->held = true;
        atoll_stream_cork(c->stream);
        atoll_http_conn_kick(c);
    }
    r = atoll_stream_writev(c->stream, iov, req->chunked ? 3 : 2);
    if (r == 0 && c->held && atoll_stream_pending(c->stream) > HELD_MAX)
        release(c);
    return r;
}

static void end(struct atoll_http_request *req)
{
    struct atoll_http_conn *c = req->conn;
    struct iovec iov[3] = {{(void *)"0\r\n", 3},
                           {(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)},
                           {(void *)"\r\n", 2}};

    if (req->chunked && !req->no_body)
        (void)!atoll_stream_writev_whole(c->stream, iov, 3);
    finish(req);
}

/* Resets the connection: in HTTP/1.0 an orderly end would look like a complete body. */
static void cut(struct atoll_http_conn *c)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(atoll_stream_fd(c->stream), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    atoll_http_conn_close(c);
}

static size_t pending(const struct atoll_http_conn *c)
{
    return atoll_stream_pending(c->stream);
}

static void await_empty(struct atoll_http_conn *c)
{
    atoll_stream_await_empty(c->stream);
}

static void inform(struct atoll_http_conn *c, int status, struct atoll_buf *fields)
{
    struct head h = {.len = 0};
    struct iovec iov[3];

    put(&h, "HTTP/1.1 ");
    put_number(&h, (uint64_t)status);
    put(&h, " ");
    put(&h, atoll_http_reason(status));
    put(&h, "\r\n");
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(fields), atoll_buf_size(fields)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    /* A failure is reported by on_close of the stream. */
    (void)!atoll_stream_writev_whole(c->stream, iov, 3);
}

static void pause_input(struct atoll_http_conn *c)
{
    atoll_stream_pause(c->stream);
}

static void resume_input(struct atoll_http_conn *c)
{
    atoll_stream_resume(c->stream);
}

static void kicked(struct atoll_http_conn *c)
{
    release(c);
    atoll_http_request_deliver(c);
}

const struct atoll_http_wire atoll_http1_wire = {
    .begin = begin,
    .write = write_piece,
    .end = end,
    .respond = respond,
    .cut = cut,
    .pending = pending,
    .await_empty = await_empty,
    .inform = inform,
    .pause = pause_input,
    .resume = resume_input,
    .kicked = kicked,
};

int atoll_http_respond_upgrade(struct atoll_http_request *req, const char *fields)
{
    struct atoll_http_conn *c = req->conn;
    struct head h = {.len = 0};
    struct iovec iov[3];

    put(&h, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n");
    put(&h, fields);
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    return atoll_stream_writev_whole(c->stream, iov, 3);
}
