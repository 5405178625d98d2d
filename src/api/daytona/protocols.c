/*
 * Who may send a request: the protocols of the control plane and of the toolbox.
 */
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"

static bool is_short(const char *text)
{
    return *text && strlen(text) <= 64;
}

static bool is_text(const char *text)
{
    return *text && strlen(text) <= 255;
}

const struct atoll_param_kind atoll_daytona_params[ATOLL_DAYTONA_PARAM_COUNT] = {
    {"{key}", offsetof(struct atoll_route_params, template), 256, is_text,
     "a name of at most 255 bytes", '\0', NULL},
    {"{item}", offsetof(struct atoll_route_params, name), 65, is_short,
     "a text of at most 64 bytes", '\0', NULL},
};

void atoll_daytona_sandbox_token(const struct atoll_api *api, const char *sandbox_id, char *out)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(api->config.engine, sandbox_id);
    json_t *facts = sandbox ? atoll_daytona_facts(sandbox) : NULL;
    int64_t number = atoll_fact_number(facts, "keyNumber", 0);
    char name[100];

    /* Before the first rotation the name is the id alone: tokens of earlier versions remain valid. */
    if (number == 0)
        (void)snprintf(name, sizeof(name), "%s", sandbox_id);
    else
        (void)snprintf(name, sizeof(name), "%s:%lld", sandbox_id, (long long)number);
    json_decref(facts);
    atoll_token_make(api, "atoll daytona sandbox 1", name, out);
}

/* A token gives access to the sandbox with this id, not to one with this name. */
static bool shows_token(const struct atoll_api_call *call)
{
    const char *shown = atoll_http_header(call->req, ATOLL_DAYTONA_TOKEN_HEADER);
    char token[ATOLL_TOKEN_LEN + 1];

    if (!shown)
        shown = atoll_http_query(call->req, ATOLL_DAYTONA_TOKEN_QUERY);
    if (!shown || !atoll_engine_find(call->engine, call->params.id))
        return false;
    atoll_daytona_sandbox_token(call->api, call->params.id, token);
    return atoll_token_fits(shown, token);
}

/* Routes that accept a sandbox which waits for its build. */
static bool knows_waiting(const struct atoll_api_call *call)
{
    void (*const handlers[])(struct atoll_api_call *, const uint8_t *,
                             size_t) = {atoll_daytona_get, atoll_daytona_remove,
                                        atoll_daytona_sandbox_logs_url, atoll_daytona_sandbox_logs};
    const struct atoll_daytona_waiting *w =
        atoll_daytona_waiting_find(call->api, call->caller.tenant, call->params.id);

    /* A client chooses the name of a waiting sandbox: it can be the id of another tenant's sandbox. */
    if (atoll_engine_find(call->engine, call->params.id))
        return false;
    for (size_t i = 0; w && i < ATOLL_ARRAY_LEN(handlers); i++)
        if (call->route->handler == handlers[i])
            return true;
    return false;
}

/* A sandbox that does not exist is reported before a parameter that is not valid. */
static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const struct atoll_daytona_waiting *w;
    int r = atoll_api_authorize(call, call->route ? call->route->scope : ATOLL_SCOPE_READ, err);

    if (r < 0 || !call->route)
        return r;
    if (call->params.id[0] && knows_waiting(call))
        return 0;
    r = atoll_api_check_owner(call, err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND && call->params.id[0] &&
        (w = atoll_daytona_waiting_find(call->api, call->caller.tenant, call->params.id)))
        r = atoll_daytona_waiting_refuse(w, err);
    return r;
}

static int admit_toolbox(struct atoll_api_call *call, struct atoll_error *err)
{
    const char *silent = atoll_http_header(call->req, "x-daytona-skip-last-activity-update");
    int r = 0;

    if (!atoll_http_header(call->req, "authorization") && shows_token(call))
        atoll_api_act_for_owner(call, ATOLL_SCOPE_WRITE, "token of the sandbox");
    else if (!atoll_http_header(call->req, "authorization") && atoll_daytona_is_signed(call))
        atoll_api_act_for_owner(call, ATOLL_SCOPE_WRITE, "signed URL");
    else
        r = admit(call, err);
    if (r == 0 && call->route && !(silent && strcmp(silent, "true") == 0))
        atoll_daytona_touch(call->api, call->params.id);
    return r;
}

const struct atoll_protocol atoll_daytona_control_protocol = {.fail = atoll_daytona_fail,
                                                              .admit = admit,
                                                              .takes_slashes = true};
const struct atoll_protocol atoll_daytona_toolbox_protocol = {.fail = atoll_daytona_fail,
                                                              .admit = admit_toolbox,
                                                              .takes_slashes = true};
