/* Requests for tasks: what the fields must be. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "api/rest/task/tasks.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"
#include "guard/policy.h"
#include "task/connectors.h"

#define WEEK_S (7.0 * 24 * 3600)

struct repo {
    const char *url, *branch, *commit, *username, *password, *secret;
    uint32_t depth;
    bool upload;
};

#define AT(member) offsetof(struct repo, member)
static const struct atoll_field repo_fields[] = {
    {"url", ATOLL_FIELD_STRING, AT(url), 1, 2000, NULL, 0},
    {"branch", ATOLL_FIELD_STRING, AT(branch), 1, 200, NULL, 0},
    {"commit", ATOLL_FIELD_STRING, AT(commit), 1, 64, NULL, 0},
    {"username", ATOLL_FIELD_STRING, AT(username), 1, 255, NULL, 0},
    {"password", ATOLL_FIELD_STRING, AT(password), 1, 4096, NULL, 0},
    {"secret", ATOLL_FIELD_STRING, AT(secret), 1, 64, NULL, 0},
    {"depth", ATOLL_FIELD_U32, AT(depth), 1, 1e9, NULL, 0},
    {"upload", ATOLL_FIELD_BOOL, AT(upload), 0, 0, NULL, 0},
    {0},
};
#undef AT

struct commit {
    const char *message, *author_name, *author_email, *trailer;
};

#define AT(member) offsetof(struct commit, member)
static const struct atoll_field commit_fields[] = {
    {"message", ATOLL_FIELD_STRING, AT(message), 1, 16384, NULL, 0},
    {"authorName", ATOLL_FIELD_STRING, AT(author_name), 1, 200, NULL, 0},
    {"authorEmail", ATOLL_FIELD_STRING, AT(author_email), 1, 200, NULL, 0},
    {"trailer", ATOLL_FIELD_STRING, AT(trailer), 1, 1000, NULL, 0},
    {0},
};
#undef AT

struct request {
    const char *instruction, *agent, *agent_name, *model, *system_prompt, *resume;
    const char *environment, *sandbox_id, *branch, *setup, *check, *cleanup, *keys, *allowed_tools;
    const char *type, *provider;
    const json_t *sandbox, *repo, *timeout, *stall, *stall_cpu, *budget, *steps, *priority;
    const json_t *pull_request, *resources, *mcp_servers;
    const char *const *env, *const *patterns, *const *requirements;
    bool push, capture, capture_ignored, auto_cleanup;
    struct commit commit;
};

#define AT(member) offsetof(struct request, member)
#define TEXT(name, member, max)                               \
    {                                                         \
        name, ATOLL_FIELD_STRING, AT(member), 1, max, NULL, 0 \
    }
static const struct atoll_field fields[] = {
    TEXT("instruction", instruction, 131072),
    TEXT("agent", agent, 64),
    TEXT("agentName", agent_name, 200),
    TEXT("model", model, 200),
    TEXT("systemPrompt", system_prompt, 65536),
    TEXT("resume", resume, 200),
    TEXT("environment", environment, 64),
    TEXT("sandboxId", sandbox_id, 64),
    TEXT("branch", branch, 200),
    TEXT("setup", setup, 16384),
    TEXT("check", check, 16384),
    TEXT("cleanup", cleanup, 16),
    TEXT("keys", keys, 16),
    TEXT("type", type, 64),
    TEXT("provider", provider, 64),
    TEXT("allowedTools", allowed_tools, 4096),
    {"sandbox", ATOLL_FIELD_JSON, AT(sandbox), 0, 0, NULL, 0},
    {"repo", ATOLL_FIELD_JSON, AT(repo), 0, 0, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"mcpServers", ATOLL_FIELD_JSON, AT(mcp_servers), 0, 0, NULL, 0},
    /* The task adds some of its own. */
    {"capturePatterns", ATOLL_FIELD_STRINGS, AT(patterns), 0, ATOLL_ARTIFACTS_PATTERNS_MAX - 4,
     NULL, 0},
    {"captureIgnored", ATOLL_FIELD_BOOL, AT(capture_ignored), 0, 0, NULL, 0},
    {"captureFiles", ATOLL_FIELD_BOOL, AT(capture), 0, 0, NULL, 0},
    {"autoCleanup", ATOLL_FIELD_BOOL, AT(auto_cleanup), 0, 0, NULL, 0},
    {"push", ATOLL_FIELD_BOOL, AT(push), 0, 0, NULL, 0},
    {"commit", ATOLL_FIELD_OBJECT, AT(commit), 0, 0, commit_fields, 0},
    {"timeoutSeconds", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
    {"stallSeconds", ATOLL_FIELD_JSON, AT(stall), 0, 0, NULL, 0},
    {"stallCpuPercent", ATOLL_FIELD_JSON, AT(stall_cpu), 0, 0, NULL, 0},
    {"budget", ATOLL_FIELD_JSON, AT(budget), 0, 0, NULL, 0},
    {"steps", ATOLL_FIELD_JSON, AT(steps), 0, 0, NULL, 0},
    {"priority", ATOLL_FIELD_JSON, AT(priority), 0, 0, NULL, 0},
    {"pullRequest", ATOLL_FIELD_JSON, AT(pull_request), 0, 0, NULL, 0},
    {"requirements", ATOLL_FIELD_STRINGS, AT(requirements), 0, 32, NULL, 0},
    {"resources", ATOLL_FIELD_JSON, AT(resources), 0, 0, NULL, 0},
    {0},
};
#undef TEXT
#undef AT

/* Type, requirements and resources may be members of "metadata". The resources are limits of the sandbox. */
static void lift_metadata(json_t *root)
{
    static const char *const names[] = {"type", "requirements", "resources"};
    json_t *metadata = json_object_get(root, "metadata"), *limits, *sandbox, *resources;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        json_t *value = json_object_get(metadata, names[i]);
        if (value && !json_object_get(root, names[i]))
            (void)json_object_set(root, names[i], value);
        (void)json_object_del(metadata, names[i]);
    }
    if (json_is_object(metadata) && json_object_size(metadata) == 0)
        (void)json_object_del(root, "metadata");
    resources = json_object_get(root, "resources");
    if (!json_is_object(resources) || json_object_get(root, "sandboxId"))
        return;
    if (!json_object_get(root, "sandbox"))
        (void)json_object_set_new(root, "sandbox", json_object());
    sandbox = json_object_get(root, "sandbox");
    if (!json_object_get(sandbox, "limits"))
        (void)json_object_set_new(sandbox, "limits", json_object());
    limits = json_object_get(sandbox, "limits");
    (void)json_object_update_missing(limits, resources);
}

/* `provider` is a member of the sandbox. One that the sandbox does not have already is moved there. */
static void move_provider(json_t *root)
{
    json_t *provider = json_object_get(root, "provider"), *sandbox;

    if (!json_is_string(provider) || json_object_get(root, "sandboxId"))
        return;
    if (!json_object_get(root, "sandbox"))
        (void)json_object_set_new(root, "sandbox", json_object());
    sandbox = json_object_get(root, "sandbox");
    if (!json_is_object(sandbox) || json_object_get(sandbox, "provider"))
        return;
    (void)json_object_set(sandbox, "provider", provider);
    (void)json_object_del(root, "provider");
}

/* A list of tools is one text for the command line of the agent. */
static void join_tools(json_t *root)
{
    const json_t *tools = json_object_get(root, "allowedTools");
    struct atoll_buf text;

    if (!json_is_array(tools))
        return;
    atoll_buf_init(&text, 8192);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *tool = json_string_value(json_array_get(tools, i));
        (void)!atoll_buf_appendf(&text, "%s%s", i ? "," : "", tool ? tool : "");
    }
    (void)json_object_set_new(root, "allowedTools", json_string(atoll_buf_str(&text)));
    atoll_buf_done(&text);
}

/* {"task": …, "config": {…}}: the members of "config" are those of the request. One that is given twice stays there,
 * and is refused. */
static void lift_config(json_t *root)
{
    json_t *config = json_object_get(root, "config"), *value;
    const char *name;
    void *next;

    if (!json_is_object(config))
        return;
    json_object_foreach_safe(config, next, name, value) if (!json_object_get(root, name))
    {
        (void)json_object_set(root, name, value);
        (void)json_object_del(config, name);
    }
    if (json_object_size(config) == 0)
        (void)json_object_del(root, "config");
}

/* Members that programs know by other names, and a repository that is only a URL. */
static void normalize(json_t *root)
{
    static const char *const names[][2] = {{"task", "instruction"}, {"sandboxConfig", "sandbox"}};
    json_t *value;

    lift_config(root);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        value = json_object_get(root, names[i][0]);
        if (value && !json_object_get(root, names[i][1])) {
            (void)json_object_set(root, names[i][1], value);
            (void)json_object_del(root, names[i][0]);
        }
    }
    lift_metadata(root);
    move_provider(root);
    join_tools(root);
    value = json_object_get(root, "repo");
    if (json_is_string(value))
        (void)json_object_set_new(root, "repo", json_pack("{s:O}", "url", value));
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (text && *words && strcmp(text, *words) != 0)
        words++;
    return !text || *words;
}

static int check_seconds(const json_t *value, const char *name, struct atoll_error *err)
{
    if (value && (!json_is_number(value) || json_number_value(value) < 0 ||
                  json_number_value(value) > WEEK_S))
        return atoll_fields_refuse(err, "", name, value, "a number of seconds, at most a week");
    return 0;
}

/* An object of numbers with these names. */
static int check_numbers(const json_t *object, const char *where, const char *const *names,
                         struct atoll_error *err)
{
    const char *name;
    json_t *value;

    if (object && !json_is_object(object))
        return atoll_fields_refuse(err, "", where, object, "an object of numbers");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (!is_one_of(name, names))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s has no member \"%.64s\"",
                              where, name);
        if (!json_is_number(value) || !(json_number_value(value) > 0))
            return atoll_fields_refuse(err, where, name, value, "a number above 0");
    }
    return 0;
}

static int check_budget(const json_t *budget, struct atoll_error *err)
{
    static const char *const names[] = {"tokens", "costUsd", "cpuSeconds", "wallSeconds", NULL};

    return check_numbers(budget, "budget", names, err);
}

static int check_steps(const json_t *steps, struct atoll_error *err)
{
    static const char *const names[] = {"timeoutSeconds", "tries", NULL};
    const char *name;
    json_t *value;

    if (steps && !json_is_object(steps))
        return atoll_fields_refuse(err, "", "steps", steps, "an object by names of steps");
    json_object_foreach((json_t *)(uintptr_t)steps, name, value)
    {
        const json_t *tries = json_object_get(value, "tries");
        if (!atoll_tasks_is_step(name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a task has no step %.64s",
                              name);
        if (check_numbers(value, "steps", names, err) < 0 ||
            check_seconds(json_object_get(value, "timeoutSeconds"), "timeoutSeconds", err) < 0)
            return -EINVAL;
        if (tries && !(json_is_integer(tries) && json_integer_value(tries) <= 10))
            return atoll_fields_refuse(err, "steps", "tries", tries, "a whole number, at most 10");
    }
    return 0;
}

struct pull_request {
    const char *title, *body, *base;
    bool draft;
};

#define AT(member) offsetof(struct pull_request, member)
static const struct atoll_field pull_request_fields[] = {
    {"title", ATOLL_FIELD_STRING, AT(title), 1, 256, NULL, 0},
    {"body", ATOLL_FIELD_STRING, AT(body), 1, 32768, NULL, 0},
    {"base", ATOLL_FIELD_STRING, AT(base), 1, 200, NULL, 0},
    {"draft", ATOLL_FIELD_BOOL, AT(draft), 0, 0, NULL, 0},
    {0},
};
#undef AT

static int check_pull_request(struct atoll_body *body, const json_t *value, struct atoll_error *err)
{
    struct pull_request decoded = {0};
    const struct atoll_field_set set = {pull_request_fields, &decoded};

    if (!value || json_is_boolean(value))
        return 0;
    if (!json_is_object(value))
        return atoll_fields_refuse(err, "", "pullRequest", value, "true, false or an object");
    return atoll_fields_decode(body, value, "pullRequest", &set, 1, err);
}

static int check_more(struct atoll_body *body, const struct request *q, struct atoll_error *err)
{
    if (q->resources && !json_is_object(q->resources))
        return atoll_fields_refuse(err, "", "resources", q->resources,
                                   "an object, as the limits of a sandbox");
    if (q->priority && !(json_is_number(q->priority) && json_number_value(q->priority) >= -1000 &&
                         json_number_value(q->priority) <= 1000))
        return atoll_fields_refuse(err, "", "priority", q->priority, "a number from -1000 to 1000");
    if (q->stall_cpu && !(json_is_number(q->stall_cpu) && json_number_value(q->stall_cpu) >= 0))
        return atoll_fields_refuse(err, "", "stallCpuPercent", q->stall_cpu,
                                   "a number of percent of one CPU");
    if (check_budget(q->budget, err) < 0 || check_steps(q->steps, err) < 0)
        return -EINVAL;
    return check_pull_request(body, q->pull_request, err);
}

static int check_repo(struct atoll_body *body, const json_t *object, struct atoll_error *err)
{
    struct repo repo = {0};
    const struct atoll_field_set set = {repo_fields, &repo};

    if (!object)
        return 0;
    if (!json_is_object(object))
        return atoll_fields_refuse(err, "", "repo", object, "a URL or an object");
    if (atoll_fields_decode(body, object, "repo", &set, 1, err) < 0)
        return -EINVAL;
    if (!repo.url == !repo.upload)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "repo must have either \"url\" or \"upload\": true");
    return 0;
}

static int check_sandbox(const struct request *q, struct atoll_error *err)
{
    struct atoll_options options;
    void *hold = NULL;
    int r;

    if ((q->sandbox || q->provider) && q->sandbox_id)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "give either \"sandbox\" or \"provider\", to make one, or \"sandboxId\"");
    if (q->provider)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "give \"provider\" once: it is the same as that of \"sandbox\"");
    if (q->repo && q->sandbox_id)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "a task with \"repo\" needs a sandbox of its own: leave \"sandboxId\" out");
    if (!q->sandbox)
        return 0;
    if (!json_is_object(q->sandbox))
        return atoll_fields_refuse(err, "", "sandbox", q->sandbox,
                                   "an object, as the body of POST /api/sandboxes");
    r = atoll_rest_task_decode(q->sandbox, &options, &hold, err);
    atoll_rest_task_release(hold);
    if (r == 0)
        r = atoll_guard_policy_check(json_object_get(q->sandbox, "toolPolicy"), err);
    return r < 0 ? atoll_wrap(err, "sandbox") : 0;
}

/* Names of connectors, or an object of names and definitions. */
static int check_servers(const json_t *servers, struct atoll_error *err)
{
    char where[100];
    const char *name;
    json_t *value;

    if (servers && !json_is_array(servers) && !json_is_object(servers))
        return atoll_fields_refuse(err, "", "mcpServers", servers,
                                   "a list of connectors, or an object of servers");
    for (size_t i = 0; i < json_array_size(servers); i++)
        if (!atoll_connector_is_name(json_string_value(json_array_get(servers, i))))
            return atoll_fields_refuse(err, "mcpServers", "element", json_array_get(servers, i),
                                       "the name of a connector");
    json_object_foreach((json_t *)(uintptr_t)servers, name, value)
    {
        (void)snprintf(where, sizeof(where), "mcpServers.%.64s", name);
        if (!atoll_connector_is_name(name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s: a name has 1 to 64 letters, digits, \"_\" and \"-\"", where);
        if (!json_is_string(value) && atoll_connector_check(value, where, err) < 0)
            return -EINVAL;
        if (json_object_get(value, "oauth"))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "%s.oauth: store the server as a connector, and give its name",
                              where);
    }
    return 0;
}

static const char *const cleanups[] = {"always", "success", "never", NULL};
static const char *const places[] = {"egress", "environment", NULL};

static int check_request(struct atoll_body *body, const struct request *q, struct atoll_error *err)
{
    if (!q->instruction)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "instruction is missing: what the agent is to do, a text");
    if (!is_one_of(q->cleanup, cleanups))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "cleanup must be \"always\", \"success\" or \"never\"");
    if (!is_one_of(q->keys, places))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "keys must be \"egress\" or \"environment\"");
    if (check_seconds(q->timeout, "timeoutSeconds", err) < 0 ||
        check_seconds(q->stall, "stallSeconds", err) < 0 || check_repo(body, q->repo, err) < 0 ||
        check_more(body, q, err) < 0 ||
        (q->patterns && atoll_artifacts_check(q->patterns, err) < 0) ||
        check_servers(q->mcp_servers, err) < 0)
        return -EINVAL;
    return check_sandbox(q, err);
}

int atoll_rest_task_check(struct atoll_body *body, json_t *object, const char *where,
                          struct atoll_error *err)
{
    struct request q = {0};
    const struct atoll_field_set set = {fields, &q};

    normalize(object);
    if (atoll_fields_decode(body, object, where, &set, 1, err) < 0)
        return -EINVAL;
    return check_request(body, &q, err);
}

/* --- sandboxes of tasks --- */

struct decoded {
    struct atoll_body body;
    struct atoll_rest_sandbox sandbox;
};

int atoll_rest_task_decode(const json_t *object, struct atoll_options *ret, void **ret_hold,
                           struct atoll_error *err)
{
    struct decoded *d = atoll_api_alloc(sizeof(*d));
    char *text = atoll_json_dump(object, JSON_COMPACT);
    int r = text ? atoll_body_decode(&d->body, text, strlen(text), atoll_rest_sandbox_fields,
                                     &d->sandbox, err)
                 : atoll_fields_no_memory(err);

    if (r == 0)
        r = atoll_rest_sandbox_read(&d->sandbox, &d->body, ret, err);
    free(text);
    if (r < 0) {
        atoll_rest_task_release(d);
        return r;
    }
    *ret_hold = d;
    return 0;
}

void atoll_rest_task_release(void *hold)
{
    struct decoded *d = hold;

    if (d)
        atoll_body_done(&d->body);
    free(d);
}

int atoll_rest_task_check_change(const struct atoll_task_change *change, struct atoll_error *err)
{
    json_t *sandbox;
    struct atoll_options options;
    void *hold = NULL;
    int r = check_budget(change->budget, err);

    if (r == 0)
        r = check_seconds(change->timeout, "timeoutSeconds", err);
    if (r < 0 || !change->limits)
        return r;
    sandbox = json_pack("{s:O}", "limits", change->limits);
    r = atoll_rest_task_decode(sandbox, &options, &hold, err);
    atoll_rest_task_release(hold);
    json_decref(sandbox);
    return r;
}
