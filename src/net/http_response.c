/*
 * From answers to bytes. A whole response leaves in one sendmsg of head and body, without a copy of
 * the body when the socket takes it. The head of a response in pieces is held back (corked) until
 * the end of the loop's round, so that it shares a send with the first pieces.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include "base/text.h"
#include "net/http_internal.h"

#define HELD_MAX (16 * 1024) /* held back at most this much */

static const struct http_status {
    int status;
    const char *reason, *code, *hint;
} statuses[] = {
    {100, "Continue", NULL, NULL},
    {101, "Switching Protocols", NULL, NULL},
    {200, "OK", NULL, NULL},
    {201, "Created", NULL, NULL},
    {202, "Accepted", NULL, NULL},
    {204, "No Content", NULL, NULL},
    {206, "Partial Content", NULL, NULL},
    {301, "Moved Permanently", NULL, NULL},
    {302, "Found", NULL, NULL},
    {303, "See Other", NULL, NULL},
    {304, "Not Modified", NULL, NULL},
    {307, "Temporary Redirect", NULL, NULL},
    {308, "Permanent Redirect", NULL, NULL},
    {400, "Bad Request", "invalid_argument", "send a well-formed HTTP/1.1 request (RFC 9112)"},
    {401, "Unauthorized", "unauthenticated", NULL},
    {402, "Payment Required", NULL, NULL},
    {403, "Forbidden", "permission_denied", NULL},
    {404, "Not Found", "not_found", NULL},
    {405, "Method Not Allowed", "unimplemented", NULL},
    {406, "Not Acceptable", "invalid_argument", NULL},
    {408, "Request Timeout", "deadline_exceeded", "send the whole request without long pauses"},
    {409, "Conflict", "already_exists", NULL},
    {410, "Gone", "not_found", NULL},
    {411, "Length Required", "invalid_argument", NULL},
    {412, "Precondition Failed", "failed_precondition", NULL},
    {413, "Content Too Large", "resource_exhausted", "send a smaller body, or in several requests"},
    {414, "URI Too Long", "resource_exhausted", "send long parameters in the body"},
    {415, "Unsupported Media Type", "invalid_argument", NULL},
    {416, "Range Not Satisfiable", "out_of_range", NULL},
    {417, "Expectation Failed", "invalid_argument", "leave the Expect header out"},
    {422, "Unprocessable Content", "invalid_argument", NULL},
    {426, "Upgrade Required", "failed_precondition", NULL},
    {429, "Too Many Requests", "resource_exhausted", NULL},
    {431, "Request Header Fields Too Large", "resource_exhausted", "send fewer or smaller headers"},
    {499, "Client Closed Request", "canceled", NULL},
    {500, "Internal Server Error", "internal", NULL},
    {501, "Not Implemented", "unimplemented", "use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"},
    {502, "Bad Gateway", "unavailable", NULL},
    {503, "Service Unavailable", "unavailable", NULL},
    {504, "Gateway Timeout", "deadline_exceeded", NULL},
    {505, "HTTP Version Not Supported", "unimplemented", "speak HTTP/1.1"},
    {507, "Insufficient Storage", "resource_exhausted", NULL},
};

#define BUSY_BODY                                                                \
    "{\"error\":{\"code\":\"unavailable\",\"message\":\"too many connections\"," \
    "\"hint\":\"close idle connections, or try again soon\"}}\n"

_Static_assert(sizeof(BUSY_BODY) - 1 == 117, "Content-Length of the busy answer");

const char atoll_http_busy_answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                      "Content-Type: application/json\r\n"
                                      "Content-Length: 117\r\n"
                                      "Retry-After: 1\r\n"
                                      "Connection: close\r\n"
                                      "\r\n" BUSY_BODY;

static const struct http_status *find_status(int status)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(statuses); i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return NULL;
}

/* A head under construction. It cannot overflow: all that goes in is short, but for content types,
 * and an overlong one is left out. */
struct head {
    char text[512];
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

/* "Date: Sat, 31 Jan 2026 12:00:00 GMT", made once a second. */
static const char *date_field(struct atoll_http_server *s)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct timespec now;
    struct tm tm;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (s->date_s != now.tv_sec && gmtime_r(&now.tv_sec, &tm)) {
        s->date_s = now.tv_sec;
        (void)snprintf(s->date, sizeof(s->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], (tm.tm_year + 1900) % 10000,
                       tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    return s->date;
}

/* Whether the connection can serve another request after this answer. */
static void decide_keep_alive(struct atoll_http_request *req)
{
    if (req->body_done)
        return;
    /* Without its 100 the client may or may not send the body: what follows is anyone's guess. */
    if (req->expect_continue)
        req->keep_alive = false;
    if (req->content_length > 0 &&
        (uint64_t)req->content_length - req->body_got > ATOLL_HTTP_DRAIN_MAX)
        req->keep_alive = false;
}

static bool is_field_value(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

/* length: -1 for unknown. */
static void make_head(struct atoll_http_request *req, struct head *h, int status,
                      const char *content_type, int64_t length)
{
    const struct http_status *s = find_status(status);

    h->len = 0;
    decide_keep_alive(req);
    req->no_body = req->method == ATOLL_HEAD || status == 204 || status == 304;
    req->chunked = length < 0 && !req->http10;
    req->left = length;
    if (length < 0 && req->http10)
        req->keep_alive = false; /* the end of the connection is the end of the body */
    put(h, "HTTP/1.1 ");
    put_number(h, (uint64_t)status);
    put(h, " ");
    put(h, s ? s->reason : "Status");
    put(h, "\r\nDate: ");
    put(h, date_field(req->conn->server));
    if (content_type && is_field_value(content_type) && strlen(content_type) < 200) {
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

int atoll_http_set_header(struct atoll_http_request *req, const char *name, const char *value)
{
    static const char *const own[] = {"content-length", "transfer-encoding", "connection", "date",
                                      "content-type"};
    struct atoll_buf *extra = &req->conn->extra;
    size_t before = atoll_buf_size(extra);
    int r;

    if (!atoll_http_is_token(name, strlen(name)) || !is_field_value(value))
        return -EINVAL;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own); i++)
        if (strcasecmp(name, own[i]) == 0)
            return -EINVAL;
    r = atoll_buf_appendf(extra, "%s: %s\r\n", name, value);
    if (r < 0)
        extra->len = extra->off + before;
    return r;
}

void atoll_http_conn_release(struct atoll_http_conn *c)
{
    if (c->held && !c->dead) {
        c->held = false;
        atoll_stream_uncork(c->stream);
    }
}

/* The handler is through with the request; the connection goes on to what comes next. */
static void finish(struct atoll_http_request *req)
{
    struct atoll_http_conn *c = req->conn;

    atoll_http_conn_release(c);
    req->on_close = NULL;
    req->on_drain = NULL;
    if (!req->keep_alive) {
        c->phase = PHASE_CLOSING;
        atoll_stream_close_after_flush(c->stream);
        return;
    }
    c->drained = 0;
    c->phase = req->body_done ? PHASE_IDLE : PHASE_DRAIN;
    atoll_stream_resume(c->stream);
}

void atoll_http_respond(struct atoll_http_request *req, int status, const char *content_type,
                        const void *bytes, size_t n)
{
    struct atoll_http_conn *c = req->conn;
    struct head h;
    struct iovec iov[4];

    if (req->begun) {
        atoll_http_abort(req);
        return;
    }
    make_head(req, &h, status, content_type, (int64_t)n);
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    iov[3] = (struct iovec){(void *)bytes, n};
    /* A failure reaches the connection through on_close of the stream. */
    (void)!atoll_stream_writev_whole(c->stream, iov, req->no_body || n == 0 ? 3 : 4);
    finish(req);
}

static int append_member(struct atoll_buf *out, const char *name, const char *value)
{
    int r = atoll_buf_appendf(out, "\"%s\":", name);
    return r < 0 ? r : atoll_text_json_quote(out, value, strlen(value));
}

void atoll_http_respond_error(struct atoll_http_request *req, int status, const char *code,
                              const char *message, const char *hint)
{
    struct atoll_buf body;
    int r;

    atoll_buf_init(&body, 16 * 1024);
    r = atoll_buf_appends(&body, "{\"error\":{");
    if (r == 0)
        r = append_member(&body, "code", code);
    if (r == 0)
        r = atoll_buf_appends(&body, ",");
    if (r == 0)
        r = append_member(&body, "message", message);
    if (r == 0 && hint)
        r = atoll_buf_appends(&body, ",");
    if (r == 0 && hint)
        r = append_member(&body, "hint", hint);
    if (r == 0)
        r = atoll_buf_appends(&body, "}}\n");
    if (r < 0)
        atoll_buf_clear(&body); /* too long or no memory: the status has to do */
    atoll_http_respond(req, status, "application/json", atoll_buf_head(&body),
                       atoll_buf_size(&body));
    atoll_buf_done(&body);
}

void atoll_http_conn_reject(struct atoll_http_conn *c, int status, const char *text)
{
    const struct http_status *s = find_status(status);
    struct atoll_http_request *req = &c->req;
    bool begun = c->phase == PHASE_SERVING && req->begun;

    c->depth++;
    if (c->phase == PHASE_SERVING && req->on_close)
        req->on_close(req->close_arg, req);
    if (begun) {
        /* Too late for another status: cut, so that nobody takes it for the whole. */
        c->phase = PHASE_CLOSING;
        atoll_http_conn_close(c);
    } else if (c->phase == PHASE_DRAIN) {
        /* The answer is out already. */
        c->phase = PHASE_CLOSING;
        atoll_stream_close_after_flush(c->stream);
    } else {
        if (c->phase == PHASE_HEAD)
            *req = (struct atoll_http_request){.conn = c, .left = -1};
        req->keep_alive = false;
        atoll_buf_clear(&c->extra);
        atoll_http_respond_error(req, status, s && s->code ? s->code : "unknown", text,
                                 s ? s->hint : NULL);
    }
    if (--c->depth == 0 && c->dead)
        free(c);
}

/* Responses in pieces. */

void atoll_http_begin(struct atoll_http_request *req, int status, const char *content_type,
                      int64_t content_length)
{
    struct atoll_http_conn *c = req->conn;
    struct head h;
    struct iovec iov[3];

    make_head(req, &h, status, content_type, content_length);
    req->begun = true;
    iov[0] = (struct iovec){h.text, h.len};
    iov[1] = (struct iovec){(void *)atoll_buf_head(&c->extra), atoll_buf_size(&c->extra)};
    iov[2] = (struct iovec){(void *)"\r\n", 2};
    c->held = true;
    atoll_stream_cork(c->stream);
    (void)!atoll_stream_writev_whole(c->stream, iov, 3);
    atoll_http_conn_kick(c);
}

int atoll_http_write(struct atoll_http_request *req, const void *bytes, size_t n)
{
    struct atoll_http_conn *c = req->conn;
    struct iovec iov[3] = {{NULL, 0}, {(void *)bytes, n}, {(void *)"\r\n", 2}};
    char size[24];
    int r;

    if (req->left >= 0 && n > (uint64_t)req->left)
        return -EOVERFLOW;
    if (n == 0)
        return 0;
    if (!req->no_body) {
        if (req->chunked)
            iov[0] = (struct iovec){size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n)};
        r = atoll_stream_writev(c->stream, iov, req->chunked ? 3 : 2);
        if (r < 0)
            return r;
        if (c->held && atoll_stream_pending(c->stream) > HELD_MAX)
            atoll_http_conn_release(c);
    }
    if (req->left >= 0)
        req->left -= (int64_t)n;
    return 0;
}

size_t atoll_http_pending(const struct atoll_http_request *req)
{
    return atoll_stream_pending(req->conn->stream);
}

void atoll_http_on_drain(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg)
{
    req->on_drain = fn;
    req->drain_arg = arg;
}

void atoll_http_end(struct atoll_http_request *req)
{
    struct iovec iov = {(void *)"0\r\n\r\n", 5};

    if (req->left > 0 && !req->no_body) {
        atoll_http_abort(req);
        return;
    }
    if (req->chunked && !req->no_body)
        (void)!atoll_stream_writev_whole(req->conn->stream, &iov, 1);
    finish(req);
}

void atoll_http_abort(struct atoll_http_request *req)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct atoll_http_conn *c = req->conn;

    /* A reset instead of an orderly end: in HTTP/1.0 the end would look like success. */
    (void)setsockopt(atoll_stream_fd(c->stream), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    c->phase = PHASE_CLOSING;
    atoll_http_conn_close(c);
}

bool atoll_http_begun(const struct atoll_http_request *req)
{
    return req->begun;
}

void atoll_http_on_close(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg)
{
    req->on_close = fn;
    req->close_arg = arg;
}

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
