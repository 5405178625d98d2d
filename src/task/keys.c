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

/* How servers want their keys. */
static const struct {
    const char *name, *domain, *header, *before;
} rules[] = {
    {"ANTHROPIC_API_KEY", "api.anthropic.com", "x-api-key", ""},
    {"CLAUDE_CODE_OAUTH_TOKEN", "api.anthropic.com", "Authorization", "Bearer "},
    {"OPENAI_API_KEY", "api.openai.com", "Authorization", "Bearer "},
    {"GEMINI_API_KEY", "generativelanguage.googleapis.com", "x-goog-api-key", ""},
    {"AI_GATEWAY_API_KEY", "ai-gateway.vercel.sh", "Authorization", "Bearer "},
    {"GITHUB_TOKEN", "api.github.com", "Authorization", "Bearer "},
};

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

static void add_rule(json_t *transforms, size_t i)
{
    json_t *value = json_sprintf("%s${secret.%s}", rules[i].before, rules[i].name);

    (void)json_array_append_new(transforms, json_pack("{s:s, s:{s:o}}", "domain", rules[i].domain,
                                                      "headers", rules[i].header, value));
}

/* A task may send requests elsewhere: then the rules would not reach them. */
static bool has_other_server(const struct atoll_task *task)
{
    static const char *const ends[] = {"_BASE_URL", "_API_BASE", "_HOST"};
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)atoll_task_object(task, "env"), name, value)
    {
        for (size_t i = 0; i < ATOLL_ARRAY_LEN(ends); i++) {
            size_t n = strlen(name), k = strlen(ends[i]);
            if (n > k && strcmp(name + n - k, ends[i]) == 0)
                return true;
        }
    }
    return false;
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
    int r = 0;

    transforms = transforms ? json_incref(transforms) : json_array();
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(rules); i++) {
        const char *name = rules[i].name;
        if (!is_listed(json_object_get(agent, "keys"), name) ||
            json_object_get(atoll_task_object(task, "env"), name) ||
            atoll_task_has_rule(transforms, rules[i].domain))
            continue;
        r = store_variable(task, name, err);
        if (r < 0 || !is_secret(task, name))
            continue;
        add_rule(transforms, i);
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

int atoll_task_keys_plan(struct atoll_task *task, const json_t *agent, json_t *sandbox,
                         struct atoll_error *err)
{
    const char *wanted = atoll_task_text(task, "keys");
    json_t *network;

    if (json_array_size(json_object_get(agent, "keys")) == 0 ||
        (wanted ? strcmp(wanted, "environment") == 0 : has_other_server(task)))
        return 0;
    network = atoll_task_network(sandbox);
    if (!network && wanted)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "\"keys\": \"egress\" needs a sandbox of the provider native with the "
                          "network \"bridge\"; \"environment\" gives the keys to the agent");
    return network ? add_rules(task, agent, network, err) : 0;
}

/* --- variables --- */

/* 1: the agent gets it, or something in its place; 0: there is no such key. */
int atoll_task_key_variable(const struct atoll_task *task, const char *name, struct atoll_buf *out)
{
    const json_t *outside = json_object_get(task->facts, "keys_outside");

    if (json_object_get(atoll_task_object(task, "env"), name))
        return 1;
    if (is_listed(outside, name))
        return atoll_buf_appends(out, PLACEHOLDER) < 0 ? -ENOMEM : 1;
    /* Another key for the same server is in use: this one would only confuse the agent. */
    for (size_t i = 0; json_array_size(outside) > 0 && i < ATOLL_ARRAY_LEN(rules); i++)
        for (size_t k = 0; strcmp(rules[i].name, name) == 0 && k < ATOLL_ARRAY_LEN(rules); k++)
            if (k != i && strcmp(rules[i].domain, rules[k].domain) == 0 &&
                is_listed(outside, rules[k].name))
                return 0;
    return atoll_task_key_value(task, name, out);
}
