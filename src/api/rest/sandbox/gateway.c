/*
 * MCP servers in a sandbox, behind one endpoint: the program mcp-gateway of the sandbox starts them and serves them
 * on a port, which becomes a preview. The configuration, which may have credentials, goes in through standard input.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/kit/collect.h"
#include "api/kit/origin.h"
#include "api/preview.h"
#include "api/rest/rest_internal.h"
#include "api/rest/views.h"
#include "base/rand.h"
#include "engine/json_memory.h"
#include "registry/environment_create.h"
#include "task/connectors.h"

#define PORT 50005 /* as E2B's clients expect it */
#define ENVIRONMENT "mcp-gateway"
#define START_MS (15 * 60 * 1000) /* servers may have to be installed */
#define SERVERS_MAX 32
#define TOKEN_BYTES 16

struct start {
    struct atoll_api_call *call;
    char sandbox_id[ATOLL_ID_LEN + 1], exec_id[33];
    char token[2 * TOKEN_BYTES + 1];
    struct atoll_buf config; /* what the program reads */
    struct atoll_collect collect;
    bool made; /* the sandbox is for this request: it ends if the gateway does not start */
};

static void start_free(struct start *s)
{
    atoll_collect_done(&s->collect);
    atoll_buf_wipe(&s->config);
    explicit_bzero(s->token, sizeof(s->token));
    free(s);
}

/* --- the configuration --- */

/* A text names a connector; its secrets and those of objects are put in. */
static int resolve(struct atoll_api_call *call, const char *name, const json_t *given, json_t **ret,
                   struct atoll_error *err)
{
    struct atoll_store *store = atoll_tasks_store(call->api->config.tasks);
    struct atoll_connector_view view;
    json_t *definition = NULL;
    int r = 0;

    if (json_is_string(given))
        r = atoll_connectors_find(store, call->caller.tenant, json_string_value(given), &view,
                                  &definition, err);
    else if (json_is_object(given))
        definition = json_deep_copy(given);
    else
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "the server %.64s must be an object, or the name of a connector", name);
    if (r == 0 && json_object_get(definition, "url"))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "the server %.64s is not in the sandbox: give its URL to the client", name);
    if (r == 0)
        (void)json_object_del(definition, "type");
    if (r == 0)
        r = atoll_connectors_fill(store, call->caller.tenant, name,
                                  json_object_get(definition, "env"), err);
    if (r < 0)
        json_decref(definition);
    else
        *ret = definition;
    return r;
}

/* An array names connectors. */
static int make_config(struct atoll_api_call *call, const json_t *given, struct atoll_buf *out,
                       struct atoll_error *err)
{
    json_t *all = json_object(), *asked = json_object(), *value, *one;
    const char *name;
    char *text = NULL;
    int r = 0;

    for (size_t i = 0; i < json_array_size(given); i++)
        if (json_object_set(asked,
                            json_is_string(json_array_get(given, i))
                                ? json_string_value(json_array_get(given, i))
                                : "?",
                            json_array_get(given, i)) < 0)
            r = atoll_fail_errno(err, ENOMEM, "a configuration");
    if (json_is_object(given))
        (void)json_object_update(asked, (json_t *)(uintptr_t)given);
    if (json_object_size(asked) == 0 || json_object_size(asked) > SERVERS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "give 1 to %d MCP servers: an object of servers by name, or a list of "
                       "connectors",
                       SERVERS_MAX);
    json_object_foreach(asked, name, value)
    {
        if (r == 0 && (r = resolve(call, name, value, &one, err)) == 0)
            (void)json_object_set_new(all, name, one);
    }
    text = r == 0 ? atoll_json_dump(all, JSON_COMPACT) : NULL;
    if (r == 0 && (!text || atoll_buf_appends(out, text) < 0))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                       "the definitions of the servers are too long");
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    json_decref(all);
    json_decref(asked);
    return r;
}

/* --- the end --- */

static void fail(struct start *s, const struct atoll_error *error)
{
    struct atoll_api_call *call = s->call;

    if (s->made)
        atoll_engine_destroy(call->engine, s->sandbox_id, "a gateway that did not start",
                             atoll_rest_ignore, NULL);
    start_free(s);
    if (atoll_api_client_is_gone(call))
        atoll_api_drop(call);
    else
        atoll_api_fail(call, error);
}

/* What did not start, line by line: "mcp-gateway: NAME: why". */
static void write_problems(struct atoll_json_out *out, const struct atoll_buf *said)
{
    static const char prefix[] = "mcp-gateway: ";
    const char *text = (const char *)atoll_buf_head(said);
    size_t left = atoll_buf_size(said);

    atoll_json_open(out, "problems", '[');
    while (left > 0) {
        const char *end = memchr(text, '\n', left);
        size_t n = end ? (size_t)(end - text) : left;
        size_t skip = n > sizeof(prefix) && memcmp(text, prefix, sizeof(prefix) - 1) == 0
                          ? sizeof(prefix) - 1
                          : 0;
        if (n > skip)
            atoll_json_bytes(out, NULL, text + skip, n - skip);
        left -= n + (end != NULL);
        text += n + (end != NULL);
    }
    atoll_json_close(out, ']');
}

static void write_gateway(struct atoll_json_out *out, const char *key, const struct start *s,
                          const struct atoll_preview_view *view)
{
    char origin[ATOLL_ORIGIN_MAX], path[ATOLL_PREVIEW_URL_MAX],
        url[ATOLL_ORIGIN_MAX + ATOLL_PREVIEW_URL_MAX + 64];

    atoll_origin(s->call->api, s->call->req, origin);
    atoll_preview_path_url(view, path);
    (void)snprintf(url, sizeof(url), "%s%smcp?key=%s", origin, path, s->token);
    atoll_json_open(out, key, '{');
    atoll_json_text(out, "url", url);
    atoll_json_text(out, "token", s->token);
    write_problems(out, &s->collect.streams[ATOLL_STREAM_STDERR]);
    atoll_json_close(out, '}');
}

static void reply(struct start *s, const struct atoll_preview_view *view)
{
    struct atoll_api_call *call = s->call;
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, s->sandbox_id);
    struct atoll_json_out out;
    struct atoll_buf buf;

    atoll_api_reply_init(&buf, &out);
    if (s->made && sandbox)
        atoll_view_sandbox_open(&out, NULL, sandbox);
    write_gateway(&out, s->made && sandbox ? "mcp" : NULL, s, view);
    if (s->made && sandbox)
        atoll_json_close(&out, '}');
    start_free(s);
    atoll_api_reply(call, 201, &out);
}

static void ended(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error)
{
    struct start *s = arg;
    struct atoll_previews *previews = atoll_api_previews(s->call->api);
    struct atoll_preview_view view;
    struct atoll_error failed;
    struct atoll_buf *said = &s->collect.streams[ATOLL_STREAM_STDERR];

    if (!error && result->kind == ATOLL_END_EXITED && result->code == 127)
        (void)atoll_fail(
            &failed, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
            "the sandbox has no program mcp-gateway: make it from the environment " ENVIRONMENT
            " or a template that has the program");
    else if (!error && (result->kind != ATOLL_END_EXITED || result->code != 0))
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                         "the MCP gateway did not start (%s): %.300s",
                         atoll_end_kind_name(result->kind), atoll_buf_str(said));
    else if (!error && !previews)
        (void)atoll_fail(&failed, ATOLL_ERR_UNIMPLEMENTED, ENOSYS,
                         "previews are disabled in this daemon");
    else if (!error && atoll_previews_add(previews, s->sandbox_id, PORT, true, &view, &failed) == 0)
        failed.kind = ATOLL_ERR_NONE;
    if (error || failed.kind != ATOLL_ERR_NONE)
        fail(s, error ? error : &failed);
    else if (atoll_api_client_is_gone(s->call))
        fail(s, NULL);
    else
        reply(s, &view);
}

/* --- the command --- */

static void started(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    struct start *s = arg;

    if (error) {
        fail(s, error);
        return;
    }
    atoll_exec_feed(exec, atoll_buf_head(&s->config), atoll_buf_size(&s->config));
    atoll_collect_start(&s->collect, s->call->api->config.loop, exec, ended, s);
}

static void run(struct start *s)
{
    static const char *const argv[] = {"/bin/sh", "-c", "exec mcp-gateway --config -", NULL};
    char token[64];
    const char *const env[] = {token, NULL};

    (void)snprintf(token, sizeof(token), "GATEWAY_ACCESS_TOKEN=%s", s->token);
    atoll_engine_exec(
        s->call->engine, s->sandbox_id,
        &(struct atoll_exec_start){
            .argv = argv, .env = env, .user = "root", .timeout_ms = START_MS, .stdin_open = true},
        started, s);
    explicit_bzero(token, sizeof(token));
}

static struct start *start_new(struct atoll_api_call *call, const json_t *servers,
                               struct atoll_error *err)
{
    struct start *s = atoll_api_alloc(sizeof(*s));
    uint8_t bytes[TOKEN_BYTES];

    s->call = call;
    atoll_buf_init_erasing(&s->config, ATOLL_BODY_JSON);
    atoll_rand_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
    if (make_config(call, servers, &s->config, err) == 0)
        return s;
    start_free(s);
    return NULL;
}

static const struct atoll_field fields[] = {
    {"servers", ATOLL_FIELD_JSON, 0, 0, 0, NULL, 0},
    {0},
};

void atoll_rest_gateway_start(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    const json_t *servers = NULL;
    struct atoll_body body = {0};
    struct atoll_error error;
    struct start *s = NULL;

    if (atoll_body_decode(&body, bytes, n, fields, &servers, &error) == 0)
        s = start_new(call, servers, &error);
    atoll_body_done(&body);
    if (!s) {
        atoll_api_fail(call, &error);
        return;
    }
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%.*s", ATOLL_ID_LEN, call->params.id);
    run(s);
}

/* --- a sandbox with a gateway --- */

static void created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct start *s = arg;
    struct atoll_sandbox_view view;

    if (error) {
        fail(s, error);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    (void)snprintf(s->sandbox_id, sizeof(s->sandbox_id), "%.*s", ATOLL_ID_LEN, view.id);
    (void)snprintf(s->call->params.id, sizeof(s->call->params.id), "%s", view.id);
    s->made = true;
    run(s);
}

void atoll_rest_gateway_create(struct atoll_api_call *call, const struct atoll_options *options,
                               const json_t *servers)
{
    const struct atoll_registry *registry = atoll_sessions_registry(call->api->config.sessions);
    struct atoll_environment environment = {0};
    struct atoll_error error;
    struct start *s = start_new(call, servers, &error);
    int r = s ? 0 : -EINVAL;

    if (r == 0 && !options->template_name && !options->image)
        r = atoll_environment_find(registry, ENVIRONMENT, &environment, &error);
    if (r < 0 && s)
        start_free(s);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_environment_create(
            call->engine,
            &(struct atoll_environment_create){.environment = &environment, .sandbox = *options},
            created, s);
}
