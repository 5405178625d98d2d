/*
 * Errors in the format of Vercel: {"error":{"code","message"}}.
 */
#include "api/errors.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "api/vercel/vercel_internal.h"

static const struct {
    int status;
    const char *code;
} rows[] = {
    {400, "bad_request"},
    {401, "unauthorized"},
    {403, "forbidden"},
    {404, "not_found"},
    {405, "method_not_allowed"},
    {408, "request_timeout"},
    {409, "conflict"},
    {410, "gone"},
    {413, "payload_too_large"},
    {422, "unprocessable_entity"},
    {429, "rate_limited"},
    {499, "client_closed_request"},
    {503, "service_unavailable"},
    {504, "gateway_timeout"},
    {500, "internal_server_error"}, /* and every other status */
};

const char *atoll_vercel_code_of(int status)
{
    size_t i = 0;

    while (i + 1 < ATOLL_ARRAY_LEN(rows) && rows[i].status != status)
        i++;
    return rows[i].code;
}

/* hint: what to do, behind the text, since the format has no member for it; or NULL. */
static void reply(struct atoll_api_call *call, int status, const char *code, const char *text,
                  const char *hint)
{
    char message[ATOLL_ERROR_TEXT_MAX + ATOLL_ERROR_HINT_MAX + 4];
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (hint && strchr(hint, '\n'))
        (void)snprintf(message, sizeof(message), "%s\n%s", text, hint);
    else
        (void)snprintf(message, sizeof(message), hint ? "%s (%s)" : "%s", text, hint);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "error", '{');
    atoll_json_text(&out, "code", code ? code : atoll_vercel_code_of(status));
    atoll_json_text(&out, "message", message);
    atoll_json_close(&out, '}');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, status, &out);
}

void atoll_vercel_refuse(struct atoll_api_call *call, int status, const char *code, const char *fmt,
                         ...)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    reply(call, status, code, text, NULL);
}

void atoll_vercel_refuse_error(struct atoll_api_call *call, int status, const char *code,
                               const struct atoll_error *error)
{
    reply(call, status, code, error->text, *error->hint ? error->hint : NULL);
}

int atoll_vercel_missing(const char *what, const char *text, struct atoll_error *err)
{
    int r = atoll_engine_no_sandbox(text, err);

    (void)snprintf(err->text, sizeof(err->text), "%s %.64s not found", what, text);
    return r;
}

void atoll_vercel_refuse_missing(struct atoll_api_call *call, const char *what, const char *text)
{
    struct atoll_error error;

    (void)!atoll_vercel_missing(what, text, &error);
    atoll_vercel_refuse_error(call, 404, NULL, &error);
}

/* Errors that protocols.c marks by their errno, and those that name a snapshot which is gone. */
static const struct {
    int errnum, status;
    const char *code;
} marks[] = {
    {ATOLL_VERCEL_E_STOPPED, 410, "sandbox_stopped"},
    {ATOLL_VERCEL_E_STOPPING, 422, "sandbox_stopping"},
    {ATOLL_VERCEL_E_SNAPSHOTTING, 422, "sandbox_snapshotting"},
    {ATOLL_VERCEL_E_NO_SNAPSHOT, 410, "snapshot_not_found"},
};

/* Clients repeat what a status of 500 or above answers, so a request that cannot succeed has a lower
 * one. */
static int status_for_client(int status)
{
    return status == 501 || status == 507 ? 400 : status;
}

void atoll_vercel_fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    const int state = atoll_vercel_state_error(call, error);

    for (size_t i = 0; error->kind == ATOLL_ERR_FAILED_PRECONDITION && i < ATOLL_ARRAY_LEN(marks);
         i++)
        if (marks[i].errnum == (state ? state : error->errnum)) {
            reply(call, marks[i].status, marks[i].code, error->text, atoll_api_hint_of(error));
            return;
        }
    if (status == 401)
        reply(call, 401, "unauthorized",
              "The bearer token is not a key of this Atoll. Set ATOLL_API_KEY, or pass a key as "
              "`token`; `atoll key create` makes one.",
              NULL);
    else
        reply(call, status_for_client(status), NULL,
              status == 500 ? "internal error of the daemon" : error->text,
              atoll_api_hint_of(error));
}
