/*
 * The request as handlers see it, in every HTTP version: its head and its body. Body bytes are passed on
 * without a copy; only a collected body that arrives in several pieces is copied.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include "net/http_internal.h"
#include "net/url.h"

static bool is_too_large(const struct atoll_http_request *req)
{
    return req->body_mode == BODY_COLLECT && req->content_length > 0 &&
           (uint64_t)req->content_length > req->body_max;
}

static void refuse_size(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    req->body_told = true;
    if (req->on_too_large)
        req->on_too_large(req->body_arg, req);
    else
        atoll_http_conn_reject(c, 413, "the request body is too large");
}

void atoll_http_request_deliver(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    if (c->dead || c->phase != PHASE_SERVING || req->body_told)
        return;
    if (is_too_large(req)) {
        refuse_size(c);
    } else if (req->body_mode == BODY_COLLECT && req->body_done) {
        req->body_told = true;
        req->on_body(req->body_arg, req, atoll_buf_head(&c->body), atoll_buf_size(&c->body));
    } else if (req->body_mode == BODY_STREAM && req->body_done && !req->body_paused) {
        req->body_told = true;
        req->on_end(req->body_arg, req);
    }
}

/* A piece of a collected body. A body that arrives in one piece is not copied. */
static void collect_piece(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
{
    struct atoll_http_request *req = &c->req;

    if (req->body_got > req->body_max) {
        refuse_size(c);
    } else if (req->content_length == (int64_t)n) {
        req->body_done = req->body_told = true;
        req->on_body(req->body_arg, req, bytes, n);
    } else if (atoll_buf_append(&c->body, bytes, n) < 0) {
        atoll_http_conn_reject(c, 500, "out of memory");
    }
}

void atoll_http_request_piece(struct atoll_http_conn *c, const uint8_t *bytes, size_t n)
{
    struct atoll_http_request *req = &c->req;

    req->body_got += n;
    if (req->body_mode == BODY_COLLECT)
        collect_piece(c, bytes, n);
    else
        req->on_body(req->body_arg, req, bytes, n);
}

void atoll_http_request_serve(struct atoll_http_conn *c)
{
    c->phase = PHASE_SERVING;
    c->dispatching = true;
    c->server->on_request(c->server->arg, &c->req);
    c->dispatching = false;
    atoll_http_request_deliver(c);
}

static void kicked(void *arg)
{
    struct atoll_http_conn *c = arg;

    c->depth++;
    c->wire->kicked(c);
    if (--c->depth == 0 && c->dead)
        free(c);
}

void atoll_http_conn_kick(struct atoll_http_conn *c)
{
    if (!c->kick.loop)
        atoll_timer_set(&c->kick, c->server->loop, 0, kicked, c);
}

/* The body, for handlers. */

static void body_wanted(struct atoll_http_request *req, enum atoll_http_body_mode mode)
{
    struct atoll_http_conn *c = req->conn;

    req->body_mode = mode;
    if (req->expect_continue && !req->body_done && !req->begun && !is_too_large(req)) {
        req->expect_continue = false;
        c->wire->inform(c, 100, &(struct atoll_buf){0});
    }
    if (!c->dispatching)
        atoll_http_conn_kick(c);
    c->wire->resume(c);
}

void atoll_http_body_collect(struct atoll_http_request *req, size_t max,
                             void (*done)(void *arg, struct atoll_http_request *req,
                                          const uint8_t *bytes, size_t n),
                             void (*too_large)(void *arg, struct atoll_http_request *req),
                             void *arg)
{
    req->on_body = done;
    req->on_too_large = too_large;
    req->body_arg = arg;
    req->body_max = max;
    req->conn->body.max = max;
    body_wanted(req, BODY_COLLECT);
}

void atoll_http_body_stream(struct atoll_http_request *req,
                            void (*on_data)(void *arg, struct atoll_http_request *req,
                                            const uint8_t *bytes, size_t n),
                            void (*on_end)(void *arg, struct atoll_http_request *req), void *arg)
{
    req->on_body = on_data;
    req->on_end = on_end;
    req->body_arg = arg;
    body_wanted(req, BODY_STREAM);
}

void atoll_http_body_pause(struct atoll_http_request *req)
{
    req->body_paused = true;
    req->conn->wire->pause(req->conn);
}

void atoll_http_body_resume(struct atoll_http_request *req)
{
    if (!req->body_paused)
        return;
    req->body_paused = false;
    if (!req->conn->dispatching)
        atoll_http_conn_kick(req->conn);
    req->conn->wire->resume(req->conn);
}

/* What the head says, for handlers. */

static const char *text_at(const struct atoll_http_conn *c, uint32_t offset)
{
    return (const char *)c->head.data + offset;
}

enum atoll_http_method atoll_http_method(const struct atoll_http_request *req)
{
    return req->method;
}

const char *atoll_http_method_name(enum atoll_http_method method)
{
    static const char *const names[] = {
        [ATOLL_GET] = "GET",         [ATOLL_HEAD] = "HEAD",   [ATOLL_POST] = "POST",
        [ATOLL_PUT] = "PUT",         [ATOLL_PATCH] = "PATCH", [ATOLL_DELETE] = "DELETE",
        [ATOLL_OPTIONS] = "OPTIONS",
    };
    return (size_t)method < ATOLL_ARRAY_LEN(names) ? names[method] : "?";
}

const char *atoll_http_path(const struct atoll_http_request *req)
{
    return text_at(req->conn, req->path);
}

bool atoll_http_has_encoded_slash(const struct atoll_http_request *req)
{
    return req->has_encoded_slash;
}

const char *atoll_http_target(const struct atoll_http_request *req)
{
    return text_at(req->conn, req->target);
}

const char *atoll_http_query(const struct atoll_http_request *req, const char *name)
{
    return atoll_url_pair(text_at(req->conn, req->query), req->query_len, name);
}

const char *atoll_http_query_next(const struct atoll_http_request *req, const char *name,
                                  size_t *pos)
{
    const char *pairs = text_at(req->conn, req->query);

    while (*pos < req->query_len) {
        const char *key = pairs + *pos, *value = key + strlen(key) + 1;
        *pos += (size_t)(value - key) + strlen(value) + 1;
        if (strcmp(key, name) == 0)
            return value;
    }
    return NULL;
}

const char *atoll_http_query_name(const struct atoll_http_request *req, size_t *pos)
{
    const char *name = text_at(req->conn, req->query) + *pos, *value;

    if (*pos >= req->query_len)
        return NULL;
    value = name + strlen(name) + 1;
    *pos += (size_t)(value - name) + strlen(value) + 1;
    return name;
}

const char *atoll_http_header(const struct atoll_http_request *req, const char *name)
{
    const struct atoll_http_conn *c = req->conn;

    for (size_t i = 0; i < c->field_count; i++)
        if (strcasecmp(text_at(c, c->fields[i].name), name) == 0)
            return text_at(c, c->fields[i].value);
    return NULL;
}

bool atoll_http_header_at(const struct atoll_http_request *req, size_t i, const char **ret_name,
                          const char **ret_value)
{
    const struct atoll_http_conn *c = req->conn;

    if (i >= c->field_count)
        return false;
    *ret_name = text_at(c, c->fields[i].name);
    *ret_value = text_at(c, c->fields[i].value);
    return true;
}

int64_t atoll_http_content_length(const struct atoll_http_request *req)
{
    return req->content_length;
}

const struct atoll_http_peer *atoll_http_peer(const struct atoll_http_request *req)
{
    return &req->conn->peer;
}

struct atoll_loop *atoll_http_loop(const struct atoll_http_request *req)
{
    return req->conn->server->loop;
}

void atoll_http_set_user(struct atoll_http_request *req, void *user)
{
    req->user = user;
}

void *atoll_http_user(const struct atoll_http_request *req)
{
    return req->user;
}
