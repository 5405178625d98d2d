#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/errors.h"
#include "api/kit/origin.h"
#include "api/kit/sse.h"
#include "api/mcp/mcp_internal.h"
#include "base/rand.h"

/* Since this version a client says in each request which version it speaks, instead of a handshake, and there
 * are no sessions. */
static const char modern[] = "2026-07-28";
/* Versions with a handshake, the newest first. */
static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26"};

static const char instructions[] =
    "Tools run in isolated Linux sandboxes. The first call makes one for this session; give "
    "`sandbox` to use another, from sandbox_create or sandbox_list. Files and processes stay until "
    "the sandbox ends. Without `network` a sandbox reaches no other machine.";

/* Answers. */

void atoll_mcp_request_free(struct atoll_mcp_request *req)
{
    atoll_mcp_message_done(&req->message);
    (void)atoll_tool_unref(req->tool);
    json_decref(req->args);
    free(req);
}

static void send_whole(struct atoll_api_call *call, int status, const char *text)
{
    call->state = NULL;
    call->on_gone = NULL;
    if (!call->req)
        atoll_api_drop(call);
    else if (!text)
        atoll_api_abort(call, "out of memory");
    else
        atoll_api_reply_text(call, status, "application/json", text, strlen(text));
}

/* Sends the envelope, as the whole answer or as the last event. */
static void send(struct atoll_mcp_request *req, int status, json_t *envelope)
{
    struct atoll_api_call *call = req->call;
    struct atoll_mcp_stream *stream = req->stream;
    bool abandoned = req->abandoned;
    char *text = envelope ? json_dumps(envelope, JSON_COMPACT) : NULL;

    json_decref(envelope);
    atoll_mcp_request_free(req);
    if (!call && !abandoned) {
        if (text)
            atoll_mcp_stream_send(stream, text);
        atoll_mcp_stream_end(stream);
    } else if (call) {
        send_whole(call, status, text);
    }
    free(text);
}

static json_t *id_of(const struct atoll_mcp_request *req)
{
    return req->message.id ? json_deep_copy(req->message.id) : json_null();
}

/* What modern clients expect in addition. Lists may change at any time. */
static void add_modern(const struct atoll_mcp_request *req, json_t *result)
{
    (void)json_object_set_new(result, "resultType", json_string("complete"));
    if (strcmp(req->message.method, "tools/call") == 0)
        return;
    (void)json_object_set_new(result, "ttlMs", json_integer(0));
    (void)json_object_set_new(result, "cacheScope", json_string("private"));
}

void atoll_mcp_answer(struct atoll_mcp_request *req, json_t *result)
{
    json_t *envelope;

    if (result && req->modern)
        add_modern(req, result);
    envelope =
        result ? json_pack("{s:s, s:o, s:o}", "jsonrpc", "2.0", "id", id_of(req), "result", result)
               : NULL;

    send(req, 200, envelope);
}

static json_t *error_envelope(json_t *id, int code, const char *text)
{
    return json_pack("{s:s, s:o, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", code,
                     "message", text);
}

void atoll_mcp_refuse(struct atoll_mcp_request *req, int code, const char *fmt, ...)
{
    char text[ATOLL_ERROR_TEXT_MAX];
    bool malformed = code == ATOLL_MCP_PARSE_ERROR || code == ATOLL_MCP_INVALID_REQUEST;
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    send(req, malformed ? 400 : 200, error_envelope(id_of(req), code, text));
}

void atoll_mcp_fail(struct atoll_mcp_request *req, const struct atoll_error *error)
{
    int code = error->kind == ATOLL_ERR_INVALID_ARGUMENT ? ATOLL_MCP_INVALID_PARAMS
               : error->kind == ATOLL_ERR_NOT_FOUND      ? ATOLL_MCP_NOT_FOUND
                                                         : ATOLL_MCP_INTERNAL_ERROR;

    atoll_mcp_refuse(req, code, "%s", error->text);
}

/* Where the client can read how it gets access (RFC 9728 section 5.1). */
static void challenge(struct atoll_api_call *call)
{
    char origin[ATOLL_ORIGIN_MAX], text[ATOLL_ORIGIN_MAX + 100];

    atoll_origin(call->api, call->req, origin);
    (void)snprintf(text, sizeof(text),
                   "Bearer resource_metadata=\"%s/.well-known/oauth-protected-resource/mcp\"",
                   origin);
    if (atoll_http_set_header(call->req, "WWW-Authenticate", text) < 0)
        (void)!atoll_http_set_header(call->req, "WWW-Authenticate", "Bearer");
}

/* A request that was refused before its handler: without a key, or too large. */
static void fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    json_t *envelope = error_envelope(json_null(), ATOLL_MCP_INVALID_REQUEST,
                                      status == 500 ? "internal error of the daemon" : error->text);
    char *text = envelope ? json_dumps(envelope, JSON_COMPACT) : NULL;

    json_decref(envelope);
    if (status == 401 && call->req)
        challenge(call);
    atoll_api_reply_text(call, status, "application/json", text ? text : "{}",
                         text ? strlen(text) : 2);
    free(text);
}

/* Sessions. */

static const char no_session[] = "this session does not exist: initialize a new one";

void atoll_mcp_sandbox_name(const char *session, const char *environment, char *out)
{
    (void)snprintf(out, 64, "mcp%s%.16s%s%.40s", *session ? "-" : "", session,
                   environment ? "-" : "", environment ? environment : "");
}

/* From the header, or from the query for `atoll mcp`, which makes its own. False: there is no such session, or it has
 * ended. */
static bool take_session(const struct atoll_api_call *call, char *out)
{
    struct atoll_mcp *mcp = atoll_api_facade_state(call->api, &atoll_mcp_facade);
    const char *by_header = atoll_http_header(call->req, "mcp-session-id");
    const char *given = by_header ? by_header : atoll_http_query(call->req, "session");

    *out = '\0';
    if (!given)
        return true;
    if (strlen(given) != ATOLL_MCP_SESSION_LEN ||
        strspn(given, "0123456789abcdef") != ATOLL_MCP_SESSION_LEN)
        return false;
    if (by_header &&
        (!atoll_mcp_id_check(call->api, call->caller.tenant, given) ||
         atoll_mcp_ids_has(&atoll_mcp_tenant_get(mcp, call->caller.tenant)->ended, given)))
        return false;
    memcpy(out, given, ATOLL_MCP_SESSION_LEN + 1);
    return true;
}

static void new_session(const struct atoll_mcp_request *req)
{
    char id[ATOLL_MCP_SESSION_LEN + 1];

    atoll_mcp_id_make(req->api, req->tenant, id);
    (void)!atoll_http_set_header(req->call->req, "Mcp-Session-Id", id);
    /* It has no sandbox yet. */
    atoll_mcp_ids_add(&atoll_mcp_tenant_get(req->state, req->tenant)->begun, id);
}

static void destroyed(void *arg, const struct atoll_error *error ATOLL_UNUSED)
{
    atoll_api_reply_empty(arg, 204);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

#define OTHERS_MAX 64 /* those beyond it end when they are idle */

/* Those that the session has for tools of the registry. */
static void destroy_others(const struct atoll_api_call *call, const char *name)
{
    char ids[OTHERS_MAX][ATOLL_ID_LEN + 1]; /* destroying changes the engine's list */
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    size_t pos = 0, n = strlen(name), count = 0;

    while (count < OTHERS_MAX && (sandbox = atoll_engine_next(call->engine, &pos))) {
        atoll_sandbox_get(sandbox, &view);
        if (strcmp(view.owner, call->caller.tenant) == 0 && view.options.name &&
            strncmp(view.options.name, name, n) == 0 && view.options.name[n] == '-')
            memcpy(ids[count++], view.id, strlen(view.id) + 1);
    }
    while (count > 0)
        atoll_engine_destroy(call->engine, ids[--count], "the end of an MCP session", ignore, NULL);
}

/* The end of a session: its sandboxes end with it. */
static void end_session(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct atoll_mcp *mcp = atoll_api_facade_state(call->api, &atoll_mcp_facade);
    char session[ATOLL_MCP_SESSION_LEN + 1], name[64];
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    struct atoll_error error;

    if (!take_session(call, session)) {
        (void)atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "%s", no_session);
        atoll_api_fail(call, &error);
        return;
    }
    if (!*session) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "the header Mcp-Session-Id must be that of the session to end");
        atoll_api_fail(call, &error);
        return;
    }
    if (atoll_mcp_id_check(call->api, call->caller.tenant, session))
        atoll_mcp_ids_add(&atoll_mcp_tenant_get(mcp, call->caller.tenant)->ended, session);
    (void)atoll_mcp_session_free(atoll_mcp_session_find(mcp, call->caller.tenant, session));
    atoll_mcp_sandbox_name(session, NULL, name);
    destroy_others(call, name);
    sandbox = atoll_engine_find_name(call->engine, call->caller.tenant, name);
    if (!sandbox) {
        atoll_api_reply_empty(call, 204);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    atoll_engine_destroy(call->engine, view.id, "the end of an MCP session", destroyed, call);
}

/* The stream of the daemon's own messages, or one that the client resumes. */
static void get_stream(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                       size_t n ATOLL_UNUSED)
{
    struct atoll_mcp *mcp = atoll_api_facade_state(call->api, &atoll_mcp_facade);
    struct atoll_mcp_session *session = NULL;
    char id[ATOLL_MCP_SESSION_LEN + 1];
    struct atoll_error error;
    const char *last = atoll_http_header(call->req, "last-event-id");
    bool known = take_session(call, id);
    int r;

    if (known &&
        (!*id || !atoll_sse_wanted(call->req) || atoll_http_method(call->req) == ATOLL_HEAD)) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                         "GET is for the event stream of a session: send Mcp-Session-Id, and "
                         "Accept: text/event-stream");
        (void)!atoll_http_set_header(call->req, "Allow", "POST, DELETE");
        fail(call, 405, &error);
        return;
    }
    r = known ? 0 : atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT, "%s", no_session);
    if (r == 0 && last)
        session = atoll_mcp_session_find(mcp, call->caller.tenant, id);
    if (r == 0 && last && !session)
        r = atoll_fail(&error, ATOLL_ERR_NOT_FOUND, ENOENT,
                       "the events after %.40s are not kept any more: call again", last);
    if (r == 0 && !last)
        r = atoll_mcp_session_get(mcp, call->api, call->caller.tenant, id, &session, &error);
    if (r == 0)
        r = atoll_mcp_session_attach(session, call, last, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
}

/* How clients get access, for those that look for OAuth (RFC 9728): with a key of Atoll. */
static void metadata(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                     size_t n ATOLL_UNUSED)
{
    char origin[ATOLL_ORIGIN_MAX], resource[ATOLL_ORIGIN_MAX + 8];
    json_t *answer;
    char *text;

    atoll_origin(call->api, call->req, origin);
    (void)snprintf(resource, sizeof(resource), "%s/mcp", origin);
    answer = json_pack("{s:s, s:s, s:[], s:[s]}", "resource", resource, "resource_name",
                       "Atoll sandboxes: the bearer token is an API key of Atoll",
                       "authorization_servers", "bearer_methods_supported", "header");
    text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    send_whole(call, 200, text);
    free(text);
}

/* Methods. */

static json_t *capabilities(void)
{
    return json_pack("{s:{s:b}, s:{s:b, s:b}, s:{s:b}}", "tools", "listChanged", 0, "resources",
                     "subscribe", 1, "listChanged", 0, "prompts", "listChanged", 0);
}

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s, s:s}", "name", "atoll", "title", "Atoll sandboxes", "version",
                     ATOLL_VERSION);
}

static void discover(struct atoll_mcp_request *req)
{
    req->modern = true;
    atoll_mcp_answer(req, json_pack("{s:[s], s:o, s:s, s:{s:o}}", "supportedVersions", modern,
                                    "capabilities", capabilities(), "instructions", instructions,
                                    "_meta", "io.modelcontextprotocol/serverInfo", server_info()));
}

static void initialize(struct atoll_mcp_request *req)
{
    const char *asked = json_string_value(json_object_get(req->message.params, "protocolVersion"));
    const char *version = versions[0];

    for (size_t i = 0; asked && i < ATOLL_ARRAY_LEN(versions); i++)
        if (strcmp(asked, versions[i]) == 0)
            version = versions[i];
    if (!*req->session)
        new_session(req);
    atoll_mcp_answer(req, json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion", version,
                                    "capabilities", capabilities(), "serverInfo", server_info(),
                                    "instructions", instructions));
}

static void ping(struct atoll_mcp_request *req)
{
    atoll_mcp_answer(req, json_object());
}

static const struct {
    const char *name;
    void (*run)(struct atoll_mcp_request *req);
} methods[] = {
    {"initialize", initialize},
    {"server/discover", discover},
    {"ping", ping},
    {"tools/list", atoll_mcp_tools_list},
    {"tools/call", atoll_mcp_tools_call},
    {"resources/list", atoll_mcp_resources_list},
    {"resources/templates/list", atoll_mcp_resource_templates},
    {"resources/read", atoll_mcp_resources_read},
    {"resources/subscribe", atoll_mcp_subscribe},
    {"resources/unsubscribe", atoll_mcp_unsubscribe},
    {"subscriptions/listen", atoll_mcp_listen},
    {"prompts/list", atoll_mcp_prompts_list},
    {"prompts/get", atoll_mcp_prompts_get},
};

static void run_method(struct atoll_mcp_request *req)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(methods); i++)
        if (strcmp(req->message.method, methods[i].name) == 0) {
            methods[i].run(req);
            return;
        }
    atoll_mcp_refuse(req, ATOLL_MCP_UNKNOWN_METHOD, "there is no method %.64s",
                     req->message.method);
}

/* A notification, or an answer to a request that we never send. */
static void take_notice(struct atoll_mcp_request *req)
{
    struct atoll_api_call *call = req->call;
    const char *method = req->message.method;

    if (method && strcmp(method, "notifications/cancelled") == 0)
        atoll_mcp_cancel(req->state, call, req->session,
                         json_object_get(req->message.params, "requestId"));
    atoll_mcp_request_free(req);
    call->state = NULL;
    atoll_api_reply_empty(call, 202);
}

/* The version in the request, or in its header; NULL: neither. */
static const char *version_of(const struct atoll_mcp_request *req)
{
    const json_t *meta = json_object_get(req->message.params, "_meta");
    const char *given =
        json_string_value(json_object_get(meta, "io.modelcontextprotocol/protocolVersion"));

    return given ? given : atoll_http_header(req->call->req, "mcp-protocol-version");
}

static bool is_known_version(const char *given)
{
    for (size_t i = 0; given && i < ATOLL_ARRAY_LEN(versions); i++)
        if (strcmp(given, versions[i]) == 0)
            return true;
    return !given || strcmp(given, modern) == 0;
}

static void refuse_version(struct atoll_mcp_request *req, const char *given)
{
    json_t *supported = json_pack("[s, s, s, s]", modern, versions[0], versions[1], versions[2]);
    json_t *envelope = json_pack("{s:s, s:o, s:{s:i, s:s, s:{s:o, s:s}}}", "jsonrpc", "2.0", "id",
                                 id_of(req), "error", "code", ATOLL_MCP_UNKNOWN_VERSION, "message",
                                 "this version of the protocol is not supported", "data",
                                 "supported", supported, "requested", given);

    send(req, 400, envelope);
}

static void post(struct atoll_api_call *call, const uint8_t *body, size_t n)
{
    struct atoll_mcp_request *req = atoll_api_alloc(sizeof(*req));
    const char *why = NULL;
    int r;

    req->call = call;
    req->api = call->api;
    req->engine = call->engine;
    (void)snprintf(req->tenant, sizeof(req->tenant), "%s", call->caller.tenant);
    req->state = atoll_api_facade_state(call->api, &atoll_mcp_facade);
    req->by_header = atoll_http_header(call->req, "mcp-session-id") != NULL;
    atoll_list_init(&req->node);
    r = atoll_mcp_parse(body, n, &req->message, &why);
    req->version = version_of(req);
    req->modern = req->version && strcmp(req->version, modern) == 0;
    if (r != 0)
        atoll_mcp_refuse(req, r, "%s", why);
    else if (!take_session(call, req->session))
        send(req, 404, error_envelope(id_of(req), ATOLL_MCP_INVALID_REQUEST, no_session));
    else if (!is_known_version(req->version))
        refuse_version(req, req->version);
    else if (!req->message.id)
        take_notice(req);
    else
        run_method(req);
}

#define METADATA "/.well-known/oauth-protected-resource"
static const struct atoll_route rows[] = {
    {ATOLL_POST, "/mcp", ATOLL_SCOPE_TOOLS, ATOLL_BODY_FILES, post, NULL},
    {ATOLL_GET, "/mcp", ATOLL_SCOPE_TOOLS, ATOLL_BODY_NONE, get_stream, NULL},
    {ATOLL_DELETE, "/mcp", ATOLL_SCOPE_TOOLS, ATOLL_BODY_NONE, end_session, NULL},
    {ATOLL_GET, METADATA, ATOLL_SCOPE_PUBLIC, ATOLL_BODY_NONE, metadata, NULL},
    {ATOLL_GET, METADATA "/mcp", ATOLL_SCOPE_PUBLIC, ATOLL_BODY_NONE, metadata, NULL},
};
static const struct atoll_protocol protocol = {.fail = fail, .challenges = true};
static const struct atoll_routes routes = {.rows = rows,
                                           .count = ATOLL_ARRAY_LEN(rows),
                                           .protocol = &protocol};
static const struct atoll_routes *const tables[] = {&routes, NULL};

static void *open_state(struct atoll_api *api ATOLL_UNUSED, const uint32_t *options ATOLL_UNUSED)
{
    struct atoll_mcp *mcp = atoll_api_alloc(sizeof(*mcp));

    atoll_list_init(&mcp->calls);
    atoll_list_init(&mcp->sessions);
    atoll_list_init(&mcp->tenants);
    atoll_rand_bytes((uint8_t *)&mcp->epoch, sizeof(mcp->epoch));
    return mcp;
}

static void close_state(void *state)
{
    struct atoll_mcp *mcp = state;

    while (!atoll_list_empty(&mcp->sessions))
        (void)atoll_mcp_session_free(
            ATOLL_CONTAINER_OF(mcp->sessions.next, struct atoll_mcp_session, node));
    atoll_mcp_tenants_free(mcp);
    free(mcp);
}

const struct atoll_facade atoll_mcp_facade = {.tables = tables,
                                              .open = open_state,
                                              .close = close_state};
