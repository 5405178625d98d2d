#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "engine/network/secrets.h"
#include "store/secrets.h"
#include "task/task_internal.h"

/*
 * Keys of agents for their models. A key is a secret of the tenant, or, for the operator's own tenant, a
 * variable of the daemon. Where the sandbox has a network, the key stays outside: a header rule of its
 * policy puts it into requests to the server that the key is for, and the agent gets PLACEHOLDER.
 */
#define PLACEHOLDER "kept-outside-by-atoll"
#define FROM_ENVIRONMENT "{\"source\":\"environment of the daemon\"}"

/* How a server wants a key. */
struct rule {
    const char *name, *domain, *header, *before;
};

/* Of keys that many agents use; an agent's "keyServers" has others. */
static const struct rule rules[] = {
    {"ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key", ""},
    {"CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "Authorization", "Bearer "},
    {"OPENAI_API_KEY", "api.openai.com", "Authorization", "Bearer "},
    {"GEMINI_API_KEY", "generativelanguage.googleapis.com", "x-goog-api-key", ""},
    {"AI_GATEWAY_API_KEY", "ai-gateway.vercel.sh", "Authorization", "Bearer "},
    {"GITHUB_TOKEN", "api.github.com", "Authorization", "Bearer "},
};

static bool find_rule(const json_t *agent, const char *name, struct rule *ret)
{
    const json_t *own = json_object_get(json_object_get(agent, "keyServers"), name);
    const char *before = json_string_value(json_object_get(own, "before"));

    if (own) {
        *ret =
            (struct rule){name, json_string_value(json_object_get(own, "host")),
                          json_string_value(json_object_get(own, "header")), before ? before : ""};
        return true;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rules); i++)
        if (strcmp(rules[i].name, name) == 0) {
            *ret = rules[i];
            return true;
        }
    return false;
}

static const char *daemon_variable(const struct atoll_task *task, const char *name)
{
    const char *own = strcmp(task->tenant, ATOLL_OPERATOR_TENANT) == 0 ? getenv(name) : NULL;

    return own && *own ? own : NULL;
}

bool atoll_task_key_value(const struct atoll_task *task, const char *name, struct atoll_buf *out)
{
    const char *own;
    struct atoll_error error;

    if (atoll_store_secret_value(task->tasks->config.store, task->tenant, name, out, &error) == 0)
        return true;
    atoll_buf_clear(out);
    own = daemon_variable(task, name);
    return own && atoll_buf_appends(out, own) == 0;
}

/* --- header rules --- */

static bool is_secret(const struct atoll_task *task, const char *name)
{
    struct atoll_secret_view view;
    struct atoll_error error;

    return atoll_secrets_find(task->tasks->config.secrets, task->tenant, name, &view, &error) == 0;
}

/* Header rules name secrets: a variable of the daemon becomes one, or a new version of it. */
static int store_variable(const struct atoll_task *task, const char *name, struct atoll_error *err)
{
    const char *own = daemon_variable(task, name);
    struct atoll_secrets *secrets = task->tasks->config.secrets;
    struct atoll_secret_view view;
    struct atoll_error error;

    if (!own || (atoll_secrets_find(secrets, task->tenant, name, &view, &error) == 0 &&
                 (!view.metadata_json || strcmp(view.metadata_json, FROM_ENVIRONMENT) != 0)))
        return 0;
    return ATOLL_MIN(0, atoll_secrets_put(secrets,
                                          &(struct atoll_secret_request){
                                              .tenant = task->tenant,
                                              .name = name,
                                              .value = own,
                                              .value_len = strlen(own),
                                              .metadata_json = FROM_ENVIRONMENT,
                                              .how = ATOLL_SECRET_REPLACE,
                                          },
                                          &view, err));
}

bool atoll_task_has_rule(const json_t *transforms, const char *domain)
{
    for (size_t i = 0; i < json_array_size(transforms); i++) {
        const char *given =
            json_string_value(json_object_get(json_array_get(transforms, i), "domain"));
        if (given && strcmp(given, domain) == 0)
            return true;
    }
    return false;
}

static void add_rule(json_t *transforms, const struct rule *rule)
{
    json_t *value = json_sprintf("%s${secret.%s}", rule->before, rule->name);

    (void)json_array_append_new(transforms, json_pack("{s:s, s:{s:o}}", "domain", rule->domain,
                                                      "headers", rule->header, value));
}

/* The first variable that names a server, such as OPENAI_BASE_URL; NULL: none. */
static const char *server_variable(const json_t *env)
{
    static const char *const ends[] = {"_BASE_URL", "_API_BASE", "_HOST"};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)env, name, value)
    {
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(ends); i++) {
            size_t n = strlen(name), k = strlen(ends[i]);
            if (n > k && strcmp(name + n - k, ends[i]) == 0)
                return name;
        }
    }
    return NULL;
}

/* A task may send requests elsewhere: then the rules would not reach them. */
static bool has_other_server(const struct atoll_task *task)
{
    return server_variable(atoll_task_object(task, "env")) != NULL;
}

json_t *atoll_task_network(json_t *sandbox)
{
    const char *mode = json_string_value(json_object_get(sandbox, "networkMode"));
    const char *provider = json_string_value(json_object_get(sandbox, "provider"));
    json_t *network = json_object_get(sandbox, "network");

    if (provider && strcmp(provider, "auto") != 0 && strcmp(provider, "native") != 0)
        return NULL;
    if (!network && mode && strcmp(mode, "bridge") == 0) {
        network = json_pack("{s:s}", "mode", "bridge");
        (void)json_object_set_new(sandbox, "network", network);
        (void)json_object_del(sandbox, "networkMode");
    }
    mode = json_string_value(json_object_get(network, "mode"));
    return json_is_object(network) && (!mode || strcmp(mode, "bridge") == 0) ? network : NULL;
}

static bool is_listed(const json_t *names, const char *name)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
            return true;
    return false;
}

/* Adds a rule for each key of the agent; one key for a server. */
static int add_rules(struct atoll_task *task, const json_t *agent, json_t *network,
                     struct atoll_error *err)
{
    json_t *outside = json_array(), *transforms = json_object_get(network, "transforms");
    const json_t *keys = json_object_get(agent, "keys");
    struct rule rule;
    int r = 0;

    transforms = transforms ? json_incref(transforms) : json_array();
    for (size_t i = 0; r == 0 && i < json_array_size(keys); i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        if (!find_rule(agent, name, &rule) ||
            json_object_get(atoll_task_object(task, "env"), name) ||
            atoll_task_has_rule(transforms, rule.domain))
            continue;
        r = store_variable(task, name, err);
        if (r < 0 || !is_secret(task, name))
            continue;
        add_rule(transforms, &rule);
        (void)json_array_append_new(outside, json_string(name));
    }
    if (r == 0 && json_array_size(outside) > 0) {
        (void)json_object_set(network, "transforms", transforms);
        atoll_task_note(task, "keys_outside", json_incref(outside));
    }
    json_decref(transforms);
    json_decref(outside);
    return r;
}

static bool wants_egress(const struct atoll_task *task)
{
    const char *wanted = atoll_task_text(task, "keys");

    return wanted && strcmp(wanted, "egress") == 0;
}

/* Variables that would bring a key inside, or requests to another server. */
static int check_variables(const json_t *env, const json_t *keys, struct atoll_error *err)
{
    const char *other = server_variable(env);

    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        if (json_object_get(env, name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "\"keys\": \"egress\" keeps keys outside of the sandbox, but "
                              "\"env\" has %.100s: store it with `atoll secret create %.100s` and "
                              "leave it out of \"env\"",
                              name, name);
    }
    return other ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "\"keys\": \"egress\" puts keys into requests to their own servers, "
                              "but \"env\" names another one by %.100s: leave it out, or give "
                              "\"keys\": \"environment\"",
                              other)
                 : 0;
}

int atoll_task_keys_check(const struct atoll_task *task, const json_t *agent,
                          struct atoll_error *err)
{
    const json_t *keys = json_object_get(agent, "keys");
    const json_t *sandbox = atoll_task_object(task, "sandbox");
    struct rule rule;

    if (!wants_egress(task) || json_array_size(keys) == 0)
        return 0;
    if (atoll_task_text(task, "sandboxId"))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "\"keys\": \"egress\" needs a new sandbox, whose network gets header "
                          "rules: leave \"sandboxId\" out, or give \"keys\": \"environment\"");
    if (check_variables(atoll_task_object(task, "env"), keys, err) < 0 ||
        check_variables(json_object_get(sandbox, "env"), keys, err) < 0)
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *name = json_string_value(json_array_get(keys, i));
        if (!find_rule(agent, name, &rule) &&
            (is_secret(task, name) || daemon_variable(task, name)))
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                              "\"keys\": \"egress\" cannot keep %.100s outside: it is not known "
                              "which server wants it in which header; \"keyServers\" of the agent "
                              "in the registry says so, and \"keys\": \"environment\" gives it to "
                              "the agent",
                              name);
    }
    return 0;
}

int atoll_task_keys_plan(struct atoll_task *task, const json_t *agent, json_t *sandbox,
                         struct atoll_error *err)
{
    const char *wanted = atoll_task_text(task, "keys");
    json_t *network;

    (void)json_object_del(task->facts, "keys_outside"); /* of an earlier sandbox */
    if (json_array_size(json_object_get(agent, "keys")) == 0 ||
        (wanted ? strcmp(wanted, "environment") == 0 : has_other_server(task)))
        return 0;
    if (atoll_task_keys_check(task, agent, err) < 0)
        return -EINVAL;
    network = atoll_task_network(sandbox);
    if (!network && wanted)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "\"keys\": \"egress\" needs a sandbox of the provider native with the "
                          "network \"bridge\"; \"environment\" gives the keys to the agent");
    return network ? add_rules(task, agent, network, err) : 0;
}

/* --- variables --- */

/* Whether another key for the same server is in use: this one would only confuse the agent. */
static bool has_another(const json_t *agent, const json_t *outside, const char *name)
{
    struct rule rule, other;

    for (size_t i = 0; find_rule(agent, name, &rule) && i < json_array_size(outside); i++)
        if (find_rule(agent, json_string_value(json_array_get(outside, i)), &other) &&
            strcmp(rule.domain, other.domain) == 0)
            return true;
    return false;
}

/* 1: the agent gets it, or something in its place; 0: there is no such key. */
int atoll_task_key_variable(const struct atoll_task *task, const json_t *agent, const char *name,
                            struct atoll_buf *out)
{
    const json_t *outside = json_object_get(task->facts, "keys_outside");
    bool found;

    if (json_object_get(atoll_task_object(task, "env"), name))
        return 1;
    if (is_listed(outside, name))
        return atoll_buf_appends(out, PLACEHOLDER) < 0 ? -ENOMEM : 1;
    if (has_another(agent, outside, name))
        return 0;
    found = atoll_task_key_value(task, name, out);
    if (found && wants_egress(task)) { /* the request's own header rules, or none: never the key */
        atoll_buf_clear(out);
        return atoll_buf_appends(out, PLACEHOLDER) < 0 ? -ENOMEM : 1;
    }
    return found;
}
