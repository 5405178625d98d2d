/*
 * Tokens of sandboxes (access/sandbox_tokens.h) as credentials of the API: the routes that they open,
 * and their end with the sandbox. Every other route, of every facade, answers 403 to them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "access/sandbox_tokens.h"
#include "api/api_internal.h"

#define BOX "/api/sandboxes/{id}"
#define EXEC BOX "/execs/{exec}"

/* Commands, terminals, files and ports. Not what outlives the token (signed URLs, previews), and no
 * lists: a token finds only the commands whose ids it got. */
static const struct {
    enum atoll_http_method method;
    const char *path;
} opened[] = {
    {ATOLL_GET, "/api/sandbox-token"},
    {ATOLL_POST, BOX "/execs"},
    {ATOLL_GET, BOX "/execs/stream"},
    {ATOLL_GET, BOX "/pty"},
    {ATOLL_GET, EXEC},
    {ATOLL_GET, EXEC "/output"},
    {ATOLL_POST, EXEC "/stdin"},
    {ATOLL_POST, EXEC "/signal"},
    {ATOLL_POST, EXEC "/resize"},
    {ATOLL_GET, BOX "/files"},
    {ATOLL_PUT, BOX "/files"},
    {ATOLL_DELETE, BOX "/files"},
    {ATOLL_GET, BOX "/files/stat"},
    {ATOLL_GET, BOX "/files/list"},
    {ATOLL_POST, BOX "/files/mkdir"},
    {ATOLL_POST, BOX "/files/move"},
    {ATOLL_GET, BOX "/archive"},
    {ATOLL_PUT, BOX "/archive"},
    {ATOLL_GET, BOX "/ports/{port}/tunnel"},
};

static bool opens(const struct atoll_route *route)
{
    for (size_t i = 0; route && i < ATOLL_ARRAY_LEN(opened); i++)
        if (route->method == opened[i].method && strcmp(route->path, opened[i].path) == 0)
            return true;
    return false;
}

static int refuse(struct atoll_error *err)
{
    return atoll_fail(
        err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
        "a token of a sandbox opens only commands, terminals, files and ports of that "
        "sandbox");
}

int atoll_api_authorize_token(struct atoll_api_call *call, struct atoll_error *err)
{
    const struct atoll_sandbox_tokens *tokens = call->api->config.auth.tokens;
    const char *shown = atoll_auth_shown(call->req), *owner;
    struct atoll_sandbox_token_view view;

    if (!tokens || !shown || !atoll_sandbox_token_is_valid(shown))
        return 1;
    if (!atoll_sandbox_tokens_find(tokens, shown, &view) ||
        !atoll_engine_find(call->engine, view.sandbox_id))
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES,
                          "this token of a sandbox is not valid, or its time is over");
    if (call->protocol || !opens(call->route))
        return refuse(err);
    owner = atoll_api_owner_of(call->engine, view.sandbox_id);
    call->caller = (struct atoll_caller){.scope = ATOLL_SCOPE_WRITE, .uid = (uid_t)-1};
    (void)snprintf(call->caller.tenant, sizeof(call->caller.tenant), "%s",
                   owner && *owner ? owner : ATOLL_TENANT_DEFAULT);
    (void)snprintf(call->caller.key_id, sizeof(call->caller.key_id), "token-%s", view.id);
    (void)snprintf(call->caller.sandbox_id, sizeof(call->caller.sandbox_id), "%s", view.sandbox_id);
    call->caller.expires_unix_ms = view.expires_unix_ms;
    return 0;
}

/* The end of sandboxes. */

static void on_event(void *arg, const struct atoll_event *event)
{
    const struct atoll_api *api = arg;

    if (strcmp(event->kind, "sandbox.destroyed") == 0)
        atoll_sandbox_tokens_forget(api->config.auth.tokens, event->sandbox_id);
}

/* Sandboxes that were destroyed while the daemon did not run. */
static void forget_orphans(struct atoll_api *api)
{
    struct atoll_sandbox_tokens *tokens = api->config.auth.tokens;
    struct atoll_sandbox_token_view view;
    char id[33];

    for (size_t pos = 0; atoll_sandbox_tokens_next(tokens, NULL, &pos, &view);)
        if (!atoll_engine_find(api->config.engine, view.sandbox_id)) {
            (void)snprintf(id, sizeof(id), "%s", view.sandbox_id);
            atoll_sandbox_tokens_forget(tokens, id);
            pos = 0;
        }
}

void atoll_api_watch_tokens(struct atoll_api *api)
{
    if (!api->config.auth.tokens)
        return;
    forget_orphans(api);
    api->token_events = atoll_events_subscribe(api->config.engine, UINT64_MAX, on_event, api);
}
