/*
 * One request. It waits for a connection to the server, sends its head and body there, and passes the
 * answer on as it arrives. It ends exactly once: the answer is complete, the client has disconnected, the
 * server has failed, or the interception is closed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "egress/intercept_internal.h"

#define ANSWER_FIELDS_MAX ((size_t)64 * 1024)
#define BODY_QUEUE_MAX \
    ((size_t)2 * 1024 * 1024) /* more than one piece beyond the high-water mark */

/* Releases everything but the client's request, which the caller has ended. */
static void release(struct atoll_exchange *x, bool complete)
{
    struct atoll_intercept *i = x->intercept;
    struct atoll_upstream *up = x->up;

    atoll_list_remove(&x->node);
    atoll_exchange_leave_cache(x, complete);
    ATOLL_LIST_FOREACH (&i->upstreams, node) {
        struct atoll_upstream *other = ATOLL_CONTAINER_OF(node, struct atoll_upstream, node);
        if (other->first == x)
            other->first = NULL;
    }
    if (up)
        up->wire->leave(x, complete);
    if (x->fields.data)
        explicit_bzero(x->fields.data, x->fields.cap); /* secrets */
    atoll_buf_done(&x->target);
    atoll_buf_done(&x->authority);
    atoll_buf_done(&x->fields);
    atoll_buf_done(&x->out);
    atoll_buf_done(&x->answer);
    free(x);
}

/* Ends the request for us; the caller answers it next. */
static struct atoll_http_request *take_request(struct atoll_exchange *x)
{
    struct atoll_http_request *req = ATOLL_TAKE_PTR(x->req);

    atoll_http_on_close(req, NULL, NULL);
    atoll_http_on_drain(req, NULL, NULL);
    return req;
}

void atoll_exchange_cancel(struct atoll_exchange *x)
{
    atoll_http_abort(take_request(x));
    release(x, false);
}

void atoll_exchange_fail(struct atoll_exchange *x, const char *fmt, ...)
{
    struct atoll_http_request *req = take_request(x);
    char text[ATOLL_ERROR_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (x->begun)
        atoll_http_abort(req);
    else
        atoll_intercept_refuse(req, 502, text);
    release(x, false);
}

/* The client's side. */

static void client_gone(void *arg, struct atoll_http_request *req)
{
    struct atoll_exchange *x = arg;
    struct atoll_intercept *i = x->intercept;

    (void)req;
    release(x, false);
    atoll_upstream_wake(i);
}

static void client_drained(void *arg, struct atoll_http_request *req)
{
    struct atoll_exchange *x = arg;

    (void)req;
    if (x->up)
        x->up->wire->resume(x);
    else if (x->read)
        atoll_cache_read_more(x->read);
}

static void body_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct atoll_exchange *x = arg;

    x->up->wire->write(x, bytes, n);
    if (x->up->wire->pending(x) > ATOLL_HTTP_HIGH_WATER) {
        x->body_paused = true;
        atoll_http_body_pause(req);
    }
}

static void body_end(void *arg, struct atoll_http_request *req)
{
    struct atoll_exchange *x = arg;

    (void)req;
    x->body_ended = true;
    x->up->wire->end_body(x);
}

void atoll_exchange_drained(struct atoll_exchange *x)
{
    if (x->body_paused) {
        x->body_paused = false;
        atoll_http_body_resume(x->req);
    }
}

void atoll_exchange_go(struct atoll_exchange *x)
{
    if (atoll_http_content_length(x->req) == 0)
        x->body_ended = true;
    else
        atoll_http_body_stream(x->req, body_data, body_end, x);
}

/* The answer. */

static bool is_listed(const struct atoll_buf *fields, const char *name)
{
    const char *other, *value;

    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &other, &value);)
        if (strcasecmp(other, "connection") == 0 && atoll_http_list_has(value, name))
            return true;
    return false;
}

/* Sets the answer's headers for the client; *ret_type is its Content-Type. */
static bool copy_fields(struct atoll_exchange *x, const struct atoll_buf *fields,
                        const char **ret_type)
{
    const char *name, *value;

    *ret_type = NULL;
    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &name, &value);) {
        if (strcasecmp(name, "content-type") == 0)
            *ret_type = value;
        else if (strcasecmp(name, "date") == 0)
            atoll_http_set_date(x->req, value);
        else if (!atoll_http_is_hop(name) && !is_listed(fields, name) &&
                 atoll_http_set_header(x->req, name, value) < 0)
            return false;
    }
    return true;
}

void atoll_exchange_inform(struct atoll_exchange *x, int status, const struct atoll_buf *fields)
{
    const char *type;

    if (copy_fields(x, fields, &type))
        atoll_http_inform(x->req, status);
}

bool atoll_exchange_head(struct atoll_exchange *x, int status, const char *reason,
                         const struct atoll_buf *fields, int64_t length)
{
    const char *type;

    if (!copy_fields(x, fields, &type))
        return false;
    x->begun = true;
    atoll_exchange_keep_head(x, status, fields, length);
    if (*reason)
        atoll_http_set_reason(x->req, reason);
    atoll_http_begin(x->req, status, type, length);
    return true;
}

bool atoll_exchange_only_head(struct atoll_exchange *x, int status, const struct atoll_buf *fields,
                              int64_t length)
{
    struct atoll_intercept *i = x->intercept;
    const char *type;

    if (!copy_fields(x, fields, &type))
        return false;
    if (atoll_http_method(x->req) == ATOLL_HEAD) {
        atoll_http_begin(x->req, status, type, length);
        atoll_http_end(take_request(x));
    } else {
        atoll_http_respond(take_request(x), status, type, NULL, 0);
    }
    release(x, true);
    atoll_upstream_wake(i);
    return true;
}

bool atoll_exchange_body(struct atoll_exchange *x, const uint8_t *bytes, size_t n, bool *ret_full)
{
    int r = atoll_http_write(x->req, bytes, n);
    bool disk_full = atoll_exchange_keep_body(x, bytes, n);

    *ret_full = atoll_http_pending(x->req) > ATOLL_HTTP_HIGH_WATER || disk_full;
    return r == 0 || r == -EPIPE; /* if the client has disconnected, on_close reports it */
}

void atoll_exchange_end(struct atoll_exchange *x, const struct atoll_buf *trailers)
{
    struct atoll_intercept *i = x->intercept;
    const char *name, *value;

    for (size_t at = 0; atoll_intercept_next_field(trailers, &at, &name, &value);)
        if (!atoll_http_is_hop(name))
            (void)!atoll_http_set_header(x->req, name, value);
    atoll_http_end(take_request(x));
    release(x, true);
    atoll_upstream_wake(i);
}

static void tunnel_ended(void *arg)
{
    struct atoll_intercept *i = arg;
    i->tunnel = NULL;
}

void atoll_exchange_switch(struct atoll_exchange *x, const struct atoll_buf *fields,
                           struct atoll_stream *stream, const uint8_t *early, size_t n)
{
    struct atoll_intercept *i = x->intercept;
    const char *name, *value, *protocol = "", *type;

    for (size_t at = 0; atoll_intercept_next_field(fields, &at, &name, &value);)
        if (strcasecmp(name, "upgrade") == 0)
            protocol = value;
    if (i->tunnel || !copy_fields(x, fields, &type)) {
        (void)atoll_stream_free(stream);
        atoll_exchange_fail(x, "%s sent a malformed answer", x->place.host);
        return;
    }
    i->tunnel =
        atoll_http_tunnel_open(take_request(x), protocol, stream, early, n, tunnel_ended, i);
    release(x, true);
}

/* Beginning. */

static bool is_idempotent(enum atoll_http_method method)
{
    return method != ATOLL_POST && method != ATOLL_PATCH;
}

void atoll_exchange_lost(struct atoll_exchange *x, bool answered, bool unseen)
{
    bool empty = atoll_http_content_length(x->req) == 0;

    if (!answered && empty && (unseen || (x->reused && is_idempotent(atoll_http_method(x->req))))) {
        x->up = NULL;
        atoll_upstream_find(x);
        return;
    }
    atoll_exchange_fail(x, "%s closed the connection before its answer was complete",
                        x->place.host);
}

void atoll_exchange_start(struct atoll_intercept *i, struct atoll_http_request *req,
                          const struct atoll_network_transform *t)
{
    struct atoll_exchange *x = calloc(1, sizeof(*x));
    struct atoll_error err;
    int r;

    if (!x)
        abort(); /* a small fixed object: the worker is crash-only */
    x->intercept = i;
    x->req = req;
    atoll_buf_init(&x->out, BODY_QUEUE_MAX);
    atoll_buf_init(&x->answer, ANSWER_FIELDS_MAX);
    atoll_list_push_back(&i->exchanges, &x->node);
    atoll_http_on_close(req, client_gone, x);
    atoll_http_on_drain(req, client_drained, x);
    r = atoll_exchange_prepare(x, t, &err);
    if (r == 0) {
        x->upgrade = atoll_http_wanted_upgrade(req) != NULL;
        if (t || !atoll_exchange_from_cache(x))
            atoll_upstream_find(x);
    } else if (err.kind == ATOLL_ERR_INVALID_ARGUMENT || err.kind == ATOLL_ERR_PERMISSION_DENIED) {
        atoll_intercept_refuse(take_request(x), err.kind == ATOLL_ERR_PERMISSION_DENIED ? 403 : 431,
                               err.text);
        release(x, false);
    } else {
        atoll_exchange_fail(x, "%s", err.text);
    }
}
