/*
 * The answer of an upstream: parsed strictly and written to the client as it arrives.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "net/proxy_internal.h"

/* The answer: callbacks of the parser. They may write to the client, but never end the exchange. */

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_proxy_exchange *x = parser->data;
    return x->begun ? 0 : atoll_buf_append(&x->fields, at, n) < 0 ? HPE_USER : 0;
}

static int on_field_complete(llhttp_t *parser)
{
    return on_field(parser, "", 1);
}

static bool next_field(const struct atoll_proxy_exchange *x, size_t *at, const char **ret_name,
                       const char **ret_value)
{
    const char *text = (const char *)atoll_buf_head(&x->fields);

    if (*at >= atoll_buf_size(&x->fields))
        return false;
    *ret_name = text + *at;
    *ret_value = *ret_name + strlen(*ret_name) + 1;
    *at = (size_t)(*ret_value - text) + strlen(*ret_value) + 1;
    return true;
}

const char *atoll_proxy_answer_field(const struct atoll_proxy_exchange *x, const char *wanted)
{
    const char *name, *value;

    for (size_t at = 0; next_field(x, &at, &name, &value);)
        if (strcasecmp(name, wanted) == 0)
            return value;
    return NULL;
}

static bool is_for_us(const struct atoll_proxy_exchange *x, const char *name)
{
    const char *other, *value;

    if (atoll_proxy_is_hop(name) || strcasecmp(name, "content-type") == 0 ||
        strcasecmp(name, "date") == 0)
        return true;
    for (size_t at = 0; next_field(x, &at, &other, &value);)
        if (strcasecmp(other, "connection") == 0 && atoll_proxy_list_has(value, name))
            return true;
    return false;
}

bool atoll_proxy_answer_copy(struct atoll_proxy_exchange *x)
{
    const char *name, *value;

    /* Values contain no NUL (the parser rejects it), which separates the pairs. */
    for (size_t at = 0; next_field(x, &at, &name, &value);) {
        if (is_for_us(x, name) ||
            (x->hooks->response_header && !x->hooks->response_header(x->arg, name, &value)))
            continue;
        if (atoll_http_set_header(x->req, name, value) < 0)
            return false;
    }
    return true;
}

static int64_t answer_length(const struct atoll_proxy_exchange *x)
{
    if (x->parser.flags & F_CONTENT_LENGTH && x->parser.content_length <= INT64_MAX)
        return (int64_t)x->parser.content_length;
    return x->parser.status_code == 204 ? 0 : -1;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct atoll_proxy_exchange *x = parser->data;
    bool no_body = parser->status_code == 204 || parser->status_code == 304 ||
                   atoll_http_method(x->req) == ATOLL_HEAD;

    x->informational = parser->status_code < 200 && parser->status_code != 101;
    if (x->informational)
        return 1;
    if (parser->status_code == 101) {
        x->switching = true;
        return x->upgrade && atoll_proxy_answer_field(x, "upgrade") ? HPE_PAUSED : HPE_USER;
    }
    if (parser->status_code > 599 ||
        (parser->flags & F_TRANSFER_ENCODING && !(parser->flags & F_CHUNKED)) ||
        !atoll_proxy_answer_copy(x))
        return HPE_USER;
    x->begun = true;
    x->outcome.status = parser->status_code;
    atoll_http_begin(x->req, parser->status_code, atoll_proxy_answer_field(x, "content-type"),
                     answer_length(x));
    return no_body;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_proxy_exchange *x = parser->data;

    x->outcome.out_bytes += n;
    /* If the client has disconnected, on_close reports it. */
    if (atoll_http_write(x->req, at, n) == -ENOBUFS)
        return HPE_USER;
    if (atoll_http_pending(x->req) > ATOLL_HTTP_HIGH_WATER)
        atoll_proxy_conn_pause(x->conn);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct atoll_proxy_exchange *x = parser->data;

    if (x->informational) {
        x->informational = false;
        x->head_bytes = 0;
        atoll_buf_clear(&x->fields);
        return 0;
    }
    x->complete = true;
    /* Some servers send a body after the answer to a HEAD, so that connection cannot be reused. */
    x->keep = llhttp_should_keep_alive(parser) && atoll_http_method(x->req) != ATOLL_HEAD;
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_field,
    .on_header_value_complete = on_field_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void atoll_proxy_answer_start(struct atoll_proxy_exchange *x)
{
    llhttp_init(&x->parser, HTTP_RESPONSE, &parser_settings);
    x->parser.data = x;
}
