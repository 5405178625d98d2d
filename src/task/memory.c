#include <errno.h>
#include <string.h>
#include "engine/json_memory.h"
#include "task/swarm_internal.h"

/*
 * The memory of a swarm in the sandbox of a member: a file, which is written before the agent runs and read
 * afterwards. What the agent has changed in it goes to the swarm.
 */
#define GIVEN "_memory" /* fact: what the file was at first */

static const char *swarm_of(const struct atoll_task *task)
{
    return atoll_task_text(task, "swarmId");
}

/* The fact is stored when the file is there, and before the agent can change it. */
static int note_given(struct atoll_task *task, struct atoll_error *err)
{
    json_t *given = atoll_json_load_own(task->memory_text);
    int r;

    if (!given)
        return atoll_fail_errno(err, ENOMEM, "the memory of the swarm");
    atoll_task_note(task, GIVEN, given);
    r = atoll_task_store(task, err);
    if (r < 0)
        atoll_task_memory_forget(task);
    return r;
}

static void written(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                    const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error failed;

    if (!error && note_given(task, &failed) < 0)
        error = &failed;
    free(task->memory_text);
    task->memory_text = NULL;
    if (error)
        atoll_task_step_done(task, error);
    else
        task->next(task);
}

void atoll_task_memory_forget(struct atoll_task *task)
{
    (void)json_object_del(task->facts, GIVEN);
}

static void write_file(struct atoll_task *task)
{
    struct atoll_swarm_view view;
    struct atoll_error error;

    if (atoll_swarms_find(task->tasks->swarms, NULL, swarm_of(task), &view, &error) < 0) {
        task->next(task);
        return;
    }
    task->memory_text = atoll_json_dump(view.memory, JSON_INDENT(2));
    if (!task->memory_text) {
        (void)atoll_fail_errno(&error, ENOMEM, "the memory of the swarm");
        atoll_task_step_done(task, &error);
        return;
    }
    atoll_files_put(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), NULL,
                    ATOLL_TASK_MEMORY_FILE, 0644, task->memory_text, strlen(task->memory_text),
                    written, task);
}

/* The memory of the hub has become that of the swarm. */
static void fetched(struct atoll_tasks *tasks, const char *task_id, const struct atoll_error *error)
{
    struct atoll_error ignored;
    struct atoll_task *task = atoll_task_get(tasks, NULL, task_id, &ignored);

    if (task && error)
        atoll_task_step_done(task, error);
    else if (task)
        write_file(task);
}

void atoll_task_memory_give(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    struct atoll_swarm *s;
    struct atoll_error error;

    /* With the fact, an earlier daemon has written it. */
    if (!swarm_of(task) || json_object_get(task->facts, GIVEN) ||
        !(s = atoll_swarm_get(task->tasks->swarms, NULL, swarm_of(task), &error))) {
        next(task);
        return;
    }
    task->next = next;
    if (atoll_swarm_has_hub(s))
        atoll_hub_sync(s, task->id, NULL, fetched);
    else
        write_file(task);
}

static void add_line(struct atoll_task *task, const char *line, size_t n)
{
    if (atoll_buf_append(&task->read, line, n) == 0)
        (void)!atoll_buf_appends(&task->read, "\n");
}

/* Members that differ from those that the agent was given; those that it removed are null. */
static json_t *changes_of(const json_t *given, const json_t *now)
{
    json_t *changes = json_object(), *value;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)now, name, value)
    {
        if (!json_equal(value, json_object_get(given, name)))
            (void)json_object_set(changes, name, value);
    }
    json_object_foreach((json_t *)(uintptr_t)given, name, value)
    {
        if (!json_object_get(now, name))
            (void)json_object_set_new(changes, name, json_null());
    }
    return changes;
}

static void taken(struct atoll_task *task)
{
    (void)json_object_del(task->facts, GIVEN);
    atoll_buf_clear(&task->read);
    task->next(task);
}

/* The hub has the changes. Without it the step fails; when it is tried again, the agent begins with what the hub has then. */
static void sent(struct atoll_tasks *tasks, const char *task_id, const struct atoll_error *error)
{
    struct atoll_error ignored;
    struct atoll_task *task = atoll_task_get(tasks, NULL, task_id, &ignored);

    if (task && error)
        atoll_task_step_done(task, error);
    else if (task)
        taken(task);
}

/* True: it goes on when the hub has answered. */
static bool take_changes(struct atoll_task *task, const json_t *changes)
{
    struct atoll_error refused;
    struct atoll_swarm *s = atoll_swarm_get(task->tasks->swarms, NULL, swarm_of(task), &refused);

    if (!s || json_object_size(changes) == 0)
        return false;
    if (atoll_swarms_remember(task->tasks->swarms, swarm_of(task), changes, &refused) < 0) {
        atoll_task_log(task, "error", "%s", refused.text);
        return false;
    }
    if (!atoll_swarm_has_hub(s))
        return false;
    atoll_hub_sync(s, task->id, changes, sent);
    return true;
}

static void read_back(struct atoll_task *task, const struct atoll_exec_result *result ATOLL_UNUSED,
                      const char *tail ATOLL_UNUSED, const struct atoll_error *error)
{
    json_error_t why;
    json_t *now =
        error ? NULL
              : atoll_json_load(atoll_buf_head(&task->read), atoll_buf_size(&task->read), 0, &why);
    json_t *changes;
    bool waits = false;

    if (json_is_object(now)) {
        changes = changes_of(json_object_get(task->facts, GIVEN), now);
        waits = take_changes(task, changes);
        json_decref(changes);
    } else {
        atoll_task_log(task, "error", "%s is not a JSON object any more: nothing is taken from it",
                       ATOLL_TASK_MEMORY_FILE);
    }
    json_decref(now);
    if (!waits)
        taken(task);
}

void atoll_task_memory_take(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    static const char *const argv[] = {"/bin/cat", ATOLL_TASK_MEMORY_FILE, NULL};

    if (!swarm_of(task)) {
        next(task);
        return;
    }
    task->next = next;
    atoll_buf_clear(&task->read);
    atoll_task_command_run(task, &(struct atoll_task_command_request){.name = "memory",
                                                                      .argv = argv,
                                                                      .timeout_ms = 30000,
                                                                      .quiet = true,
                                                                      .line = add_line,
                                                                      .done = read_back});
}
