/* Agents in an existing sandbox: tasks whose request names it. */
#include <string.h>
#include "api/api_internal.h"
#include "api/rest/rest_internal.h"
#include "api/rest/task/tasks.h"

/* The next task that runs in the sandbox, newest first; *view begins as for atoll_tasks_before(). */
static bool next_active(const struct atoll_api_call *call, struct atoll_task_view *view)
{
    while (atoll_tasks_before(call->api->config.tasks,
                              atoll_api_owner_of(call->engine, call->params.id),
                              view->created_unix_ms, view->id, view)) {
        const char *id = json_string_value(json_object_get(view->facts, "sandbox_id"));
        if (view->state == ATOLL_TASK_RUNNING && id && strcmp(id, call->params.id) == 0)
            return true;
    }
    return false;
}

void atoll_rest_agent_start(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct atoll_body body;
    struct atoll_error error;
    int r = atoll_body_parse(&body, bytes, n, &error);

    if (r < 0) {
        atoll_api_fail(call, &error);
    } else {
        (void)json_object_set_new(body.root, "sandboxId", json_string(call->params.id));
        atoll_rest_task_begin(call, &body);
    }
    atoll_body_done(&body);
}

void atoll_rest_agent_list(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                           size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view = {.created_unix_ms = INT64_MAX, .id = ""};
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    atoll_json_open(&out, NULL, '{');
    atoll_json_open(&out, "agents", '[');
    while (next_active(call, &view))
        atoll_view_task(&out, NULL, call->engine, &view, NULL);
    atoll_json_close(&out, ']');
    atoll_json_close(&out, '}');
    atoll_api_reply(call, 200, &out);
}

void atoll_rest_agent_cancel(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                             size_t n ATOLL_UNUSED)
{
    struct atoll_task_view view = {.created_unix_ms = INT64_MAX, .id = ""};
    struct atoll_error error;

    while (next_active(call, &view))
        (void)!atoll_tasks_cancel(call->api->config.tasks, view.id, ATOLL_REST_WHO, &error);
    atoll_api_reply_empty(call, 204);
}
