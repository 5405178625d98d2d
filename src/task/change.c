#include <errno.h>
#include <string.h>
#include "task/task_internal.h"

/*
 * What a retry changes of the request. New limits of memory and CPU hold in the sandbox that the task goes on
 * in; others need another sandbox.
 */
#define LIMITS "_limits" /* fact: not set in the sandbox yet */

static void update(json_t *object, const char *name, const json_t *values)
{
    json_t *own = json_object_get(object, name);

    if (own)
        (void)json_object_update(own, (json_t *)(uintptr_t)values);
    else
        (void)json_object_set_new(object, name, json_deep_copy(values));
}

/* The name of a limit in the request that a running sandbox cannot change; NULL: all can be changed. */
static const char *find_fixed(const json_t *limits)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)limits, name,
                        value) if (strcmp(name, "memoryMB") != 0 &&
                                   strcmp(name, "cpuCores") != 0) return name;
    return NULL;
}

int atoll_task_change(struct atoll_task *task, const struct atoll_task_change *change,
                      struct atoll_error *err)
{
    const char *fixed = find_fixed(change->limits);

    if (change->limits && atoll_task_text(task, "sandboxId"))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the task works in a sandbox of a client: leave \"limits\" out");
    if (fixed && task->at > 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "limits.%.40s holds for the life of a sandbox: give the step "
                          "\"sandbox\", too, to begin anew in another one",
                          fixed);
    if (change->budget)
        update(task->request, "budget", change->budget);
    if (change->timeout)
        (void)json_object_set(task->request, "timeoutSeconds",
                              (json_t *)(uintptr_t)change->timeout);
    if (change->limits) {
        if (!json_object_get(task->request, "sandbox"))
            (void)json_object_set_new(task->request, "sandbox", json_object());
        update(json_object_get(task->request, "sandbox"), "limits", change->limits);
        atoll_task_note(task, LIMITS, json_deep_copy(change->limits));
    }
    return 0;
}

/* Owned by the caller; NULL: there are none to set. */
static json_t *take_limits(struct atoll_task *task)
{
    json_t *limits = json_incref(json_object_get(task->facts, LIMITS));

    (void)json_object_del(task->facts, LIMITS);
    if (task->at > 0) /* else the sandbox is made with them */
        return limits;
    json_decref(limits);
    return NULL;
}

void atoll_task_set_limits(struct atoll_task *task, atoll_done_fn *done)
{
    const struct atoll_tasks_config *config = &task->tasks->config;
    json_t *limits = take_limits(task);
    json_t *sandbox = limits ? json_pack("{s:o}", "limits", limits) : NULL;
    struct atoll_options options = {0};
    struct atoll_error error;
    void *hold = NULL;
    int r = sandbox ? config->decode(sandbox, &options, &hold, &error) : 0;

    if (r < 0 || !sandbox)
        done(task, r < 0 ? &error : NULL);
    else
        atoll_engine_resize(config->engine, atoll_task_fact(task, "sandbox_id"), &options.limits,
                            done, task);
    if (hold)
        config->release(hold);
    json_decref(sandbox);
}
