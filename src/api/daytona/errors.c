/*
 * Errors in the format of Daytona.
 */
#include "api/errors.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include "api/daytona/daytona_internal.h"
#include "base/clock.h"

static const struct {
    int status;
    const char *code, *name;
} rows[] = {
    {400, "BAD_REQUEST", "Bad Request"},
    {401, "UNAUTHORIZED", "Unauthorized"},
    {403, "FORBIDDEN", "Forbidden"},
    {404, "NOT_FOUND", "Not Found"},
    {405, "METHOD_NOT_ALLOWED", "Method Not Allowed"},
    {408, "REQUEST_TIMEOUT", "Request Timeout"},
    {409, "CONFLICT", "Conflict"},
    {410, "GONE", "Gone"},
    {413, "PAYLOAD_TOO_LARGE", "Payload Too Large"},
    {422, "UNPROCESSABLE_ENTITY", "Unprocessable Entity"},
    {429, "TOO_MANY_REQUESTS", "Too Many Requests"},
    {501, "NOT_IMPLEMENTED", "Not Implemented"},
    {502, "BAD_GATEWAY", "Bad Gateway"},
    {503, "SERVICE_UNAVAILABLE", "Service Unavailable"},
    {504, "GATEWAY_TIMEOUT", "Gateway Timeout"},
    {507, "INSUFFICIENT_STORAGE", "Insufficient Storage"},
    {500, "INTERNAL_SERVER_ERROR", "Internal Server Error"}, /* and every other status */
};

static size_t find_row(int status)
{
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(rows) && rows[i].status != status)
        i++;
    return i;
}

void atoll_daytona_error_members(struct atoll_json_out *out, const struct atoll_api_call *call,
                                 int status, const char *code, const char *text)
{
    const size_t row = find_row(status);
    const bool inside = call->protocol == &atoll_daytona_toolbox_protocol;

    atoll_json_i64(out, "statusCode", status);
    atoll_json_text(out, "message", text);
    atoll_json_text(out, "code", code ? code : rows[row].code);
    atoll_json_text(out, "source", inside ? "DAYTONA_DAEMON" : "DAYTONA_API");
    if (!inside)
        atoll_json_text(out, "error", rows[row].name);
    atoll_json_time(out, "timestamp", atoll_clock_unix_ms());
    atoll_json_text(out, "path", call->req ? atoll_http_path(call->req) : "");
    atoll_json_text(out, "method",
                    call->req ? atoll_http_method_name(atoll_http_method(call->req)) : "");
}

static void reply(struct atoll_api_call *call, int status, const char *code, const char *text)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_daytona_error_members(&out, call, status, code, text);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

void atoll_daytona_refuse(struct atoll_api_call *call, int status, const char *code,
                          const char *fmt, ...)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    reply(call, status, code, text);
}

/* Replies with the text of the error. What the engine says of a sandbox at rest has the verb of our own API in it;
 * Daytona's is start. */
static void reply_error(struct atoll_api_call *call, int status, const char *code,
                        const struct atoll_error *error)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    enum atoll_sandbox_state state = ATOLL_SANDBOX_RUNNING;
    struct atoll_sandbox_view view;

    if (sandbox && error->kind == ATOLL_ERR_FAILED_PRECONDITION && error->errnum == EAGAIN) {
        atoll_sandbox_get(sandbox, &view);
        state = view.state;
    }
    if (state == ATOLL_SANDBOX_STOPPED || state == ATOLL_SANDBOX_PAUSED)
        atoll_daytona_refuse(call, status, code, "sandbox %s is %s; start it first",
                             call->params.id, atoll_sandbox_state_name(state));
    else
        reply(call, status, code, error->text);
}

void atoll_daytona_fail_as(struct atoll_api_call *call, const char *code,
                           const struct atoll_error *error)
{
    int status = atoll_api_status_of(error);

    if (status == 500)
        atoll_api_fail(call, error); /* which writes it to the log */
    else
        reply_error(call, status, code, error);
}

void atoll_daytona_fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    if (status == 500)
        reply(call, status, NULL, "internal error of the daemon");
    else
        reply_error(call, status, NULL, error);
}
