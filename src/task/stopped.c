#include <errno.h>
#include "task/task_internal.h"

/*
 * The daemon's own stop ends sandboxes, and the commands of tasks with them. This is no failure of a task: its
 * row stays as it is, and the next daemon begins the task again, in another sandbox.
 */
#define STOPPED "_stopped" /* fact: the daemon has ended the sandbox, or was about to */

void atoll_task_note_stop(struct atoll_task *task)
{
    atoll_task_note(task, STOPPED, json_true());
}

void atoll_task_forget_stop(struct atoll_task *task)
{
    (void)json_object_del(task->facts, STOPPED);
}

bool atoll_task_is_stopped(const struct atoll_task *task)
{
    return json_object_get(task->facts, STOPPED) != NULL;
}

static bool has_running_sandbox(const struct atoll_task *task)
{
    struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_sandbox_view view;

    if (!sandbox || !atoll_task_has_sandbox(task))
        return false;
    atoll_sandbox_get(sandbox, &view);
    return view.state != ATOLL_SANDBOX_STOPPED;
}

int atoll_task_after_stop(struct atoll_task *task, struct atoll_error *err)
{
    bool uploaded = atoll_task_is_uploaded(task);

    if (!atoll_task_is_stopped(task))
        return 0;
    atoll_task_forget_stop(task);
    /* Behind the push, a step needs no sandbox. */
    if (has_running_sandbox(task) || task->at > atoll_task_step_find("push"))
        return 0;
    /* The client has to send its repository again, and a sandbox of a client is not the task's to make. What a
     * push has sent already would be in the way of a second one. */
    if (uploaded || atoll_task_text(task, "sandboxId") || task->at == atoll_task_step_find("push"))
        return atoll_fail(err, ATOLL_ERR_ABORTED, ECANCELED,
                          "the daemon was stopped, which has ended the sandbox (`atoll reload` "
                          "keeps sandboxes); `atoll task retry %s%s` tries again",
                          task->id, atoll_task_repo_option(task));
    atoll_task_log(task, "info",
                   "the daemon was stopped, which has ended the sandbox: the task begins again in "
                   "another one (`atoll reload` keeps sandboxes)");
    atoll_task_anew(task);
    return 0;
}
