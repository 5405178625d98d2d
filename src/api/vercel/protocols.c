/*
 * Who may send a request, and to which session: the protocols of both planes.
 */
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/vercel/vercel_internal.h"
#include "base/text.h"

/* Parameters. */

static bool is_text(const char *text)
{
    return *text && strlen(text) <= 255;
}

static bool is_command(const char *text)
{
    size_t n = strlen(ATOLL_VERCEL_COMMAND_PREFIX);

    return strncmp(text, ATOLL_VERCEL_COMMAND_PREFIX, n) == 0 && atoll_text_is_id(text + n);
}

static bool is_short(const char *text)
{
    return *text && strlen(text) <= 64;
}

const struct atoll_param_kind atoll_vercel_params[ATOLL_VERCEL_PARAM_COUNT] = {
    {"{sandbox}", offsetof(struct atoll_route_params, template), 65, is_short,
     "a name of at most 64 bytes", '\0', NULL},
    {"{sid}", offsetof(struct atoll_route_params, name), ATOLL_VERCEL_SID_MAX, is_short,
     "the id of a session", '\0', NULL},
    {"{cid}", offsetof(struct atoll_route_params, exec), 33, is_command, "the id of a command",
     '\0', NULL},
    {"{key}", offsetof(struct atoll_route_params, template), 256, is_text,
     "a text of at most 255 bytes", '\0', NULL},
};

bool atoll_vercel_is_v1(const struct atoll_api_call *call)
{
    static const char base[] = ATOLL_VERCEL_BASE "/v1/";

    return call->route && strncmp(call->route->path, base, sizeof(base) - 1) == 0;
}

static bool has_param(const struct atoll_api_call *call, const char *name)
{
    return call->route && strstr(call->route->path, name);
}

/* States. */

static int error_of_state(const struct atoll_sandbox_view *v)
{
    switch (v->state) {
    case ATOLL_SANDBOX_RUNNING:
        return 0;
    case ATOLL_SANDBOX_CREATING:
    case ATOLL_SANDBOX_STOPPING:
        return ATOLL_VERCEL_E_STOPPING;
    case ATOLL_SANDBOX_FAILED:
    case ATOLL_SANDBOX_PAUSED:
    case ATOLL_SANDBOX_STOPPED:
        return v->snapshotting ? ATOLL_VERCEL_E_SNAPSHOTTING : ATOLL_VERCEL_E_STOPPED;
    case ATOLL_SANDBOX_UNREACHABLE:
        break;
    }
    return 0;
}

int atoll_vercel_state_error(const struct atoll_api_call *call, const struct atoll_error *error)
{
    const struct atoll_sandbox *sandbox =
        call->params.id[0] ? atoll_engine_find(call->engine, call->params.id) : NULL;
    struct atoll_sandbox_view v;

    if (call->protocol != &atoll_vercel_session_protocol || !sandbox ||
        error->errnum == ATOLL_VERCEL_E_NO_SNAPSHOT)
        return 0;
    atoll_sandbox_get(sandbox, &v);
    return error_of_state(&v);
}

/* Admission. */

/* The sandbox of the session becomes that of the call. */
static int enter_session(struct atoll_api_call *call, int64_t *ret_number, struct atoll_error *err)
{
    char id[ATOLL_ID_LEN + 1];

    if (!atoll_vercel_sid_read(call->params.name, id, ret_number))
        return atoll_vercel_missing("Session", call->params.name, err);
    (void)snprintf(call->params.id, sizeof(call->params.id), "%s", id);
    if (atoll_api_check_owner(call, err) < 0)
        return err->kind == ATOLL_ERR_NOT_FOUND
                   ? atoll_vercel_missing("Session", call->params.name, err)
                   : -1;
    return 0;
}

int atoll_vercel_check_runs(const struct atoll_api_call *call, int64_t number,
                            struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view v;
    json_t *facts;
    int64_t current;
    int mark;

    if (!sandbox || call->ended)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ATOLL_VERCEL_E_STOPPED,
                          "The sandbox has been stopped");
    facts = atoll_vercel_facts(sandbox);
    atoll_sandbox_get(sandbox, &v);
    current = atoll_vercel_session_number(facts);
    mark = number < current ? ATOLL_VERCEL_E_STOPPED : error_of_state(&v);
    json_decref(facts);
    if (number > current)
        return atoll_vercel_missing("Session", call->params.name, err);
    if (mark)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, mark,
                          mark == ATOLL_VERCEL_E_STOPPED ? "Sandbox is stopped"
                          : mark == ATOLL_VERCEL_E_STOPPING
                              ? "Sandbox is being stopped"
                              : "A snapshot of the sandbox is being made");
    return 0;
}

static void take_command(struct atoll_api_call *call)
{
    size_t n = strlen(ATOLL_VERCEL_COMMAND_PREFIX);

    if (call->params.exec[0])
        memmove(call->params.exec, call->params.exec + n, strlen(call->params.exec) - n + 1);
}

static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    int r = atoll_api_authorize(call, call->route ? call->route->scope : ATOLL_SCOPE_READ, err);
    int64_t number;

    if (r < 0 || !call->route)
        return r;
    take_command(call);
    if (has_param(call, "{sid}"))
        return enter_session(call, &number, err);
    if (has_param(call, "{sandbox}")) {
        (void)snprintf(call->params.id, sizeof(call->params.id), "%.64s", call->params.template);
        r = atoll_api_check_owner(call, err);
        if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND)
            return atoll_vercel_missing("Sandbox", call->params.template, err);
        return r;
    }
    return atoll_api_check_owner(call, err);
}

/* A repeated request for a snapshot comes when the first has ended the session. */
static bool checks_itself(const struct atoll_route *route)
{
    return route->method == ATOLL_GET || route->handler == atoll_vercel_snapshot_create;
}

static int admit_session(struct atoll_api_call *call, struct atoll_error *err)
{
    int r = atoll_api_authorize(call, call->route ? call->route->scope : ATOLL_SCOPE_READ, err);
    int64_t number;

    if (r < 0 || !call->route || !has_param(call, "{sid}"))
        return r;
    take_command(call);
    r = enter_session(call, &number, err);
    return r < 0 || checks_itself(call->route) ? r : atoll_vercel_check_runs(call, number, err);
}

const struct atoll_protocol atoll_vercel_control_protocol = {.fail = atoll_vercel_fail,
                                                             .admit = admit,
                                                             .takes_slashes = true,
                                                             .shows_ended = true};
const struct atoll_protocol atoll_vercel_session_protocol = {.fail = atoll_vercel_fail,
                                                             .admit = admit_session,
                                                             .takes_slashes = true,
                                                             .shows_ended = true};
