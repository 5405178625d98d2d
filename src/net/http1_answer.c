#include "net/http1_answer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define REASON_MAX 256

/* Callbacks of the parser. */

static int on_status(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http1_answer *a = parser->data;

    (void)!atoll_buf_append(&a->reason, at, n); /* too long a phrase is cut */
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http1_answer *a = parser->data;
    return atoll_buf_append(&a->fields, at, n) < 0 ? HPE_USER : 0;
}

static int on_field_complete(llhttp_t *parser)
{
    return on_field(parser, "", 1);
}

static int on_value_complete(llhttp_t *parser)
{
    struct atoll_buf *fields = &((struct atoll_http1_answer *)parser->data)->fields;

    while (fields->len > fields->off && strchr(" \t", fields->data[fields->len - 1]) &&
           fields->data[fields->len - 1])
        fields->len--;
    return on_field(parser, "", 1);
}

static int64_t length_of(const llhttp_t *parser)
{
    if (parser->flags & F_CONTENT_LENGTH && parser->content_length <= INT64_MAX)
        return (int64_t)parser->content_length;
    return parser->status_code == 204 ? 0 : -1;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct atoll_http1_answer *a = parser->data;
    int status = parser->status_code;

    a->informational = status < 200 && status != 101;
    if (a->informational)
        return 1;
    if (status == 101) {
        a->switching = true;
        return a->upgrade && atoll_http1_answer_field(a, "upgrade") ? HPE_PAUSED : HPE_USER;
    }
    if (status > 599 || (parser->flags & F_TRANSFER_ENCODING && !(parser->flags & F_CHUNKED)) ||
        !a->events->head(a->arg, status, length_of(parser)))
        return HPE_USER;
    a->begun = true;
    atoll_buf_clear(&a->fields); /* from now on for trailers */
    return a->to_head || status == 204 || status == 304;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct atoll_http1_answer *a = parser->data;
    return a->events->body(a->arg, (const uint8_t *)at, n) ? 0 : HPE_USER;
}

static int on_message_complete(llhttp_t *parser)
{
    struct atoll_http1_answer *a = parser->data;

    if (a->informational) {
        if (parser->status_code > 100 && a->events->inform)
            a->events->inform(a->arg, parser->status_code);
        a->informational = false;
        a->head_bytes = 0;
        atoll_buf_clear(&a->fields);
        atoll_buf_clear(&a->reason);
        return 0;
    }
    a->complete = true;
    /* Some servers send a body after the answer to a HEAD, so that connection cannot be reused. */
    a->keep = llhttp_should_keep_alive(parser) && !a->to_head;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_status = on_status,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_field,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

void atoll_http1_answer_start(struct atoll_http1_answer *a, bool to_head, bool upgrade,
                              const struct atoll_http1_answer_events *events, void *arg)
{
    atoll_http1_answer_done(a);
    *a = (struct atoll_http1_answer){
        .events = events, .arg = arg, .to_head = to_head, .upgrade = upgrade};
    atoll_buf_init(&a->fields, ATOLL_HTTP1_ANSWER_HEAD_MAX);
    atoll_buf_init(&a->reason, REASON_MAX);
    llhttp_init(&a->parser, HTTP_RESPONSE, &settings);
    a->parser.data = a;
}

void atoll_http1_answer_done(struct atoll_http1_answer *a)
{
    atoll_buf_done(&a->fields);
    atoll_buf_done(&a->reason);
}

enum atoll_http1_progress atoll_http1_answer_feed(struct atoll_http1_answer *a,
                                                  const uint8_t *bytes, size_t n, size_t *ret_used)
{
    llhttp_errno_t e = llhttp_execute(&a->parser, (const char *)bytes, n);

    a->answered = true;
    *ret_used = e == HPE_OK ? n : (size_t)(llhttp_get_error_pos(&a->parser) - (char *)bytes);
    a->head_bytes += a->begun ? 0 : n;
    if (e == HPE_PAUSED && a->switching)
        return ATOLL_HTTP1_SWITCHED;
    if (e == HPE_PAUSED && a->complete)
        return ATOLL_HTTP1_COMPLETE;
    if (e != HPE_OK)
        return ATOLL_HTTP1_MALFORMED;
    return a->head_bytes > ATOLL_HTTP1_ANSWER_HEAD_MAX ? ATOLL_HTTP1_TOO_LARGE : ATOLL_HTTP1_MORE;
}

bool atoll_http1_answer_end(struct atoll_http1_answer *a)
{
    if (a->begun && !a->complete)
        (void)llhttp_finish(&a->parser); /* ends an answer without a length */
    return a->complete;
}

bool atoll_http1_answer_next(const struct atoll_http1_answer *a, size_t *at, const char **ret_name,
                             const char **ret_value)
{
    const char *text = (const char *)atoll_buf_head(&a->fields);

    /* Values contain no NUL (the parser rejects it), which separates the pairs. */
    if (*at >= atoll_buf_size(&a->fields))
        return false;
    *ret_name = text + *at;
    *ret_value = *ret_name + strlen(*ret_name) + 1;
    *at = (size_t)(*ret_value - text) + strlen(*ret_value) + 1;
    return true;
}

const char *atoll_http1_answer_field(const struct atoll_http1_answer *a, const char *wanted)
{
    const char *name, *value;

    for (size_t at = 0; atoll_http1_answer_next(a, &at, &name, &value);)
        if (strcasecmp(name, wanted) == 0)
            return value;
    return NULL;
}
