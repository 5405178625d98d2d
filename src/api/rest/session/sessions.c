/*
 * Sessions: create, list, delete. For routes with {session}, the session's sandbox is in the call
 * before a handler is called; see api/session_call.c.
 */
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/idempotency.h"
#include "api/lease.h"
#include "api/rest/requests.h"
#include "api/rest/rest_internal.h"
#include "api/rest/sandbox/ended.h"
#include "api/rest/session/session_files.h"
#include "api/rest/session/sessions_view.h"
#include "api/rest/views.h"
#include "engine/json_memory.h"

struct session_fields {
    const char *environment;
    const json_t *files, *agent_config;
};

#define AT(member) offsetof(struct session_fields, member)
static const struct atoll_field session_fields[] = {
    {"environment", ATOLL_FIELD_STRING, AT(environment), 1, 255, NULL, 0},
    {"agent_config", ATOLL_FIELD_JSON, AT(agent_config), 0, 0, NULL, 0},
    {"files", ATOLL_FIELD_JSON, AT(files), 0, 0, NULL, 0},
    {0},
};
#undef AT

void atoll_rest_session_view(struct atoll_json_out *out, const char *key,
                             struct atoll_api_call *call, const struct atoll_session *session)
{
    struct atoll_session_view v;
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view s;
    char url[ATOLL_REST_SESSION_URL_MAX];

    atoll_session_get(session, &v);
    sandbox = atoll_engine_find(call->engine, v.sandbox_id);
    if (!sandbox)
        return; /* the session is being removed; the caller gets NOT_FOUND */
    atoll_sandbox_get(sandbox, &s);
    atoll_rest_session_url(call, &v, url);
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "session_id", v.id);
    atoll_json_text(out, "sandbox_id", v.sandbox_id);
    atoll_json_text(out, "environment", v.environment);
    atoll_json_text(out, "provider", s.provider);
    atoll_json_text(out, "url", url);
    atoll_json_text(out, "state", atoll_sandbox_state_name(s.state));
    atoll_json_time(out, "created_at", v.created_unix_ms);
    atoll_json_time(out, "expires_at", s.expires_unix_ms);
    atoll_json_raw(out, "metadata",
                   s.options.metadata_json && *s.options.metadata_json ? s.options.metadata_json
                                                                       : "{}");
    atoll_json_bool(out, "persistent", s.options.lifetime.persistent);
    if (v.agent_config)
        atoll_json_raw(out, "agent_config", v.agent_config);
    if (*v.start_exec)
        atoll_json_text(out, "start_execution_id", v.start_exec);
    atoll_view_sandbox(out, "sandbox", sandbox);
    atoll_json_close(out, '}');
}

/* Create. */

struct create {
    struct atoll_api_call *call;
    struct atoll_body body;
    struct atoll_session_create request; /* borrowed from body */
    char *agent_config;
};

static void create_free(struct create *c)
{
    atoll_body_done(&c->body);
    free(c->agent_config);
    free(c);
}

static void created(void *arg, struct atoll_session *session, const struct atoll_error *error)
{
    struct create *c = arg;
    struct atoll_api_call *call = c->call;
    struct atoll_session_view view;
    struct atoll_buf buf;
    struct atoll_json_out out;
    bool leased;

    leased = c->request.sandbox.lifetime.connection_lease;
    create_free(c);
    if (error) {
        atoll_api_fail(call, error);
        return;
    }
    atoll_session_get(session, &view);
    if (atoll_api_client_is_gone(call) && (!call->idempotency || leased)) {
        /* The client did not receive the id, so no client could delete the session. */
        atoll_sessions_destroy(call->api->config.sessions, view.id, ATOLL_REST_WHO_GONE,
                               atoll_rest_ignore, NULL);
        atoll_api_drop(call);
    } else {
        if (leased)
            atoll_api_lease(call, view.sandbox_id);
        atoll_rest_session_show_port(call, session);
        atoll_api_reply_init(&buf, &out);
        atoll_rest_session_view(&out, NULL, call, session);
        atoll_api_reply(call, 201, &out);
    }
}

/* Refuses unsupported fields with a message that names the alternative. */
static int check_offered(const struct session_fields *f, const char *template_name,
                         struct atoll_error *err)
{
    if (template_name)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a session uses the template of its environment; omit template");
    if (!f->environment)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "environment is missing: a name from GET /api/registry/environments");
    return 0;
}

#define AGENT_CONFIG_MAX ((size_t)64 * 1024)

/* Any object: it is the client's, and kept as it is. */
static int take_agent_config(struct create *c, const json_t *config, struct atoll_error *err)
{
    if (!config || json_is_null(config))
        return 0;
    if (!json_is_object(config))
        return atoll_fields_refuse(err, "", "agent_config", config, "an object");
    c->agent_config = atoll_json_dump(config, JSON_COMPACT);
    if (!c->agent_config)
        return atoll_fields_no_memory(err);
    if (strlen(c->agent_config) > AGENT_CONFIG_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "agent_config must be at most %zu KiB", AGENT_CONFIG_MAX / 1024);
    c->request.agent_config = c->agent_config;
    return 0;
}

static int parse_create(struct create *c, const uint8_t *bytes, size_t n, struct atoll_error *err)
{
    struct session_fields own = {0};
    struct atoll_rest_sandbox sandbox = {0};
    const struct atoll_field_set sets[] = {{session_fields, &own},
                                           {atoll_rest_sandbox_fields, &sandbox}};
    struct atoll_rest_session_files files = {0};
    int r = atoll_body_parse(&c->body, bytes, n, err);

    if (r == 0)
        r = atoll_fields_decode(&c->body, c->body.root, "", sets, ATOLL_ARRAY_LEN(sets), err);
    if (r == 0)
        r = check_offered(&own, sandbox.options.template_name, err);
    if (r == 0)
        r = atoll_rest_sandbox_check(&sandbox, &c->body, &c->request.sandbox, err);
    if (r == 0)
        r = atoll_rest_session_files_decode(own.files, &c->body, &files, err);
    if (r == 0)
        r = take_agent_config(c, own.agent_config, err);
    c->request.environment = own.environment;
    c->request.sandbox.owner = c->call->caller.tenant;
    c->request.files = files.files;
    c->request.file_count = files.count;
    return r;
}

void atoll_rest_session_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct create *c;
    struct atoll_error error;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    c = atoll_api_alloc(sizeof(*c));
    c->call = call;
    if (parse_create(c, bytes, n, &error) == 0) {
        atoll_sessions_create(call->api->config.sessions, &c->request, created, c);
        return;
    }
    create_free(c);
    atoll_api_fail(call, &error);
}

/* Get. */

void atoll_rest_session_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (call->ended) {
        atoll_rest_ended_session(call);
        return;
    }
    atoll_api_reply_init(&buf, &out);
    atoll_rest_session_view(&out, NULL, call,
                            atoll_sessions_find(call->api->config.sessions, call->params.session));
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_session_destroy(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                                size_t n ATOLL_UNUSED)
{
    const char *sandbox_id = atoll_http_query(call->req, "sandbox_id");
    struct atoll_error error;
    int r = 0;

    if (sandbox_id && strcmp(sandbox_id, call->params.id) != 0)
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "?sandbox_id= is not the sandbox of this session; omit it");
    if (r == 0)
        r = atoll_rest_artifacts_want(call, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_sessions_destroy(call->api->config.sessions, call->params.session, ATOLL_REST_WHO,
                               atoll_rest_done, call);
}
