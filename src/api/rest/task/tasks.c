/* Tasks (task/task.h): start, list, get, log, cancel, retry, remove. */
#include "api/rest/task/tasks.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/kit/log_feed.h"
#include "api/kit/sse.h"
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "api/rest/rest_internal.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"

#define WEEK_S (7.0 * 24 * 3600)
#define LIST_MAX 100

static struct atoll_tasks *tasks_of(const struct atoll_api_call *call)
{
    return call->api->config.tasks;
}

int atoll_rest_task_find(struct atoll_api_call *call, struct atoll_task_view *ret,
                         struct atoll_error *err)
{
    int r = atoll_tasks_find(tasks_of(call), NULL, call->params.name, ret, err);

    if (r == 0 && !atoll_api_sees(call, ret->tenant))
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "task %.64s does not exist",
                       call->params.name);
    return r;
}

/* --- start --- */

struct repo {
    const char *url, *branch, *commit, *username, *password;
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
    const char *environment, *sandbox_id, *branch, *setup, *check, *cleanup;
    const json_t *sandbox, *repo, *timeout, *stall;
    const char *const *env, *const *patterns;
    bool push, capture, auto_cleanup;
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
    {"sandbox", ATOLL_FIELD_JSON, AT(sandbox), 0, 0, NULL, 0},
    {"repo", ATOLL_FIELD_JSON, AT(repo), 0, 0, NULL, 0},
    {"env", ATOLL_FIELD_ENV, AT(env), 0, 0, NULL, 0},
    {"capturePatterns", ATOLL_FIELD_STRINGS, AT(patterns), 0, ATOLL_ARTIFACTS_PATTERNS_MAX, NULL,
     0},
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

static int check_request(struct atoll_body *body, const struct request *q, struct atoll_error *err)
{
    static const char *const cleanups[] = {"always", "success", "never"};
    bool known = !q->cleanup;

    for (size_t i = 0; !known && i < ATOLL_ARRAY_LEN(cleanups); i++)
        known = strcmp(q->cleanup, cleanups[i]) == 0;
    if (!q->instruction)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "instruction is missing: what the agent is to do, a text");
    if (!known)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "cleanup must be \"always\", \"success\" or \"never\"");
    if (check_seconds(q->timeout, "timeoutSeconds", err) < 0 ||
        check_seconds(q->stall, "stallSeconds", err) < 0 || check_repo(body, q->repo, err) < 0 ||
        (q->patterns && atoll_artifacts_check(q->patterns, err) < 0))
        return -EINVAL;
    return check_sandbox(q, err);
}

/* Waits for the end of the task. */
struct waiting {
    struct atoll_api_call *call;
    struct atoll_task_watch *watch; /* owned */
    char id[ATOLL_ID_LEN + 1];
};

static void reply_view(struct atoll_api_call *call, int status, const char *id)
{
    struct atoll_task_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_tasks_find(tasks_of(call), NULL, id, &view, &error);

    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    atoll_view_task(&out, NULL, call->engine, &view, true);
    atoll_api_reply(call, status, &out);
}

static void waiter_gone(struct atoll_api_call *call)
{
    struct waiting *w = call->state;

    (void)atoll_tasks_unwatch(w->watch);
    free(w);
    atoll_api_drop(call);
}

static void may_have_ended(void *arg)
{
    struct waiting *w = arg;
    struct atoll_api_call *call = w->call;
    struct atoll_task_view view;
    struct atoll_error error;
    char id[ATOLL_ID_LEN + 1];

    if (atoll_tasks_find(tasks_of(call), NULL, w->id, &view, &error) == 0 &&
        view.state < ATOLL_TASK_SUCCEEDED)
        return;
    memcpy(id, w->id, sizeof(id));
    call->on_gone = NULL;
    (void)atoll_tasks_unwatch(w->watch);
    free(w);
    reply_view(call, 200, id);
}

static void wait_for(struct atoll_api_call *call, const char *id)
{
    struct waiting *w = atoll_api_alloc(sizeof(*w));
    struct atoll_error error;

    w->call = call;
    (void)snprintf(w->id, sizeof(w->id), "%s", id);
    if (atoll_tasks_watch(tasks_of(call), id, may_have_ended, w, &w->watch, &error) < 0) {
        free(w);
        atoll_api_fail(call, &error);
        return;
    }
    call->state = w;
    call->on_gone = waiter_gone;
    may_have_ended(w);
}

void atoll_rest_task_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    const struct atoll_field_set set = {fields, &q};
    struct atoll_body body;
    struct atoll_error error;
    char id[ATOLL_ID_LEN + 1];
    bool wait = false;
    int r;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    r = atoll_body_parse(&body, bytes, n, &error);
    if (r == 0) {
        normalize(body.root);
        r = atoll_fields_decode(&body, body.root, "", &set, 1, &error);
    }
    if (r == 0)
        r = check_request(&body, &q, &error);
    if (r == 0)
        r = atoll_api_query_flag(call, "wait", &wait, &error);
    if (r == 0)
        r = atoll_tasks_start(tasks_of(call), call->caller.tenant, json_incref(body.root), id,
                              &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (wait)
        wait_for(call, id);
    else
        reply_view(call, 201, id);
    atoll_body_done(&body);
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

/* --- get, list --- */

void atoll_rest_task_get(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view;
    struct atoll_error error;
    bool wait = false;

    if (atoll_rest_task_find(call, &view, &error) < 0 ||
        atoll_api_query_flag(call, "wait", &wait, &error) < 0)
        atoll_api_fail(call, &error);
    else if (wait)
        wait_for(call, call->params.name);
    else
        reply_view(call, 200, call->params.name);
}

void atoll_rest_task_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                          size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view = {.created_unix_ms = INT64_MAX, .id = ""};
    const char *state = atoll_http_query(call->req, "state");
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    uint64_t limit = LIST_MAX;
    int r = atoll_api_query_u64(call, "limit", 1, ATOLL_TASKS_ENDED_MAX, &limit, &error);

    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "tasks", '[');
    while (limit > 0 && atoll_tasks_before(tasks_of(call), atoll_api_list_tenant(call),
                                           view.created_unix_ms, view.id, &view)) {
        if (state && strcmp(state, atoll_task_state_name(view.state)) != 0)
            continue;
        atoll_view_task(&out, NULL, call->engine, &view, false);
        limit--;
    }
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

/* --- log --- */

static ssize_t read_log(const struct atoll_api_call *call, const char *id, uint64_t offset,
                        void *buf, size_t n)
{
    struct atoll_error error;

    return atoll_tasks_log(tasks_of(call), id, offset, buf, n, &error);
}

static bool has_ended(const struct atoll_api_call *call, const char *id)
{
    struct atoll_task_view view;
    struct atoll_error error;

    return atoll_tasks_find(tasks_of(call), NULL, id, &view, &error) < 0 ||
           view.state >= ATOLL_TASK_SUCCEEDED;
}

static int watch_log(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                     void *arg, void **ret_watch, struct atoll_error *err)
{
    struct atoll_task_watch *watch = NULL;
    int r = atoll_tasks_watch(tasks_of(call), id, fn, arg, &watch, err);

    *ret_watch = watch;
    return r;
}

static void unwatch_log(void *watch)
{
    (void)atoll_tasks_unwatch(watch);
}

static const struct atoll_log_source log_source = {read_log, has_ended, watch_log, unwatch_log};

/* Each whole line as an event. */
static ssize_t write_events(struct atoll_http_request *req, const char *piece, size_t n)
{
    const char *newline;
    size_t at = 0;

    while ((newline = memchr(piece + at, '\n', n - at))) {
        size_t len = (size_t)(newline - piece) - at;
        if (atoll_http_write(req, "data: ", 6) < 0 || atoll_http_write(req, piece + at, len) < 0 ||
            atoll_http_write(req, "\n\n", 2) < 0)
            return -EPIPE;
        at += len + 1;
    }
    return (ssize_t)(at == 0 && n == ATOLL_LOG_PIECE ? n : at);
}

void atoll_rest_task_log(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                         size_t n ATOLL_UNUSED)
{
    bool events = atoll_sse_wanted(call->req);
    struct atoll_log_feed feed = {.source = &log_source,
                                  .id = call->params.name,
                                  .follow = events,
                                  .content_type =
                                      events ? "text/event-stream" : "application/x-ndjson",
                                  .write = events ? write_events : atoll_log_feed_raw};
    struct atoll_task_view view;
    struct atoll_error error;

    if (atoll_rest_task_find(call, &view, &error) < 0 ||
        atoll_api_query_u64(call, "offset", 0, UINT64_MAX / 2, &feed.offset, &error) < 0 ||
        atoll_api_query_flag(call, "follow", &feed.follow, &error) < 0 ||
        atoll_log_feed_send(call, &feed, &error) < 0)
        atoll_api_fail(call, &error);
}

/* --- changes --- */

void atoll_rest_task_cancel(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view;
    struct atoll_error error;

    if (atoll_rest_task_find(call, &view, &error) < 0 ||
        atoll_tasks_cancel(tasks_of(call), call->params.name, ATOLL_REST_WHO, &error) < 0)
        atoll_api_fail(call, &error);
    else
        reply_view(call, 202, call->params.name);
}

void atoll_rest_task_retry(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct {
        const char *step;
    } q = {0};
    static const struct atoll_field retry_fields[] = {
        {"step", ATOLL_FIELD_STRING, 0, 1, 32, NULL, 0},
        {0},
    };
    struct atoll_task_view view;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, retry_fields, &q, &error);

    if (r == 0)
        r = atoll_rest_task_find(call, &view, &error);
    if (r == 0)
        r = atoll_tasks_retry(tasks_of(call), call->params.name, q.step, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        reply_view(call, 202, call->params.name);
    atoll_body_done(&body);
}

void atoll_rest_task_source(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view;
    struct atoll_error error;
    char sandbox_id[ATOLL_ID_LEN + 1];

    if (atoll_rest_task_find(call, &view, &error) < 0 ||
        atoll_tasks_source(tasks_of(call), call->params.name, sandbox_id, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    atoll_tasks_source_written(tasks_of(call), call->params.name);
    atoll_api_reply_empty(call, 204);
}

void atoll_rest_task_remove(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view;
    struct atoll_error error;

    if (atoll_rest_task_find(call, &view, &error) < 0 ||
        atoll_tasks_remove(tasks_of(call), call->params.name, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_api_reply_empty(call, 204);
}
