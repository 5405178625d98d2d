/*
 * The head of a request. llhttp finds the pieces. What it tolerates, in its strict mode or not, and
 * we do not (bare LF, folded lines, HTTP/0.9, doubled spaces, RTSP) is caught here, as are the
 * rules that need the whole head: Host, Transfer-Encoding, the shape of the target.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "net/http_internal.h"
#include "net/url.h"

bool atoll_http_reject_with(struct atoll_http_conn *c, int status, const char *text)
{
    if (c->reject_status == 0) {
        c->reject_status = status;
        c->reject_text = text;
    }
    return false;
}

static bool request_line_byte(struct atoll_http_lines *l, uint8_t c)
{
    if (c >= 0x7f)
        return false;
    if (c == ' ')
        return l->last != ' ' && ++l->spaces <= 2;
    if (l->spaces == 2 && l->last == ' ')
        return c == 'H'; /* llhttp speaks RTSP too */
    if (c == '\n' && l->spaces > 0) {
        l->past_request_line = true;
        return l->spaces == 2; /* one: HTTP/0.9 */
    }
    return true;
}

bool atoll_http_lines_check(struct atoll_http_lines *lines, const uint8_t *bytes, size_t n)
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

bool atoll_http_is_token(const char *text, size_t n)
{
    static const bool allowed[256] = {
        ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['!'] = true,
        ['#'] = true,         ['$'] = true,         ['%'] = true,         ['&'] = true,
        ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true,
        ['.'] = true,         ['^'] = true,         ['_'] = true,         ['`'] = true,
        ['|'] = true,         ['~'] = true,
    };

    for (size_t i = 0; i < n; i++)
        if (!allowed[(uint8_t)text[i]])
            return false;
    return n > 0;
}

/* Parser callbacks. An error code stops the parser; the reason is in c->reject_*. */

static int stop(struct atoll_http_conn *c, int status, const char *text)
{
    (void)atoll_http_reject_with(c, status, text);
    return HPE_USER;
}

static int append(struct atoll_http_conn *c, const char *at, size_t n)
{
    if (atoll_buf_append(&c->head, at, n) < 0)
        return stop(c, 431, "the request head is too large");
    return 0;
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

static int grow_fields(struct atoll_http_conn *c)
{
    size_t cap = ATOLL_MIN(ATOLL_MAX(c->field_cap * 2, (size_t)16), c->server->limits.header_count);
    struct atoll_http_header_field *grown;

    if (c->field_count == c->server->limits.header_count)
        return stop(c, 431, "the request has too many headers");
    grown = realloc(c->fields, cap * sizeof(*grown));
    if (!grown)
        return stop(c, 500, "out of memory");
    c->fields = grown;
    c->field_cap = cap;
    c->fields[c->field_count].name = 0;
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;
    int r = 0;

    if (in_trailer(c))
        return 0; /* trailers are allowed, bounded as framing, and ignored */
    /* A name may come in pieces: the entry counts once its value is complete. */
    if (c->field_count == c->field_cap)
        r = grow_fields(c);
    if (r == 0 && c->fields[c->field_count].name == 0)
        c->fields[c->field_count].name = (uint32_t)c->head.len;
    return r ? r : append(c, at, n);
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
    parser->upgrade = 0; /* an upgrade nobody accepts is an ordinary request */
    return HPE_PAUSED;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http_conn *c = parser->data;

    c->span = (const uint8_t *)at;
    c->span_len = n;
    return HPE_PAUSED; /* handed out from outside the parser, where it may end the connection */
}

static int on_message_complete(llhttp_t *parser)
{
    struct atoll_http_conn *c = parser->data;

    c->message_done = true;
    return HPE_PAUSED;
}

const llhttp_settings_t atoll_http_parser_settings = {
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

static const char *text_at(const struct atoll_http_conn *c, uint32_t offset)
{
    return (const char *)c->head.data + offset;
}

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

/* Where the path of a target begins: an absolute-form names scheme and host before it. */
static const char *path_of_target(const char *target)
{
    const char *p;

    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return target;
    p = strchr(target, ':') + 3;
    return p + strcspn(p, "/?#");
}

static bool take_target(struct atoll_http_conn *c)
{
    const char *start = path_of_target(text_at(c, 0));
    size_t path_len = strcspn(start, "?#");
    size_t query_len = start[path_len] == '?' ? strcspn(start + path_len + 1, "#") : 0;
    size_t offset = (size_t)(start - text_at(c, 0));
    bool star = c->req.method == ATOLL_OPTIONS && strcmp(start, "*") == 0;
    const char *from;
    uint8_t *tail;

    if (strchr(start, '#') || (*start != '/' && !star && (offset == 0 || path_len > 0)))
        return atoll_http_reject_with(c, 400, "the request target is not a path");
    c->req.target = 0;
    c->req.path = (uint32_t)c->head.len;
    /* Reserved first: the text copied lives in the same buffer and must not move meanwhile. */
    if (atoll_buf_reserve(&c->head, path_len + 3 * query_len + 8, &tail) < 0)
        return atoll_http_reject_with(c, 431, "the request head is too large");
    from = text_at(c, (uint32_t)offset);
    if (append(c, path_len > 0 ? from : "/", ATOLL_MAX(path_len, (size_t)1)) || append(c, "", 1))
        return false;
    if (atoll_url_decode_path((char *)c->head.data + c->req.path) < 0)
        return atoll_http_reject_with(c, 400,
                                      "the request path has a bad escape, a \".\" or \"..\" "
                                      "segment or an encoded slash");
    c->req.query = (uint32_t)c->head.len;
    if (atoll_url_decode_query(&c->head, from + path_len + 1, query_len) < 0)
        return atoll_http_reject_with(c, 400, "the query has a bad escape");
    c->req.query_len = (uint32_t)(c->head.len - c->req.query);
    return true;
}

static bool host_is_valid(const char *host)
{
    for (const char *p = host; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("-._~%:[]!$&'()*+,;=", *p))
            return false;
    return true;
}

/* Headers that decide where the message ends or who it is for: each at most once. */
static bool check_fields(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;
    size_t hosts = 0, encodings = 0;

    for (size_t i = 0; i < c->field_count; i++) {
        const char *name = text_at(c, c->fields[i].name);
        const char *value = text_at(c, c->fields[i].value);
        if (strcasecmp(name, "host") == 0) {
            if (++hosts > 1 || !host_is_valid(value))
                return atoll_http_reject_with(c, 400, "the Host header is doubled or malformed");
        } else if (strcasecmp(name, "transfer-encoding") == 0) {
            if (++encodings > 1 || strcasecmp(value, "chunked") != 0 || req->http10)
                return atoll_http_reject_with(c, 400,
                                              "the only transfer encoding understood is "
                                              "\"chunked\", once, in HTTP/1.1");
        } else if (strcasecmp(name, "expect") == 0) {
            if (strcasecmp(value, "100-continue") != 0)
                return atoll_http_reject_with(c, 417,
                                              "the only expectation understood is 100-continue");
            req->expect_continue = !req->http10;
        }
    }
    if (hosts == 0 && !req->http10)
        return atoll_http_reject_with(c, 400, "an HTTP/1.1 request needs a Host header");
    return true;
}

bool atoll_http_head_finish(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;
    llhttp_t *p = &c->parser;

    *req = (struct atoll_http_request){.conn = c, .left = -1};
    if (p->http_major != 1 || p->http_minor > 1)
        return atoll_http_reject_with(c, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    req->http10 = p->http_minor == 0;
    if (!take_method(c) || !check_fields(c) || !take_target(c))
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
