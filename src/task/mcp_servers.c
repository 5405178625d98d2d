#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/json_memory.h"
#include "engine/network/secrets.h"
#include "network/placeholder.h"
#include "registry/places.h"
#include "store/secrets.h"
#include "task/connectors.h"
#include "task/mcp_config.h"
#include "task/oauth_internal.h"
#include "task/task_internal.h"

/*
 * MCP servers of a task: "mcpServers" of its request names connectors or defines servers. Before the agent runs,
 * they are written to a file in the sandbox, in the form that the agent reads. A header of a remote server whose
 * value names a secret stays outside, where a header rule of the sandbox's network can put it into requests: then
 * the file has PLACEHOLDER.
 */
#define PLACEHOLDER "kept-outside-by-atoll"
#define OUTSIDE "mcp_outside" /* fact: names of servers whose headers are put in outside */
#define GIVEN "_mcp"          /* fact: the sandbox and the attempt that have the file */
#define SERVERS_MAX 16
#define TEXT_MAX ((size_t)1024 * 1024)
#define PREPARE_MS 60000

struct atoll_store *atoll_tasks_store(const struct atoll_tasks *tasks)
{
    return tasks->config.store;
}

static const json_t *rule_of(const json_t *agent)
{
    return json_object_get(agent, "mcp");
}

bool atoll_task_has_mcp(const struct atoll_task *task)
{
    const json_t *given = atoll_task_object(task, "mcpServers");

    return json_object_size(given) + json_array_size(given) > 0;
}

/* --- definitions --- */

static bool is_listed(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* An array of names is an object whose members are the names themselves. */
static json_t *requested(const struct atoll_task *task)
{
    const json_t *given = atoll_task_object(task, "mcpServers");
    json_t *all = json_object();

    for (size_t i = 0; i < json_array_size(given); i++)
        (void)json_object_set(all, json_string_value(json_array_get(given, i)),
                              json_array_get(given, i));
    if (json_is_object(given))
        (void)json_object_update(all, (json_t *)(uintptr_t)given);
    return all;
}

/* The access token of a connector with OAuth is a secret like others; "oauth" becomes the connector's name. */
static void apply_oauth(const char *connector, json_t *definition)
{
    json_t *headers = json_object_get(definition, "headers");

    if (!json_object_get(definition, "oauth"))
        return;
    if (!headers) {
        headers = json_object();
        (void)json_object_set_new(definition, "headers", headers);
    }
    (void)json_object_set_new(headers, "Authorization",
                              json_sprintf("Bearer ${secret." ATOLL_OAUTH_SECRET "%s}", connector));
    (void)json_object_set_new(definition, "oauth", json_string(connector));
}

/* The definitions, with the connectors that are named; their values are not complete yet. Owned by the caller. */
static int find_servers(const struct atoll_task *task, json_t **ret, struct atoll_error *err)
{
    json_t *asked = requested(task), *all = json_object(), *value;
    const char *name;
    int r = 0;

    json_object_foreach(asked, name, value)
    {
        struct atoll_connector_view view;
        json_t *definition = NULL;

        if (r == 0 && json_is_string(value))
            r = atoll_connectors_find(task->tasks->config.store, task->tenant,
                                      json_string_value(value), &view, &definition, err);
        if (r == 0 && definition)
            apply_oauth(json_string_value(value), definition);
        if (r == 0)
            (void)json_object_set_new(all, name, definition ? definition : json_incref(value));
    }
    json_decref(asked);
    if (r < 0) {
        json_decref(all);
        return r;
    }
    *ret = all;
    return 0;
}

/* --- secrets --- */

static bool get_secret(void *arg, const char *name, struct atoll_buf *out)
{
    return atoll_task_key_value(arg, name, out);
}

/* The object of texts with the values of secrets in place. */
static int fill_map(const struct atoll_task *task, const char *server, json_t *map,
                    struct atoll_error *err)
{
    return atoll_connector_fill(server, map, get_secret, (void *)(uintptr_t)task, err);
}

static bool names_secret(const json_t *map)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *key, *end;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        if (atoll_placeholder_find(json_string_value(value), &end, name))
            return true;
    }
    return false;
}

/* --- at the start of a task --- */

/* An access token stays outside of the sandbox: it is renewed there. */
static int needs_outside(const char *server, struct atoll_error *err)
{
    return atoll_fail(
        err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
        "the MCP server %.64s has oauth: it needs a new sandbox of the provider native "
        "with the network \"bridge\", no \"keys\": \"environment\", and no other server "
        "of its host with credentials",
        server);
}

/* Whether a token for the server can be had, and can be used. */
static int check_oauth(const struct atoll_task *task, const char *server, const char *connector,
                       struct atoll_error *err)
{
    const char *keys = atoll_task_text(task, "keys");
    struct atoll_connector_view view;
    struct atoll_oauth_view token;
    json_t *definition = NULL;
    int r;

    if (atoll_task_text(task, "sandboxId") || (keys && strcmp(keys, "environment") == 0))
        return needs_outside(server, err);
    r = atoll_connectors_find(task->tasks->config.store, task->tenant, connector, &view,
                              &definition, err);
    if (r == 0) {
        atoll_oauth_look(task->tasks->oauth, task->tenant, connector, definition, &token);
        if (strcmp(token.state, "login") == 0)
            r = atoll_oauth_no_login(connector, err);
    }
    json_decref(definition);
    return r;
}

int atoll_task_mcp_oauth(const struct atoll_task *task, json_t **ret, struct atoll_error *err)
{
    json_t *servers = NULL, *names = json_array(), *server;
    const char *name;
    int r = atoll_task_has_mcp(task) ? find_servers(task, &servers, err) : 0;

    json_object_foreach(servers, name, server)
    {
        if (json_object_get(server, "oauth"))
            (void)json_array_append(names, json_object_get(server, "oauth"));
    }
    json_decref(servers);
    if (r < 0)
        json_decref(names);
    else
        *ret = names;
    return r;
}

int atoll_task_mcp_check(const struct atoll_task *task, const json_t *agent,
                         struct atoll_error *err)
{
    json_t *servers = NULL, *server, *copy;
    const char *name;
    int r = 0;

    if (!atoll_task_has_mcp(task))
        return 0;
    if (!rule_of(agent))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "the agent %.64s takes no MCP servers: its file in the registry has no "
                          "\"mcp\"",
                          atoll_task_fact(task, "agent"));
    r = find_servers(task, &servers, err);
    if (r == 0 && json_object_size(servers) > SERVERS_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "a task has at most %d mcpServers",
                       SERVERS_MAX);
    json_object_foreach(servers, name, server)
    {
        const char *connector = json_string_value(json_object_get(server, "oauth"));

        copy = json_deep_copy(server);
        if (r == 0 && connector)
            r = check_oauth(task, name, connector, err);
        if (connector) /* its secret comes later */
            (void)json_object_del(json_object_get(copy, "headers"), "Authorization");
        if (r == 0)
            r = fill_map(task, name, json_object_get(copy, "env"), err);
        if (r == 0)
            r = fill_map(task, name, json_object_get(copy, "headers"), err);
        json_decref(copy);
    }
    json_decref(servers);
    return r;
}

/* --- the network --- */

/* The host of an https URL without a port; false: header rules do not reach it. */
static bool host_of(const char *url, bool *ret_rules, char out[static ATOLL_TASK_HOST_MAX])
{
    bool https = strncmp(url, "https://", 8) == 0;
    const char *host = url + (https ? 8 : 7);
    size_t all = strcspn(host, "/?#"), n = strcspn(host, ":/?#");

    if (*host == '[' || n == 0 || n >= ATOLL_TASK_HOST_MAX)
        return false;
    memcpy(out, host, n);
    out[n] = '\0';
    *ret_rules = https && (n == all || strncmp(host + n, ":443", all - n) == 0);
    return true;
}

int atoll_task_mcp_hosts(const struct atoll_task *task, json_t *allow, struct atoll_error *err)
{
    char host[ATOLL_TASK_HOST_MAX];
    json_t *servers = NULL, *server;
    const char *name, *url;
    bool rules;
    int r = find_servers(task, &servers, err);

    json_object_foreach(servers, name, server)
    {
        url = json_string_value(json_object_get(server, "url"));
        if (url && host_of(url, &rules, host))
            (void)json_array_append_new(allow, json_string(host));
    }
    json_decref(servers);
    return r;
}

/* Adds a header rule for the server if that can be. */
static void add_rule(const char *name, const json_t *server, json_t *network, json_t *outside)
{
    const char *url = json_string_value(json_object_get(server, "url"));
    json_t *headers = json_object_get(server, "headers"), *transforms;
    char host[ATOLL_TASK_HOST_MAX];
    bool rules = false;

    transforms = json_object_get(network, "transforms");
    if (!url || !names_secret(headers) || !host_of(url, &rules, host) || !rules ||
        atoll_task_has_rule(transforms, host))
        return;
    if (!transforms) {
        transforms = json_array();
        (void)json_object_set_new(network, "transforms", transforms);
    }
    (void)json_array_append_new(transforms,
                                json_pack("{s:s, s:O}", "domain", host, "headers", headers));
    (void)json_array_append_new(outside, json_string(name));
}

int atoll_task_mcp_plan(struct atoll_task *task, json_t *sandbox, struct atoll_error *err)
{
    const char *wanted = atoll_task_text(task, "keys");
    json_t *network =
        wanted && strcmp(wanted, "environment") == 0 ? NULL : atoll_task_network(sandbox);
    json_t *servers = NULL, *server, *outside = json_array(), *tokens = json_array();
    const char *name;
    int r = find_servers(task, &servers, err);

    json_object_foreach(servers, name, server)
    {
        if (network)
            add_rule(name, server, network, outside);
        if (json_object_get(server, "oauth"))
            (void)json_array_append(tokens, json_object_get(server, "oauth"));
        if (r == 0 && json_object_get(server, "oauth") && !is_listed(outside, name))
            r = needs_outside(name, err);
    }
    (void)json_object_del(task->facts, OUTSIDE);
    (void)json_object_del(task->facts, ATOLL_TASK_OAUTH);
    if (r == 0 && json_array_size(outside) > 0)
        atoll_task_note(task, OUTSIDE, json_incref(outside));
    if (r == 0 && json_array_size(tokens) > 0)
        atoll_task_note(task, ATOLL_TASK_OAUTH, json_incref(tokens));
    json_decref(servers);
    json_decref(outside);
    json_decref(tokens);
    return r;
}

/* --- the file --- */

/* A command in a directory of its own, for programs that know no "cwd". */
static void apply_cwd(json_t *server)
{
    json_t *cwd = json_object_get(server, "cwd"), *args;

    if (!cwd)
        return;
    args = json_pack("[s, s, O, O]", "-c", "cd \"$0\" && exec \"$@\"", cwd,
                     json_object_get(server, "command"));
    (void)json_array_extend(args, json_object_get(server, "args"));
    (void)json_object_set_new(server, "args", args);
    (void)json_object_set_new(server, "command", json_string("/bin/sh"));
    (void)json_object_del(server, "cwd");
}

static void hide_headers(json_t *headers)
{
    char secret[ATOLL_SECRET_NAME_MAX + 1];
    const char *name, *end;
    json_t *value;

    json_object_foreach(headers, name, value)
    {
        if (atoll_placeholder_find(json_string_value(value), &end, secret))
            (void)json_object_set_new(headers, name, json_string(PLACEHOLDER));
    }
}

/* All servers with all their values, as far as these belong into the sandbox. */
static int complete(const struct atoll_task *task, json_t **ret, struct atoll_error *err)
{
    const json_t *outside = json_object_get(task->facts, OUTSIDE);
    json_t *servers = NULL, *all, *server;
    const char *name;
    int r = find_servers(task, &servers, err);

    all = r == 0 ? json_deep_copy(servers) : NULL;
    json_decref(servers);
    json_object_foreach(all, name, server)
    {
        if (is_listed(outside, name))
            hide_headers(json_object_get(server, "headers"));
        else if (r == 0 && json_object_get(server, "oauth"))
            r = needs_outside(name, err);
        (void)json_object_del(server, "oauth");
        if (r == 0)
            r = fill_map(task, name, json_object_get(server, "env"), err);
        if (r == 0)
            r = fill_map(task, name, json_object_get(server, "headers"), err);
        apply_cwd(server);
    }
    if (r < 0)
        json_decref(all);
    else
        *ret = all;
    return r;
}

void atoll_task_mcp_forget(struct atoll_task *task)
{
    if (task->mcp_text)
        explicit_bzero(task->mcp_text, strlen(task->mcp_text));
    free(task->mcp_text);
    task->mcp_text = NULL;
}

#define PLACE_MAX (ATOLL_ID_LEN + 16)

static const char *place_of(const struct atoll_task *task, char out[static PLACE_MAX])
{
    (void)snprintf(out, PLACE_MAX, "%.32s.%u", atoll_task_fact(task, "sandbox_id"), task->attempt);
    return out;
}

static void given(struct atoll_task *task)
{
    char place[PLACE_MAX];
    struct atoll_error error;

    atoll_task_note(task, GIVEN, json_string(place_of(task, place)));
    if (atoll_task_store(task, &error) < 0)
        atoll_task_step_done(task, &error);
    else
        task->next(task);
}

static void prepared(struct atoll_task *task, const struct atoll_exec_result *result,
                     const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;

    if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD,
                         "the MCP servers could not be given to the agent: %.300s", tail);
        error = &failed;
    }
    if (error)
        atoll_task_step_done(task, error);
    else
        given(task);
}

static void written(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    const json_t *agent = NULL;
    const char *argv[] = {"/bin/sh", "-ec", NULL, ATOLL_TASK_MCP_FILE, NULL};
    struct atoll_task_agent found;
    struct atoll_error failed;

    atoll_task_mcp_forget(task);
    if (!error && atoll_task_agent_find(task->tasks, task->request, &found, &failed) < 0)
        error = &failed;
    if (error) {
        atoll_task_step_done(task, error);
        return;
    }
    agent = found.object;
    argv[2] = json_string_value(json_object_get(rule_of(agent), "prepare"));
    if (argv[2])
        atoll_task_command_run(task, &(struct atoll_task_command_request){.name = "mcp",
                                                                          .argv = argv,
                                                                          .timeout_ms = PREPARE_MS,
                                                                          .quiet = true,
                                                                          .done = prepared});
    else
        given(task);
}

static int make_text(struct atoll_task *task, struct atoll_error *err)
{
    struct atoll_task_agent agent;
    struct atoll_buf out;
    json_t *servers = NULL;
    int r = atoll_task_agent_find(task->tasks, task->request, &agent, err);
    const char *form =
        r == 0 ? json_string_value(json_object_get(rule_of(agent.object), "form")) : NULL;

    if (r == 0 && !form)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                       "the agent takes no MCP servers any more");
    if (r == 0)
        r = complete(task, &servers, err);
    if (r < 0)
        return r;
    atoll_buf_init_erasing(&out, TEXT_MAX);
    r = atoll_mcp_config_write(form, servers, &out);
    task->mcp_text = r == 0 ? strdup(atoll_buf_str(&out)) : NULL;
    atoll_buf_done(&out);
    json_decref(servers);
    return task->mcp_text ? 0
                          : atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EFBIG,
                                       "the definitions of the MCP servers are too long");
}

static void write_file(struct atoll_task *task)
{
    struct atoll_error error;

    if (make_text(task, &error) < 0) {
        atoll_task_step_done(task, &error);
        return;
    }
    atoll_files_put(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), NULL,
                    ATOLL_TASK_MCP_FILE, 0600, task->mcp_text, strlen(task->mcp_text), written,
                    task);
}

void atoll_task_mcp_give(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    char place[PLACE_MAX];

    /* With the fact, an earlier daemon has written it. */
    if (!atoll_task_has_mcp(task) ||
        strcmp(atoll_task_fact(task, GIVEN), place_of(task, place)) == 0) {
        atoll_oauth_tend(task->tasks->oauth);
        next(task);
        return;
    }
    task->next = next;
    atoll_task_oauth_wait(task, write_file);
}

struct atoll_oauth *atoll_tasks_oauth(const struct atoll_tasks *tasks)
{
    return tasks->oauth;
}
