#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/kit/sse.h"
#include "api/mcp/mcp_internal.h"
#include "base/clock.h"
#include "registry/environment_create.h"

#define BEAT_MS 3000 /* between two notes of progress */
#define AGAIN_MS 20  /* between two looks at a sandbox that is being made */
#define IDLE_S 3600  /* a session's own sandbox ends when it was not used for so long */

/* The list. */

static json_t *describe(const struct atoll_tool *tool)
{
    return json_pack("{s:s, s:s, s:o, s:o*, s:{s:b, s:b}}", "name", tool->mcp_name, "description",
                     tool->about, "inputSchema", atoll_tool_schema(tool, true), "outputSchema",
                     atoll_tool_output(tool), "annotations", "readOnlyHint", tool->reads_only,
                     "openWorldHint", 0);
}

void atoll_mcp_tools_list(struct atoll_mcp_request *req)
{
    const struct atoll_tool *tool;
    json_t *all = json_array();
    size_t pos = 0;

    while ((tool = atoll_tool_next(req->api, true, &pos))) {
        (void)json_array_append_new(all, describe(tool));
        (void)atoll_tool_unref(tool);
    }
    atoll_mcp_answer(req, json_pack("{s:o}", "tools", all));
}

/* Progress. */

static void beat(void *arg)
{
    struct atoll_mcp_request *req = arg;
    const json_t *token =
        json_object_get(json_object_get(req->message.params, "_meta"), "progressToken");
    json_t *note;
    char *text, said[64];

    (void)snprintf(said, sizeof(said), "running for %lld s",
                   (long long)(atoll_clock_ms() - req->started_ms) / 1000);
    note = json_pack("{s:s, s:s, s:{s:O, s:I, s:s}}", "jsonrpc", "2.0", "method",
                     "notifications/progress", "params", "progressToken", token, "progress",
                     (json_int_t)++req->beats, "message", said);
    text = note ? json_dumps(note, JSON_COMPACT) : NULL;
    if (text)
        atoll_mcp_stream_send(req->stream, text);
    free(text);
    json_decref(note);
    atoll_timer_set(&req->beat, req->api->config.loop, BEAT_MS, beat, req);
}

static void stream_gone(void *arg);

/* An answer that may take long is a stream, if the client asked for progress. Clients that have a session, and
 * sent it in the header, can resume it; if there are too many sessions, it cannot be resumed. */
static void begin_stream(struct atoll_mcp_request *req)
{
    const json_t *token =
        json_object_get(json_object_get(req->message.params, "_meta"), "progressToken");
    struct atoll_mcp_session *session = NULL;
    struct atoll_error error;

    if ((!json_is_string(token) && !json_is_number(token)) || !atoll_sse_wanted(req->call->req))
        return;
    if (req->by_header && !req->modern &&
        atoll_mcp_session_get(req->state, req->api, req->tenant, req->session, &session, &error) <
            0)
        session = NULL;
    req->stream = atoll_mcp_stream_open(session, ATOLL_TAKE_PTR(req->call),
                                        req->version && strcmp(req->version, "2025-11-25") >= 0,
                                        stream_gone, req);
    atoll_timer_set(&req->beat, req->api->config.loop, BEAT_MS, beat, req);
}

/* Calls. */

static const char renewed[] =
    "Note: the sandbox that this session had has ended. This call has made a new, empty one.";

static void forget(struct atoll_mcp_request *req)
{
    atoll_timer_cancel(&req->beat);
    atoll_timer_cancel(&req->again);
    atoll_list_remove(&req->node);
    atoll_list_init(&req->node);
    req->tool_call = NULL;
}

static void done(void *arg, const struct atoll_tool_result *result, const struct atoll_error *error)
{
    struct atoll_mcp_request *req = arg;
    json_t *content, *answer;

    forget(req);
    if (error && error->kind == ATOLL_ERR_INVALID_ARGUMENT) {
        atoll_mcp_fail(req, error);
        return;
    }
    /* Other errors are for the model: it can do something about them. */
    content =
        req->renewed ? json_pack("[{s:s, s:s}]", "type", "text", "text", renewed) : json_array();
    (void)json_array_append_new(content, json_pack("{s:s, s:s}", "type", "text", "text",
                                                   error ? error->text : result->text));
    if (!error && result->image)
        (void)json_array_append_new(content, json_pack("{s:s, s:s, s:s}", "type", "image", "data",
                                                       result->image, "mimeType", "image/png"));
    answer = json_pack("{s:o, s:b}", "content", content, "isError", error || result->is_error);
    if (answer && !error && result->data)
        (void)json_object_set(answer, "structuredContent", (json_t *)result->data);
    atoll_mcp_answer(req, answer);
}

static void start(struct atoll_mcp_request *req, const char *sandbox_id)
{
    struct atoll_mcp *mcp = req->state;
    struct atoll_tool_call *started;

    atoll_list_push_back(&mcp->calls, &req->node);
    started = atoll_tool_start(&(struct atoll_tool_request){
        .api = req->api,
        .tool = req->tool,
        .tenant = req->tenant,
        .sandbox_id = sandbox_id,
        .args = json_incref(req->args),
        .done = done,
        .arg = req,
    });
    if (started)
        req->tool_call = started;
}

/* The request ends although its tool was not started or was ended. */
static void give_up(struct atoll_mcp_request *req, const char *why)
{
    struct atoll_error error;

    forget(req);
    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "%s", why);
    atoll_mcp_fail(req, &error);
}

static bool is_gone(const struct atoll_mcp_request *req)
{
    return req->abandoned || (req->call && !req->call->req);
}

static void sandbox_made(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_mcp_request *req = arg;
    struct atoll_sandbox_view view;
    char id[ATOLL_ID_LEN + 1];

    if (is_gone(req)) {
        give_up(req, "the client went away");
        return;
    }
    if (error) {
        done(req, NULL, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    (void)snprintf(id, sizeof(id), "%s", view.id);
    start(req, id);
}

static void resumed(void *arg, const struct atoll_error *error)
{
    struct atoll_mcp_request *req = arg;
    struct atoll_sandbox *sandbox = NULL;
    struct atoll_error err;

    if (!error && atoll_engine_resolve(req->engine, req->tenant, false,
                                       json_string_value(json_object_get(req->args, "sandbox")),
                                       &sandbox, &err) < 0)
        error = &err;
    sandbox_made(req, sandbox, error);
}

static void use(struct atoll_mcp_request *req, struct atoll_sandbox *sandbox);

static void look_again(void *arg)
{
    struct atoll_mcp_request *req = arg;
    const char *id = json_string_value(json_object_get(req->args, "sandbox"));
    struct atoll_sandbox *sandbox = atoll_engine_find(req->engine, id);
    struct atoll_error error;

    if (is_gone(req)) {
        give_up(req, "the client went away");
    } else if (sandbox) {
        use(req, sandbox);
    } else {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "sandbox %s could not be made", id);
        done(req, NULL, &error);
    }
}

/* Waits for a sandbox that is being made, resumes one that is paused, starts one that is stopped. */
static void use(struct atoll_mcp_request *req, struct atoll_sandbox *sandbox)
{
    struct atoll_sandbox_view view;

    atoll_sandbox_get(sandbox, &view);
    (void)json_object_set_new(req->args, "sandbox", json_string(view.id));
    if (view.state == ATOLL_SANDBOX_CREATING)
        atoll_timer_set(&req->again, req->api->config.loop, AGAIN_MS, look_again, req);
    else if (view.state == ATOLL_SANDBOX_PAUSED || view.state == ATOLL_SANDBOX_STOPPED)
        atoll_engine_resume(req->engine, view.id, resumed, req);
    else
        sandbox_made(req, sandbox, NULL);
}

/* A sandbox of the session for tools of this environment of the registry. */
static void make_environment(struct atoll_mcp_request *req, const char *environment,
                             const struct atoll_options *options)
{
    struct atoll_environment found;
    struct atoll_error error;
    const struct atoll_registry *registry = atoll_sessions_registry(req->api->config.sessions);

    if (atoll_environment_find(registry, environment, &found, &error) < 0)
        done(req, NULL, &error);
    else
        atoll_environment_create(
            req->engine,
            &(struct atoll_environment_create){.environment = &found, .sandbox = *options},
            sandbox_made, req);
}

/* A session without a sandbox had one, unless it has begun just now. Those of `atoll mcp` may begin without a message:
 * of them the daemon knows the ones that got their sandbox from it. */
static void note_made(struct atoll_mcp_request *req)
{
    struct atoll_mcp_tenant *tenant = atoll_mcp_tenant_get(req->state, req->tenant);

    if (req->by_header) {
        req->renewed = !atoll_mcp_ids_remove(&tenant->begun, req->session);
    } else if (*req->session) {
        req->renewed = atoll_mcp_ids_has(&tenant->used, req->session);
        atoll_mcp_ids_add(&tenant->used, req->session);
    }
}

static void own_made(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    if (!error)
        note_made(arg);
    sandbox_made(arg, sandbox, error);
}

static void use_session(struct atoll_mcp_request *req)
{
    const char *environment = json_string_value(json_object_get(req->tool->object, "environment"));
    char name[64];
    const struct atoll_options options = {
        .owner = req->tenant, .name = name, .lifetime = {.idle_s = IDLE_S}};
    struct atoll_sandbox *sandbox;

    atoll_mcp_sandbox_name(req->session, environment, name);
    sandbox = atoll_engine_find_name(req->engine, req->tenant, name);
    if (sandbox)
        use(req, sandbox);
    else if (environment)
        make_environment(req, environment, &options);
    else
        atoll_engine_create(req->engine, &options, own_made, req);
}

static void end_call(struct atoll_mcp_request *req)
{
    struct atoll_tool_call *tool_call = req->tool_call;

    if (!tool_call)
        return; /* the sandbox is being made: the callback sees that the client is gone */
    give_up(req, "the client went away");
    atoll_tool_cancel(tool_call);
}

static void client_gone(struct atoll_api_call *call)
{
    end_call(call->state);
}

static void stream_gone(void *arg)
{
    struct atoll_mcp_request *req = arg;

    req->abandoned = true;
    atoll_timer_cancel(&req->beat);
    end_call(req);
}

/* The sandbox that the client named; that of another tenant does not exist for it. */
static int find(const struct atoll_api_call *call, const char *text, struct atoll_sandbox **ret,
                struct atoll_error *err)
{
    int r = atoll_engine_resolve(call->engine, call->caller.tenant, false, text, ret, err);

    if (r == 0 && !atoll_api_sees_sandbox(call, *ret))
        r = atoll_engine_no_sandbox(text, err);
    return r;
}

void atoll_mcp_tools_call(struct atoll_mcp_request *req)
{
    const char *name = json_string_value(json_object_get(req->message.params, "name"));
    const json_t *given = json_object_get(req->message.params, "arguments");
    struct atoll_sandbox *sandbox;
    struct atoll_error error;
    const char *text;

    req->tool = name ? atoll_tool_find(req->api, name, true) : NULL;
    if (name && !req->tool)
        req->tool = atoll_tool_find(req->api, atoll_tool_alias(name), true);
    if (!req->tool) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "there is no tool %.64s", name ? name : "");
        return;
    }
    if (given && !json_is_object(given)) {
        atoll_mcp_refuse(req, ATOLL_MCP_INVALID_PARAMS, "arguments must be an object");
        return;
    }
    req->args = given ? json_deep_copy(given) : json_object();
    if (!req->tool->object)
        atoll_tool_alias_args(name, req->args);
    if (atoll_tool_check(req->tool, true, req->args, &error) < 0) {
        atoll_mcp_fail(req, &error);
        return;
    }
    text = json_string_value(json_object_get(req->args, "sandbox"));
    req->started_ms = atoll_clock_ms();
    req->call->state = req;
    req->call->on_gone = client_gone;
    if (text && find(req->call, text, &sandbox, &error) < 0) {
        done(req, NULL, &error);
        return;
    }
    begin_stream(req);
    if (req->tool->without_sandbox)
        start(req, "");
    else if (text)
        use(req, sandbox);
    else
        use_session(req);
}

void atoll_mcp_cancel(struct atoll_mcp *mcp, const struct atoll_api_call *by, const char *session,
                      const json_t *request_id)
{
    struct atoll_list *at;

    for (at = mcp->calls.next; at != &mcp->calls; at = at->next) {
        struct atoll_mcp_request *req = ATOLL_CONTAINER_OF(at, struct atoll_mcp_request, node);
        struct atoll_tool_call *tool_call = req->tool_call;

        if (!tool_call || strcmp(req->session, session) != 0 ||
            strcmp(req->tenant, by->caller.tenant) != 0 || !json_equal(req->message.id, request_id))
            continue;
        give_up(req, "the call was cancelled");
        atoll_tool_cancel(tool_call);
        return;
    }
}
