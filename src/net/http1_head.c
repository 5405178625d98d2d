/*
 * The head of an HTTP/1 request. llhttp parses it. This file rejects what llhttp accepts even in strict
 * mode and we do not: bare LF, folded lines, HTTP/0.9, doubled spaces, RTSP.
 */
#include "net/http_internal.h"

static bool request_line_byte(struct atoll_http_lines *l, uint8_t c)
{
    if (c >= 0x7f)
        return false;
    if (c == ' ')
        return l->last != ' ' && ++l->spaces <= 2;
    if (l->spaces == 2 && l->last == ' ')
        return c == 'H'; /* llhttp also accepts RTSP */
    if (c == '\n' && l->spaces > 0) {
        l->past_request_line = true;
        return l->spaces == 2; /* one: HTTP/0.9 */
    }
    return true;
}

bool atoll_http1_lines_check(struct atoll_http_lines *lines, const uint8_t *bytes, size_t n)
{
    struct atoll_http_lines l = *lines;

    for (size_t i = 0; i < n; i++) {
        uint8_t c = bytes[i];
        if ((c == '\n') != (l.last == '\r') || c == '\0')
            return false;
        if (l.last == '\n' && (c == ' ' || c == '\t'))
            return false; /* a folded line */
        if (l.after_chunk && c != '\r')
            return false;
        if (!l.past_request_line && !request_line_byte(&l, c))
            return false;
        l.after_chunk = false;
        l.last = c;
    }
    *lines = l;
    return true;
}

/* Parser callbacks. An error code stops the parser; the reason is in c->reject_*. */

static int stop(struct atoll_http_conn *c, int status, const char *text)
{
    (void)atoll_http_reject_with(c, status, text);
    return HPE_USER;
}

static int append(struct atoll_http_conn *c, const char *at, size_t n)
{
    return atoll_http_head_append(c, at, n) ? 0 : HPE_USER;
}

static int on_url(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;

    if (atoll_buf_size(&c->head) + n > c->server->limits.target_bytes)
        return stop(c, 414, "the request target is too long");
    return append(c, at, n);
}

static int on_url_complete(llhttp_t *parser)
{
    return append(parser->data, "", 1);
}

static bool in_trailer(const struct atoll_http_conn *c)
{
    return c->head_done;
}

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;

    if (in_trailer(c))
        return 0; /* trailers are ignored; their size counts as framing (check_framing()) */
    /* A name may arrive in pieces: field_count is incremented when the value is complete. */
    if (!atoll_http_head_room(c))
        return HPE_USER;
    if (c->fields[c->field_count].name == 0)
        c->fields[c->field_count].name = (uint32_t)c->head.len;
    return append(c, at, n);
}

static int on_field_complete(llhttp_t *parser)
{
    struct atoll_http_conn *c = parser->data;
    size_t start;
    int r;

    if (in_trailer(c))
        return 0;
    start = c->field_count < c->field_cap ? c->fields[c->field_count].name : c->head.len;
    if (!atoll_http_is_token((const char *)c->head.data + start, c->head.len - start))
        return stop(c, 400, "a header has no valid name");
    r = append(c, "", 1);
    c->fields[c->field_count].value = (uint32_t)c->head.len;
    return r;
}

static int on_value(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;
    return in_trailer(c) ? 0 : append(c, at, n);
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || byte == '\t';
}

static int on_value_complete(llhttp_t *parser)
{
    struct atoll_http_conn *c = parser->data;
    struct atoll_http_header_field *f;

    if (in_trailer(c))
        return 0;
    f = &c->fields[c->field_count++];
    while (c->head.len > f->value && is_blank(c->head.data[c->head.len - 1]))
        c->head.len--;
    if (c->field_count < c->field_cap)
        c->fields[c->field_count].name = 0;
    return append(c, "", 1);
}

static int on_headers_complete(llhttp_t *parser)
{
    struct atoll_http_conn *c = parser->data;

    c->head_done = true;
    parser->upgrade = 0; /* treat it as an ordinary request; a handler may accept the upgrade */
    return HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;

    c->span = (const uint8_t *)at;
    c->span_len = n;
    return HPE_PAUSED; /* delivered outside the parser: the handler may end the connection */
}

static int on_message_complete(llhttp_t *parser)
{
    struct atoll_http_conn *c = parser->data;

    c->message_done = true;
    return HPE_PAUSED;
}

const llhttp_settings_t atoll_http1_parser_settings = {
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* The complete head. */

static bool take_method(struct atoll_http_conn *c)
{
    static const struct {
        uint8_t parsed;
        enum atoll_http_method method;
    } methods[] = {
        {HTTP_GET, ATOLL_GET},         {HTTP_HEAD, ATOLL_HEAD},   {HTTP_POST, ATOLL_POST},
        {HTTP_PUT, ATOLL_PUT},         {HTTP_PATCH, ATOLL_PATCH}, {HTTP_DELETE, ATOLL_DELETE},
        {HTTP_OPTIONS, ATOLL_OPTIONS},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(methods); i++) {
        if (methods[i].parsed == c->parser.method) {
            c->req.method = methods[i].method;
            return true;
        }
    }
    return atoll_http_reject_with(c, 501, "the request method is not supported");
}

bool atoll_http1_head_finish(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;
    llhttp_t *p = &c->parser;

    *req = (struct atoll_http_request){.conn = c, .left = -1};
    if (p->http_major != 1 || p->http_minor > 1)
        return atoll_http_reject_with(c, 505, "only HTTP/1.0 and HTTP/1.1 are supported here");
    req->http10 = p->http_minor == 0;
    if (!take_method(c) || !atoll_http_head_check(c, 0))
        return false;
    req->keep_alive = llhttp_should_keep_alive(p);
    req->content_length = p->flags & F_CHUNKED ? -1 : 0;
    if (p->flags & F_CONTENT_LENGTH) {
        if (p->content_length > INT64_MAX)
            return atoll_http_reject_with(c, 400, "the Content-Length is too large");
        req->content_length = (int64_t)p->content_length;
    }
    req->body_done = req->content_length == 0;
    return true;
}
