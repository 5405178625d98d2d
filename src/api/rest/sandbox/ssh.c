/*
 * Access to a sandbox by SSH. Only the response that makes a token contains it.
 */
#include "api/ssh.h"
#include <errno.h>
#include <openssl/crypto.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/kit/list_reply.h"
#include "api/rest/rest_internal.h"
#include "base/clock.h"

struct request {
    uint32_t minutes;
};

static const struct atoll_field fields[] = {
    {"expires_minutes", ATOLL_FIELD_U32, offsetof(struct request, minutes), 1,
     ATOLL_SSH_MINUTES_MAX, NULL, 0},
    {0},
};

static void write_times(struct atoll_json_out *out, const struct atoll_sandbox_token_view *view)
{
    atoll_json_time(out, "created_at", view->created_unix_ms);
    atoll_json_time(out, "expires_at", view->expires_unix_ms);
}

void atoll_rest_ssh_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request request = {.minutes = ATOLL_SSH_MINUTES_DEFAULT};
    struct atoll_ssh_access access;
    struct atoll_error error;
    struct atoll_body body;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_body_decode(&body, bytes, n, fields, &request, &error);

    atoll_body_done(&body);
    if (r == 0)
        r = atoll_ssh_grant(call, request.minutes, &access, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "id", access.view.id);
    atoll_json_text(&out, "token", access.token);
    atoll_json_text(&out, "command", access.command);
    atoll_json_text(&out, "host", access.host);
    atoll_json_u64(&out, "port", access.port);
    atoll_json_text(&out, "host_key", access.host_key);
    write_times(&out, &access.view);
    atoll_json_close(&out, '}');
    if (call->req)
        (void)atoll_http_set_header(call->req, "Cache-Control", "no-store");
    OPENSSL_cleanse(&access, sizeof(access));
    atoll_api_reply(call, 201, &out);
}

static struct atoll_sandbox_tokens *tokens_of(const struct atoll_api_call *call,
                                              struct atoll_error *err)
{
    struct atoll_sandbox_tokens *tokens = call->api->config.auth.tokens;

    if (!tokens)
        (void)atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "tokens of sandboxes are disabled in this daemon");
    return tokens;
}

void atoll_rest_ssh_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    const struct atoll_sandbox_tokens *tokens = tokens_of(call, &error);
    struct atoll_sandbox_token_view view;
    struct atoll_list_reply *list;

    if (!tokens) {
        atoll_api_fail(call, &error);
        return;
    }
    list = atoll_list_reply_new(call, "tokens", ']');
    for (size_t pos = 0; atoll_sandbox_tokens_next(tokens, call->params.id, &pos, &view);) {
        atoll_json_open(&list->out, NULL, '{');
        atoll_json_text(&list->out, "id", view.id);
        write_times(&list->out, &view);
        atoll_json_close(&list->out, '}');
    }
    atoll_list_reply_done(list, NULL);
}

void atoll_rest_ssh_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_sandbox_tokens *tokens = tokens_of(call, &error);
    int r = -ENOSYS;

    if (tokens)
        r = call->params.name[0]
                ? atoll_sandbox_tokens_remove(tokens, call->params.id, call->params.name, &error)
                : atoll_sandbox_tokens_clear(tokens, call->params.id, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}

/* What a token opens, for the program that got it from a client. */
void atoll_rest_sandbox_token(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!call->caller.sandbox_id[0]) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT,
                         "the request shows no token of a sandbox");
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_text(&out, "sandbox_id", call->caller.sandbox_id);
    atoll_json_time(&out, "expires_at", call->caller.expires_unix_ms);
    atoll_json_u64(&out, "expires_in_seconds",
                   (uint64_t)(call->caller.expires_unix_ms - atoll_clock_unix_ms()) / 1000);
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}
