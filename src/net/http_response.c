/*
 * Answers, in every HTTP version: checks the contracts of http_server.h and calls the connection's
 * struct atoll_http_wire.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "base/text.h"
#include "net/http_internal.h"

static const struct http_status {
    int status;
    const char *reason, *code, *hint;
} statuses[] = {
    {100, "Continue", NULL, NULL},
    {101, "Switching Protocols", NULL, NULL},
    {103, "Early Hints", NULL, NULL},
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
    {421, "Misdirected Request", "invalid_argument", NULL},
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

static const struct http_status *find_status(int status)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(statuses); i++)
        if (statuses[i].status == status)
            return &statuses[i];
    return NULL;
}

const char *atoll_http_reason(int status)
{
    const struct http_status *s = find_status(status);
    return s ? s->reason : "Status";
}

/* "Sat, 31 Jan 2026 12:00:00 GMT"; formatted at most once a second. */
const char *atoll_http_date(struct atoll_http_request *req)
{
    struct atoll_http_server *s = req->conn->server;
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct timespec now;
    struct tm tm;

    if (*req->date)
        return req->date;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (s->date_s != now.tv_sec && gmtime_r(&now.tv_sec, &tm)) {
        s->date_s = now.tv_sec;
        (void)snprintf(s->date, sizeof(s->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], (tm.tm_year + 1900) % 10000,
                       tm.tm_hour, tm.tm_min, tm.tm_sec);
    }
    return s->date;
}

bool atoll_http_is_field_value(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            return false;
    return true;
}

int atoll_http_set_header(struct atoll_http_request *req, const char *name, const char *value)
{
    static const char *const own[] = {"content-length", "transfer-encoding", "connection", "date",
                                      "content-type"};
    struct atoll_buf *extra = &req->conn->extra;
    size_t before = atoll_buf_size(extra);
    int r;

    if (!atoll_http_is_token(name, strlen(name)) || !atoll_http_is_field_value(value))
        return -EINVAL;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(own); i++)
        if (strcasecmp(name, own[i]) == 0)
            return -EINVAL;
    r = atoll_buf_appendf(extra, "%s: %s\r\n", name, value);
    if (r < 0)
        extra->len = extra->off + before;
    return r;
}

void atoll_http_set_reason(struct atoll_http_request *req, const char *text)
{
    (void)snprintf(req->reason, sizeof(req->reason), "%s", text);
    for (unsigned char *p = (unsigned char *)req->reason; *p; p++)
        if (*p < 0x20 || *p >= 0x7f)
            *p = *p < 0x80 ? ' ' : '?';
}

void atoll_http_set_date(struct atoll_http_request *req, const char *text)
{
    if (atoll_http_is_field_value(text))
        (void)!atoll_text_copy(req->date, sizeof(req->date), text);
}

void atoll_http_inform(struct atoll_http_request *req, int status)
{
    if (!req->http10 && !req->begun)
        req->conn->wire->inform(req->conn, status, &req->conn->extra);
    atoll_buf_clear(&req->conn->extra);
}

/* Common to atoll_http_respond() and atoll_http_begin(). */
static void note_status(struct atoll_http_request *req, int status, int64_t length)
{
    req->no_body = req->method == ATOLL_HEAD || status == 204 || status == 304;
    req->left = length;
}

/* The request has ended for its handler: no callback is made any more. Its bytes may still be queued. */
static void forget_handler(struct atoll_http_request *req)
{
    req->on_close = NULL;
    req->on_drain = NULL;
}

void atoll_http_respond(struct atoll_http_request *req, int status, const char *content_type,
                        const void *bytes, size_t n)
{
    if (req->begun) {
        atoll_http_abort(req);
        return;
    }
    note_status(req, status, (int64_t)n);
    forget_handler(req);
    req->conn->wire->respond(req, status, content_type, bytes, n);
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
        atoll_buf_clear(&body); /* too long or no memory: send only the status */
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
        /* The head of an answer is sent: too late for another status. */
        c->phase = PHASE_CLOSING;
        c->wire->cut(c);
    } else if (c->phase == PHASE_DRAIN) {
        /* The answer is complete already. */
        c->phase = PHASE_CLOSING;
        atoll_stream_close_after_flush(c->stream);
    } else {
        if (c->phase == PHASE_HEAD && !req->http2) /* req may hold values of the previous request */
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
    note_status(req, status, content_length);
    req->begun = true;
    req->conn->wire->begin(req, status, content_type, content_length);
}

int atoll_http_write(struct atoll_http_request *req, const void *bytes, size_t n)
{
    int r = 0;

    if (req->left >= 0 && n > (uint64_t)req->left)
        return -EOVERFLOW;
    if (n > 0 && !req->no_body)
        r = req->conn->wire->write(req, bytes, n);
    if (r == 0 && req->left >= 0)
        req->left -= (int64_t)n;
    return r;
}

size_t atoll_http_pending(const struct atoll_http_request *req)
{
    return req->conn->wire->pending(req->conn);
}

void atoll_http_end(struct atoll_http_request *req)
{
    if (req->left > 0 && !req->no_body) {
        atoll_http_abort(req);
        return;
    }
    forget_handler(req);
    req->conn->wire->end(req);
}

void atoll_http_abort(struct atoll_http_request *req)
{
    struct atoll_http_conn *c = req->conn;

    forget_handler(req);
    c->phase = PHASE_CLOSING;
    c->wire->cut(c);
}

void atoll_http_on_drain(struct atoll_http_request *req,
                         void (*fn)(void *arg, struct atoll_http_request *req), void *arg)
{
    req->on_drain = fn;
    req->drain_arg = arg;
}

void atoll_http_await_empty(struct atoll_http_request *req)
{
    req->conn->wire->await_empty(req->conn);
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
