#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/errors.h"
#include "api/idempotency.h"
#include "api/kit/cors.h"
#include "api/metrics.h"
#include "api/repeats.h"
#include "api/signed_url.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/provider/providers.h"
#include "engine/state/state.h"
#include "engine/volume/opened.h"

/* Headers of responses that pages of other origins may read. */
#define EXPOSED "X-Request-Id, Location, Retry-After, Allow, ETag, Content-Disposition"

void *atoll_api_alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}

/* Adopts the client's own request id, for log and response, if it is safe to print. */
static void choose_request_id(struct atoll_api_call *call)
{
    const char *given = atoll_http_header(call->req, "x-request-id");

    if (given && atoll_text_is_name(given))
        (void)!atoll_text_copy(call->request_id, sizeof(call->request_id), given);
    else
        (void)snprintf(call->request_id, sizeof(call->request_id), "%s-%llx", call->api->id_prefix,
                       (unsigned long long)++call->api->id_count);
    (void)atoll_http_set_header(call->req, "X-Request-Id", call->request_id);
}

static void join_trace(struct atoll_api_call *call)
{
    char text[ATOLL_TRACE_TEXT_MAX];

    atoll_trace_init(&call->trace, atoll_http_header(call->req, "traceparent"));
    if (call->trace.id[0])
        (void)atoll_http_set_header(call->req, "traceresponse",
                                    atoll_trace_format(&call->trace, text));
}

static void log_access(const struct atoll_api_call *call, int status)
{
    char code[12], ms[24];

    if (!call->api->config.access_log)
        return;
    (void)snprintf(code, sizeof(code), "%d", status);
    (void)snprintf(ms, sizeof(ms), "%.3f", (double)(atoll_clock_us() - call->started_us) / 1e3);
    atoll_log(ATOLL_LOG_DEBUG, "request", "method",
              call->req ? atoll_http_method_name(atoll_http_method(call->req)) : "", "path",
              call->req ? atoll_http_path(call->req) : "", "route",
              call->route ? call->route->path : "", "status", code, "ms", ms, "peer",
              call->req ? atoll_http_peer(call->req)->address : "gone", "sandbox", call->params.id,
              "request_id", call->request_id, "trace_id", call->trace.id, NULL);
}

static void log_internal(const struct atoll_api_call *call, const struct atoll_error *error)
{
    atoll_log(ATOLL_LOG_ERROR, "request failed", "route", call->route ? call->route->path : "",
              "sandbox", call->params.id, "error", error->text, "request_id", call->request_id,
              "trace_id", call->trace.id, NULL);
}

/* Ending a call. */

static void finished(struct atoll_api_call *call, int status)
{
    atoll_idempotency_forget(call);
    atoll_repeat_ended(call);
    log_access(call, status);
    atoll_api_audit(call, status);
    atoll_api_measure(call, status);
    atoll_volume_leave(call->volume);
}

void atoll_api_reply_init(struct atoll_buf *buf, struct atoll_json_out *out)
{
    atoll_buf_init(buf, ATOLL_API_REPLY_MAX);
    atoll_json_out_init(out, buf);
}

bool atoll_api_reply_begin(struct atoll_api_call *call, const struct atoll_error *error,
                           struct atoll_buf *buf, struct atoll_json_out *out)
{
    if (error)
        atoll_api_fail(call, error);
    else
        atoll_api_reply_init(buf, out);
    return !error;
}

static void respond(struct atoll_api_call *call, int status, const char *type, const void *bytes,
                    size_t n)
{
    atoll_idempotency_answered(call, status, bytes, n);
    atoll_repeat_answered(call, status, bytes, n);
    finished(call, call->req ? status : 499);
    if (call->req) {
        atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("api", "out"), (double)n);
        atoll_http_respond(call->req, status, type, bytes, n);
    }
    free(call);
}

void atoll_api_reply(struct atoll_api_call *call, int status, struct atoll_json_out *out)
{
    struct atoll_buf *buf = out->buf;
    struct atoll_error error;

    if (out->error == 0)
        out->error = atoll_buf_append(buf, "\n", 1);
    if (out->error < 0) {
        (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, -out->error,
                         "the answer is larger than %zu MiB; ask for less at once",
                         ATOLL_API_REPLY_MAX >> 20);
        atoll_api_fail(call, &error);
    } else {
        respond(call, status, "application/json", atoll_buf_head(buf), atoll_buf_size(buf));
    }
    atoll_buf_done(buf);
}

void atoll_api_reply_text(struct atoll_api_call *call, int status, const char *content_type,
                          const void *bytes, size_t n)
{
    respond(call, status, content_type, bytes, n);
}

void atoll_api_reply_empty(struct atoll_api_call *call, int status)
{
    respond(call, status, NULL, NULL, 0);
}

const char *atoll_api_operators_file(const struct atoll_api_call *call)
{
    return call->caller.scope == ATOLL_SCOPE_ADMIN ? atoll_providers_file(call->engine) : NULL;
}

static void write_error(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_api_error_write(&out, error, call->request_id, atoll_api_operators_file(call));
    if (call->error_more)
        call->error_more(call, &out);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

static void fail_with(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    char seconds[12];

    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS(atoll_error_kind_name(error->kind)), 1);
    if (status == 500)
        log_internal(call, error);
    if (status == 401 && call->req && !(call->protocol && call->protocol->challenges))
        (void)atoll_http_set_header(call->req, "WWW-Authenticate", "Bearer");
    if (call->req && (status == 429 || error->retry_ms > 0)) {
        unsigned told_s = ((unsigned)error->retry_ms + 999) / 1000;
        (void)snprintf(seconds, sizeof(seconds), "%u",
                       ATOLL_MAX(ATOLL_MAX(call->retry_after_s, told_s), 1u));
        (void)atoll_http_set_header(call->req, "Retry-After", seconds);
    }
    if (call->protocol && call->protocol->fail)
        call->protocol->fail(call, status, error);
    else
        write_error(call, status, error);
}

/* Errors of the sandbox that has the volume. */
static void show_volume(const struct atoll_api_call *call, const struct atoll_error *error,
                        struct atoll_error *shown)
{
    if (atoll_errno_is_full(error->errnum)) {
        (void)snprintf(shown->text, sizeof(shown->text), "volume %s is full",
                       atoll_volume_name(call->volume));
        (void)snprintf(shown->hint, sizeof(shown->hint),
                       "delete files in the volume, or make one with a larger sizeMB");
    } else { /* the agent's texts begin with the path */
        (void)snprintf(shown->text, sizeof(shown->text), "%s", atoll_volume_shown(error->text));
    }
}

void atoll_api_fail(struct atoll_api_call *call, const struct atoll_error *error)
{
    struct atoll_error shown = *error;

    if (call->volume)
        show_volume(call, error, &shown);
    fail_with(call, atoll_api_status_of(error), &shown);
}

void atoll_api_begin(struct atoll_api_call *call, int status, const char *content_type,
                     int64_t content_length)
{
    atoll_repeat_ended(call); /* what is sent from now on cannot be sent again */
    if (call->req)
        atoll_http_begin(call->req, status, content_type, content_length);
}

void atoll_api_end(struct atoll_api_call *call)
{
    finished(call, call->req ? 200 : 499);
    if (call->req)
        atoll_http_end(call->req);
    free(call);
}

void atoll_api_abort(struct atoll_api_call *call, const char *why)
{
    atoll_log(ATOLL_LOG_WARN, "answer cut off", "route", call->route->path, "sandbox",
              call->params.id, "error", why, "request_id", call->request_id, "trace_id",
              call->trace.id, NULL);
    finished(call, 499);
    if (call->req)
        atoll_http_abort(call->req);
    free(call);
}

void atoll_api_drop(struct atoll_api_call *call)
{
    finished(call, call->upgraded ? 101 : 499);
    if (call->req)
        atoll_http_abort(call->req);
    free(call);
}

struct atoll_http_request *atoll_api_hand_over(struct atoll_api_call *call)
{
    struct atoll_http_request *req = call->req;

    finished(call, call->upgraded ? 101 : 200);
    free(call);
    return req;
}

bool atoll_api_client_is_gone(const struct atoll_api_call *call)
{
    return !call->req || atoll_http_is_hung_up(call->req);
}

/* Starting a call. */

static void gone(void *arg, struct atoll_http_request *req)
{
    struct atoll_api_call *call = arg;

    (void)req;
    call->req = NULL;
    if (!call->handled)
        free(call);
    else if (call->on_gone)
        call->on_gone(call);
    else if (!call->idempotency && !call->repeat) /* else the client may ask for the answer again */
        (void)atoll_capture_cancel(call->engine, call);
}

void atoll_api_take_over(struct atoll_api_call *first, struct atoll_api_call *second)
{
    if (first->req) {
        atoll_http_on_close(first->req, NULL, NULL);
        atoll_http_abort(first->req);
    }
    first->req = second->req;
    atoll_http_on_close(first->req, gone, first);
    atoll_volume_leave(second->volume);
    free(second);
}

static void handle(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct atoll_api_call *call = arg;
    struct atoll_origin origin = {.trace = call->trace}, before;

    (void)req;
    call->handled = true;
    if (n > 0)
        atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("api", "in"), (double)n);
    memcpy(origin.request_id, call->request_id, sizeof(origin.request_id));
    before = atoll_origin_enter(&origin);
    atoll_loop_note(call->route->path);
    call->route->handler(call, bytes, n);
    (void)atoll_origin_enter(&before);
}

static void refuse_size(void *arg, struct atoll_http_request *req ATOLL_UNUSED)
{
    struct atoll_api_call *call = arg;
    struct atoll_error error;

    call->handled = true;
    (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, EMSGSIZE,
                     "the request body is larger than %zu MiB", call->route->body_max >> 20);
    atoll_api_fail(call, &error);
}

/* Checks the signature of the URL, or the key and its scope. */
static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    int r = atoll_signed_url_check(call, err);

    return r == 0
               ? atoll_api_authorize(call, call->route ? call->route->scope : ATOLL_SCOPE_READ, err)
               : ATOLL_MIN(r, 0);
}

static const struct atoll_protocol *protocol_of(const struct atoll_routes *const *tables,
                                                size_t count, const struct atoll_route *route)
{
    for (size_t t = 0; t < count; t++)
        if (route >= tables[t]->rows && route < tables[t]->rows + tables[t]->count)
            return tables[t]->protocol;
    return NULL;
}

/* Chooses the protocol that formats the error for an unknown path: the one with a route that has
 * the same first segment. Clients parse errors only in the format of their own service. */
static const struct atoll_protocol *protocol_near(const struct atoll_routes *const *tables,
                                                  size_t count, const char *path)
{
    size_t n = 1 + strcspn(path + 1, "/");

    for (size_t t = 0; t < count; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const char *known = tables[t]->rows[i].path;
            if (strncmp(known, path, n) == 0 && (known[n] == '/' || known[n] == '\0'))
                return tables[t]->protocol;
        }
    return NULL;
}

/* names: "limit, cursor" */
static bool has_name(const char *names, const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || strpbrk(name, ", "))
        return false;
    for (const char *at = names; (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

/* An unknown parameter is an error: ignoring a misspelt "limit", for example, would return an
 * unbounded list. */
static int check_query(const struct atoll_api_call *call, struct atoll_error *err)
{
    const char *known = call->route->query, *name;

    for (size_t pos = 0; known && (name = atoll_http_query_name(call->req, &pos));)
        if (!has_name(known, name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "there is no parameter \"%.48s\" here; known are %s", name,
                              *known ? known : "none");
    return 0;
}

/* A client without a valid key does not learn which routes exist. */
static int find_route(struct atoll_api_call *call, const struct atoll_routes *const *tables,
                      size_t count, const char *path, const char *sandbox_id, char *allow,
                      struct atoll_error *err)
{
    struct atoll_error refused;
    int r = atoll_router_match(tables, count, atoll_http_method(call->req), path, &call->params,
                               allow, &call->route, err);
    int allowed;

    if (sandbox_id)
        (void)!atoll_text_copy(call->params.id, sizeof(call->params.id), sandbox_id);
    if (call->route)
        call->protocol = protocol_of(tables, count, call->route);
    else if (!call->protocol)
        call->protocol = protocol_near(tables, count, path);
    allowed = call->protocol && call->protocol->admit ? call->protocol->admit(call, &refused)
                                                      : admit(call, &refused);
    if (allowed < 0) {
        *err = refused;
        allow[0] = '\0';
        return -EACCES;
    }
    if (atoll_http_has_encoded_slash(call->req) &&
        !(call->protocol && call->protocol->takes_slashes)) {
        allow[0] = '\0';
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "the request path has an encoded slash");
    }
    if (r == 0 && call->api->draining && call->route->scope != ATOLL_SCOPE_PUBLIC)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is shutting down");
    if (r == 0 && !(call->protocol && call->protocol->admit))
        r = atoll_api_check_owner(call, err);
    return r < 0 ? r : check_query(call, err);
}

static void start(struct atoll_api *api, struct atoll_http_request *req,
                  const struct atoll_routes *const *tables, size_t count, const char *path,
                  const char *sandbox_id)
{
    struct atoll_api_call *call = atoll_api_alloc(sizeof(*call));
    char allow[ATOLL_ROUTE_ALLOW_MAX];
    struct atoll_error error;

    *call = (struct atoll_api_call){.api = api, .engine = api->config.engine, .req = req};
    call->started_us = atoll_clock_us();
    /* Set before the route is found, so that errors about unknown paths have its format. */
    if (count == 1)
        call->protocol = tables[0]->protocol;
    choose_request_id(call);
    join_trace(call);
    if (find_route(call, tables, count, path, sandbox_id, allow, &error) < 0) {
        if (allow[0])
            (void)atoll_http_set_header(req, "Allow", allow);
        fail_with(call, allow[0] ? 405 : atoll_api_status_of(&error), &error);
        return;
    }
    atoll_http_on_close(req, gone, call);
    if (call->route->body_max == ATOLL_BODY_NONE || call->route->body_max == ATOLL_BODY_STREAM ||
        atoll_http_content_length(req) == 0)
        handle(call, req, NULL, 0);
    else
        atoll_http_body_collect(req, call->route->body_max, handle, refuse_size, call);
}

void atoll_api_call_start(struct atoll_api *api, struct atoll_http_request *req)
{
    const char *origins = api->config.cors_origins;

    if (!origins || !*origins || !atoll_cors_serve(req, origins, EXPOSED))
        start(api, req, api->tables, api->table_count, atoll_http_path(req), NULL);
}

void atoll_api_call_start_in(struct atoll_api *api, struct atoll_http_request *req,
                             const struct atoll_routes *table, const char *sandbox_id)
{
    start(api, req, &table, 1, atoll_http_path(req), sandbox_id);
}

void atoll_api_call_start_at(struct atoll_api *api, struct atoll_http_request *req,
                             const char *path)
{
    start(api, req, api->tables, api->table_count, path, NULL);
}

/* Query parameters. */

int atoll_api_query_flag(const struct atoll_api_call *call, const char *name, bool *ret_value,
                         struct atoll_error *err)
{
    static const struct {
        const char *text;
        bool value;
    } words[] = {{"true", true}, {"1", true}, {"", true}, {"false", false}, {"0", false}};
    const char *text = atoll_http_query(call->req, name);

    *ret_value = false;
    if (!text)
        return 0;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(words); i++)
        if (strcmp(text, words[i].text) == 0) {
            *ret_value = words[i].value;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?%s= must be true or false (got \"%.48s\")", name, text);
}

int atoll_api_query_u64(const struct atoll_api_call *call, const char *name, uint64_t min,
                        uint64_t max, uint64_t *ret_value, struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, name);

    if (!text || atoll_text_u64(text, min, max, ret_value) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?%s= must be a whole number between %llu and %llu (got \"%.48s\")", name,
                      (unsigned long long)min, (unsigned long long)max, text);
}

int atoll_api_parse_mode(const char *text, uint32_t *ret_mode)
{
    size_t n = strspn(text, "01234567");

    if (n < 3 || n > 5 || text[n] != '\0' || strtoul(text, NULL, 8) > 07777)
        return -EINVAL;
    *ret_mode = (uint32_t)strtoul(text, NULL, 8);
    return 0;
}

int atoll_api_query_mode(const struct atoll_api_call *call, const char *name, uint32_t *ret_mode,
                         struct atoll_error *err)
{
    const char *text = atoll_http_query(call->req, name);

    if (!text || atoll_api_parse_mode(text, ret_mode) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?%s= must be permission bits in octal, such as 0644 (got \"%.48s\")", name,
                      text);
}
