/*
 * Rules for a complete request head, in every HTTP version: syntax of the target, Host,
 * Transfer-Encoding, Expect.
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

bool atoll_http_head_refuse(struct atoll_http_conn *c, int r)
{
    if (r == -ENOMEM)
        return atoll_http_reject_with(c, 503, "out of memory for the request; try again");
    return atoll_http_reject_with(c, 431, "the request head is too large");
}

bool atoll_http_head_append(struct atoll_http_conn *c, const void *bytes, size_t n)
{
    int r = atoll_buf_append(&c->head, bytes, n);

    return r == 0 || atoll_http_head_refuse(c, r);
}

bool atoll_http_head_room(struct atoll_http_conn *c)
{
    size_t cap = ATOLL_MIN(ATOLL_MAX(c->field_cap * 2, (size_t)16), c->server->limits.header_count);
    struct atoll_http_header_field *grown;

    if (c->field_count < c->field_cap)
        return true;
    if (c->field_count == c->server->limits.header_count)
        return atoll_http_reject_with(c, 431, "the request has too many headers");
    grown = realloc(c->fields, cap * sizeof(*grown));
    if (!grown)
        return atoll_http_reject_with(c, 500, "out of memory");
    c->fields = grown;
    c->field_cap = cap;
    c->fields[c->field_count].name = 0;
    return true;
}

static const char *text_at(const struct atoll_http_conn *c, uint32_t offset)
{
    return (const char *)c->head.data + offset;
}

/* Where the path of a target begins: an absolute-form has scheme and host before it. */
static const char *path_of_target(const char *target)
{
    const char *p;

    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return target;
    p = strchr(target, ':') + 3;
    return p + strcspn(p, "/?#");
}

static bool take_target(struct atoll_http_conn *c, uint32_t target)
{
    const char *start = path_of_target(text_at(c, target));
    size_t path_len = strcspn(start, "?#");
    size_t query_len = start[path_len] == '?' ? strcspn(start + path_len + 1, "#") : 0;
    size_t skipped = (size_t)(start - text_at(c, target)); /* scheme and host */
    bool star = c->req.method == ATOLL_OPTIONS && strcmp(start, "*") == 0;
    const char *from;
    uint8_t *tail;
    int r;

    if (strchr(start, '#') || (*start != '/' && !star && (skipped == 0 || path_len > 0)))
        return atoll_http_reject_with(c, 400, "the request target is not a path");
    c->req.target = target;
    if (c->server->limits.any_target)
        return true;
    c->req.path = (uint32_t)c->head.len;
    /* Reserve first: the text to copy is in the same buffer, which must not move during the copy. */
    r = atoll_buf_reserve(&c->head, path_len + 3 * query_len + 8, &tail);
    if (r < 0)
        return atoll_http_head_refuse(c, r);
    from = text_at(c, target) + skipped;
    if (!atoll_http_head_append(c, path_len > 0 ? from : "/", ATOLL_MAX(path_len, (size_t)1)) ||
        !atoll_http_head_append(c, "", 1))
        return false;
    r = atoll_url_decode_path((char *)c->head.data + c->req.path);
    if (r < 0)
        return atoll_http_reject_with(
            c, 400, "the request path has a bad escape or a \".\" or \"..\" segment");
    c->req.has_encoded_slash = r > 0;
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

/* Headers that define the end or the destination of the message may occur at most once. */
static bool check_fields(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;
    size_t hosts = 0, encodings = 0;

    for (size_t i = 0; i < c->field_count; i++) {
        const char *name = text_at(c, c->fields[i].name);
        const char *value = text_at(c, c->fields[i].value);
        if (strcasecmp(name, "host") == 0) {
            if (++hosts > 1 || !host_is_valid(value))
                return atoll_http_reject_with(c, 400, "the Host header is duplicated or malformed");
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
        return atoll_http_reject_with(c, 400, "the request needs a Host header");
    return true;
}

bool atoll_http_head_check(struct atoll_http_conn *c, uint32_t target)
{
    return check_fields(c) && take_target(c, target);
}
