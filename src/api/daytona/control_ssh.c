/*
 * Access by SSH: tokens of a sandbox (api/ssh.h). As at Daytona, a new one replaces those before it.
 */
#include <openssl/crypto.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/daytona_internal.h"
#include "api/ssh.h"

static struct atoll_sandbox_tokens *tokens_of(const struct atoll_api_call *call)
{
    return call->api->config.auth.tokens;
}

static void write_access(struct atoll_json_out *out, const struct atoll_api_call *call,
                         const struct atoll_ssh_access *access)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_text(out, "id", access->view.id);
    atoll_json_text(out, "sandboxId", call->params.id);
    atoll_json_text(out, "token", access->token);
    atoll_json_time(out, "expiresAt", access->view.expires_unix_ms);
    atoll_json_time(out, "createdAt", access->view.created_unix_ms);
    atoll_json_time(out, "updatedAt", access->view.created_unix_ms);
    atoll_json_text(out, "sshCommand", access->command);
    atoll_json_close(out, '}');
}

/* Without an SSH server, earlier tokens stay as they are. */
static int replace(struct atoll_api_call *call, uint64_t minutes, struct atoll_ssh_access *ret,
                   struct atoll_error *err)
{
    int r = call->api->config.ssh && tokens_of(call)
                ? atoll_sandbox_tokens_clear(tokens_of(call), call->params.id, err)
                : 0;

    return r < 0 ? r : atoll_ssh_grant(call, minutes, ret, err);
}

void atoll_daytona_ssh_create(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    uint64_t minutes = ATOLL_SSH_MINUTES_DEFAULT;
    struct atoll_ssh_access access;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r =
        atoll_api_query_u64(call, "expiresInMinutes", 1, ATOLL_SSH_MINUTES_MAX, &minutes, &error);

    if (r == 0)
        r = replace(call, minutes, &access, &error);
    if (r < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    write_access(&out, call, &access);
    OPENSSL_cleanse(&access, sizeof(access));
    if (call->req)
        (void)atoll_http_set_header(call->req, "Cache-Control", "no-store");
    atoll_api_reply(call, 200, &out);
}

/* The token if it is one of the sandbox; "" for any sandbox that the caller sees. */
static bool find_token(const struct atoll_api_call *call, const char *sandbox_id, const char *token,
                       struct atoll_sandbox_token_view *ret)
{
    const struct atoll_sandbox *sandbox;

    if (!tokens_of(call) || !atoll_sandbox_tokens_find(tokens_of(call), token, ret))
        return false;
    if (*sandbox_id)
        return strcmp(ret->sandbox_id, sandbox_id) == 0;
    sandbox = atoll_engine_find(call->engine, ret->sandbox_id);
    return sandbox && (call->caller.every_tenant || atoll_api_sees_sandbox(call, sandbox));
}

/* Afterwards the token opens nothing, also one that never did. */
void atoll_daytona_ssh_revoke(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                              size_t n ATOLL_UNUSED)
{
    const char *token = atoll_http_query(call->req, "token");
    struct atoll_sandbox_token_view view;
    struct atoll_error error;
    int r = 0;

    if (token && *token) {
        if (find_token(call, call->params.id, token, &view))
            r = atoll_sandbox_tokens_remove(tokens_of(call), call->params.id, view.id, &error);
    } else if (tokens_of(call)) {
        r = atoll_sandbox_tokens_clear(tokens_of(call), call->params.id, &error);
    }
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_daytona_reply_sandbox(call, 200, call->params.id);
}

void atoll_daytona_ssh_validate(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    const char *token = atoll_http_query(call->req, "token");
    struct atoll_sandbox_token_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    bool valid;

    if (!token || !*token) {
        atoll_daytona_refuse(call, 400, NULL, "token must be given, as a parameter of the query");
        return;
    }
    valid = find_token(call, "", token, &view);
    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_bool(&out, "valid", valid);
    atoll_json_text(&out, "sandboxId", valid ? view.sandbox_id : "");
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}
