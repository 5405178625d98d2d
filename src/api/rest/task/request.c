/* Requests for tasks: what the fields must be. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "api/rest/task/tasks.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"
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
    const char *environment, *sandbox_id, *branch, *setup, *check, *cleanup, *keys;
    const json_t *sandbox, *repo, *timeout, *stall, *mcp_servers;
    const char *const *env, *const *patterns;
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
    {0},
};
#undef TEXT
#undef AT

/* Members that programs know by other names, and a repository that is only a URL. */
static void normalize(json_t *root)
{
    static const char *const names[][2] = {{"task", "instruction"}, {"sandboxConfig", "sandbox"}};
    json_t *value;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        value = json_object_get(root, names[i][0]);
        if (value && !json_object_get(root, names[i][1])) {
            (void)json_object_set(root, names[i][1], value);
            (void)json_object_del(root, names[i][0]);
        }
    }
    value = json_object_get(root, "repo");
    if (json_is_string(value))
        (void)json_object_set_new(root, "repo", json_pack("{s:O}", "url", value));
}

static int check_seconds(const json_t *value, const char *name, struct atoll_error *err)
{
    if (value && (!json_is_number(value) || json_number_value(value) < 0 ||
                  json_number_value(value) > WEEK_S))
        return atoll_fields_refuse(err, "", name, value, "a number of seconds, at most a week");
    return 0;
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

    if (q->sandbox && q->sandbox_id)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "give either \"sandbox\", to make one, or \"sandboxId\"");
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
    }
    return 0;
}

static const char *const cleanups[] = {"always", "success", "never", NULL};
static const char *const places[] = {"egress", "environment", NULL};

static bool is_one_of(const char *text, const char *const *words)
{
    while (text && *words && strcmp(text, *words) != 0)
        words++;
    return !text || *words;
}

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
        r = atoll_rest_sandbox_check(&d->sandbox, &d->body, ret, err);
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
