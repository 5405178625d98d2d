/* Tasks (task/task.h): start, list, get, log, cancel, retry, remove. */
#include "api/rest/task/tasks.h"
#include <errno.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/fields.h"
#include "api/idempotency.h"
#include "api/kit/log_feed.h"
#include "api/kit/sse.h"
#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "api/rest/rest_internal.h"
#include "api/rest/task/end_wait.h"
#include "engine/artifact/artifacts.h"
#include "engine/json_memory.h"

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

/* --- answers --- */

static void reply_view(struct atoll_api_call *call, int status, const char *id)
{
    size_t room = ATOLL_VIEW_FILES_MAX;
    struct atoll_task_view view;
    struct atoll_error error;
    struct atoll_buf buf;
    struct atoll_json_out out;
    int r = atoll_tasks_find(tasks_of(call), NULL, id, &view, &error);

    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    atoll_view_task(&out, NULL, call->engine, &view, &room);
    atoll_api_reply(call, status, &out);
}

static bool has_ended(const struct atoll_api_call *call, const char *id)
{
    struct atoll_task_view view;
    struct atoll_error error;

    return atoll_tasks_find(tasks_of(call), NULL, id, &view, &error) < 0 ||
           view.state >= ATOLL_TASK_SUCCEEDED;
}

static int watch_task(const struct atoll_api_call *call, const char *id, void (*fn)(void *arg),
                      void *arg, void **ret_watch, struct atoll_error *err)
{
    struct atoll_task_watch *watch = NULL;
    int r = atoll_tasks_watch(tasks_of(call), id, fn, arg, &watch, err);

    *ret_watch = watch;
    return r;
}

static void unwatch_task(void *watch)
{
    (void)atoll_tasks_unwatch(watch);
}

static const struct atoll_end_source end_source = {has_ended, watch_task, unwatch_task, reply_view};

/* --- start --- */

void atoll_rest_task_begin(struct atoll_api_call *call, struct atoll_body *body)
{
    struct atoll_error error;
    char id[ATOLL_ID_LEN + 1];
    bool wait = false;
    int r = atoll_rest_task_check(body, body->root, "", &error);

    if (r == 0)
        r = atoll_api_query_flag(call, "wait", &wait, &error);
    if (r == 0)
        r = atoll_tasks_start(tasks_of(call), call->caller.tenant, json_incref(body->root), id,
                              &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else if (wait)
        atoll_rest_wait_end(call, &end_source, id);
    else
        reply_view(call, 201, id);
}

void atoll_rest_task_create(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body;
    struct atoll_error error;

    if (atoll_idempotency_check(call, bytes, n))
        return;
    if (atoll_body_parse(&body, bytes, n, &error) < 0)
        atoll_api_fail(call, &error);
    else
        atoll_rest_task_begin(call, &body);
    atoll_body_done(&body);
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
        atoll_rest_wait_end(call, &end_source, call->params.name);
    else
        reply_view(call, 200, call->params.name);
}

/* Filters by what the request or the answer has: agent, agentName, type, branch, repo, swarmId, step. */
static bool is_listed(const struct atoll_api_call *call, const struct atoll_task_view *view)
{
    static const char *const names[] = {"agent", "agentName", "type", "branch", "swarmId"};
    const char *step = atoll_http_query(call->req, "step");
    const char *repo = atoll_http_query(call->req, "repo");
    const char *url =
        json_string_value(json_object_get(json_object_get(view->request, "repo"), "url"));

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        const char *wanted = atoll_http_query(call->req, names[i]);
        const char *has = json_string_value(json_object_get(view->facts, names[i]));
        has = has ? has : json_string_value(json_object_get(view->request, names[i]));
        if (wanted && !(has && strcmp(has, wanted) == 0))
            return false;
    }
    return (!step || strcmp(step, view->step) == 0) && (!repo || (url && strcmp(url, repo) == 0));
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
    enum atoll_task_state wanted = ATOLL_TASK_WAITING;
    int r = atoll_api_query_u64(call, "limit", 1, ATOLL_TASKS_ENDED_MAX, &limit, &error);

    if (r == 0 && state && !atoll_task_state_by_name(state, &wanted))
        r = atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "state must be waiting, running, succeeded, failed or canceled");
    if (!atoll_api_reply_begin(call, r < 0 ? &error : NULL, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "tasks", '[');
    while (limit > 0 && atoll_tasks_before(tasks_of(call), atoll_api_list_tenant(call),
                                           view.created_unix_ms, view.id, &view)) {
        if ((state && view.state != wanted) || !is_listed(call, &view))
            continue;
        atoll_view_task(&out, NULL, call->engine, &view, NULL);
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

static const struct atoll_log_source log_source = {read_log, has_ended, watch_task, unwatch_task};

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
        struct atoll_task_change change;
    } q = {0};
#define AT(member) (sizeof(q.step) + offsetof(struct atoll_task_change, member))
    static const struct atoll_field retry_fields[] = {
        {"step", ATOLL_FIELD_STRING, 0, 1, 32, NULL, 0},
        {"budget", ATOLL_FIELD_JSON, AT(budget), 0, 0, NULL, 0},
        {"timeoutSeconds", ATOLL_FIELD_JSON, AT(timeout), 0, 0, NULL, 0},
        {"limits", ATOLL_FIELD_JSON, AT(limits), 0, 0, NULL, 0},
        {0},
    };
#undef AT
    struct atoll_task_view view;
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_decode(&body, bytes, n, retry_fields, &q, &error);

    if (r == 0)
        r = atoll_rest_task_check_change(&q.change, &error);
    if (r == 0)
        r = atoll_rest_task_find(call, &view, &error);
    if (r == 0)
        r = atoll_tasks_retry(tasks_of(call), call->params.name, q.step, &q.change, &error);
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
