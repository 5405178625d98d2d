#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/api_internal.h"
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "task/swarm.h"
#include "task/task.h"

/*
 * Tasks: a tool that lets another agent work, and waits for its result. Swarms: tools for the memory of one.
 */
struct waiting {
    struct atoll_task_watch *watch; /* owned */
    char id[ATOLL_ID_LEN + 1];
};

static struct atoll_tasks *tasks_of(const struct atoll_tool_call *call)
{
    return call->api->config.tasks;
}

static void waiting_free(struct waiting *w)
{
    (void)atoll_tasks_unwatch(w->watch);
    free(w);
}

static void finish(struct atoll_tool_call *call, const struct atoll_task_view *view)
{
    static const char *const facts[] = {"output", "branch",  "commit",     "pushed",
                                        "usage",  "changes", "sandbox_id", "exit_code"};
    json_t *data =
        json_pack("{s:s, s:s}", "id", view->id, "state", atoll_task_state_name(view->state));

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(facts); i++)
        if (json_object_get(view->facts, facts[i]))
            (void)json_object_set(data, facts[i], json_object_get(view->facts, facts[i]));
    if (view->error->kind != ATOLL_ERR_NONE)
        (void)json_object_set_new(data, "error", json_string(view->error->text));
    atoll_tool_finish_data(call, data);
}

static void may_have_ended(void *arg)
{
    struct atoll_tool_call *call = arg;
    struct waiting *w = call->state;
    struct atoll_task_view view;
    struct atoll_error error;
    int r = atoll_tasks_find(tasks_of(call), NULL, w->id, &view, &error);

    if (r == 0 && view.state < ATOLL_TASK_SUCCEEDED)
        return;
    waiting_free(w);
    if (r < 0)
        atoll_tool_fail(call, &error);
    else
        finish(call, &view);
}

/* The call does not wait for the end of the task, which may come with that of the daemon. */
static void stop(struct atoll_tool_call *call)
{
    struct waiting *w = call->state;
    struct atoll_error error;

    (void)!atoll_tasks_cancel(tasks_of(call), w->id, ATOLL_TOOL_WHO, &error);
    waiting_free(w);
    (void)atoll_fail(&error, ATOLL_ERR_CANCELED, ECANCELED, "the call was cancelled");
    atoll_tool_fail(call, &error);
}

static json_t *request_of(const struct atoll_tool_call *call)
{
    static const char *const names[] = {"instruction", "agent", "model", "branch", "check"};
    json_t *request = json_pack("{s:s}", "cleanup", "always");
    const char *url = atoll_tool_text(call, "repo");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (atoll_tool_text(call, names[i]))
            (void)json_object_set_new(request, names[i],
                                      json_string(atoll_tool_text(call, names[i])));
    if (url)
        (void)json_object_set_new(request, "repo",
                                  json_pack("{s:s, s:s*, s:s*}", "url", url, "username",
                                            atoll_tool_text(call, "username"), "password",
                                            atoll_tool_text(call, "password")));
    return request;
}

void atoll_tool_run_task(struct atoll_tool_call *call)
{
    struct waiting *w = atoll_alloc(sizeof(*w));
    struct atoll_error error;

    if (atoll_tasks_start(tasks_of(call), call->tenant, request_of(call), w->id, &error) < 0 ||
        atoll_tasks_watch(tasks_of(call), w->id, may_have_ended, call, &w->watch, &error) < 0) {
        free(w);
        atoll_tool_fail(call, &error);
        return;
    }
    call->state = w;
    call->stop = stop;
    may_have_ended(call);
}

/* --- the memory of a swarm --- */

void atoll_tool_run_memory(struct atoll_tool_call *call)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (atoll_swarms_find(call->api->config.swarms, call->tenant, atoll_tool_text(call, "swarm"),
                          &view, &error) < 0)
        atoll_tool_fail(call, &error);
    else
        atoll_tool_finish_data(call, json_pack("{s:O}", "memory", view.memory));
}

void atoll_tool_run_remember(struct atoll_tool_call *call)
{
    struct atoll_swarms *swarms = call->api->config.swarms;
    const char *id = atoll_tool_text(call, "swarm");
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (atoll_swarms_find(swarms, call->tenant, id, &view, &error) < 0 ||
        atoll_swarms_remember(swarms, view.id, json_object_get(call->args, "changes"), &error) < 0)
        atoll_tool_fail(call, &error);
    else
        atoll_tool_run_memory(call);
}
