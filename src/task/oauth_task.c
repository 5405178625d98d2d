#include "task/oauth_internal.h"

/*
 * Tasks that wait for access tokens of connectors: before their sandbox is made, since its policy names the tokens, and
 * before the agent runs.
 */
static void go_on(struct atoll_task *task)
{
    struct atoll_oauth *oauth = task->tasks->oauth;
    struct atoll_error error;
    json_t *names = NULL;
    int r = atoll_task_mcp_oauth(task, &names, &error);
    bool waits = false;

    while (r == 0 && !waits && task->oauth_at < json_array_size(names)) {
        const char *name = json_string_value(json_array_get(names, task->oauth_at++));

        if (atoll_oauth_is_fresh(oauth, task->tenant, name))
            continue;
        atoll_task_log(task, "info", "getting an access token for the MCP server %s", name);
        r = atoll_oauth_get(oauth, task->tenant, name, task->id, &error);
        waits = r == 0;
    }
    json_decref(names);
    if (r < 0)
        atoll_task_step_done(task, &error);
    else if (!waits) {
        atoll_oauth_tend(oauth); /* tokens that end while the agent runs are renewed */
        task->oauth_next(task);
    }
}

void atoll_task_oauth_got(struct atoll_tasks *tasks, const char *task_id,
                          const struct atoll_error *error)
{
    struct atoll_error ignored;
    struct atoll_task *task = atoll_task_get(tasks, NULL, task_id, &ignored);

    if (task && !error && task->steps.error.kind != ATOLL_ERR_NONE)
        error = &task->steps.error; /* stopped meanwhile */
    if (task && error)
        atoll_task_step_done(task, error);
    else if (task)
        go_on(task);
}

void atoll_task_oauth_wait(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    task->oauth_at = 0;
    task->oauth_next = next;
    go_on(task);
}
