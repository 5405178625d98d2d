#include "task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "base/text.h"
#include "engine/json_memory.h"
#include "store/tasks.h"
#include "task/oauth.h"
#include "task/swarm.h"
#include "task/task_internal.h"

#define HINT "_hint" /* fact: the remedy for the error, if it has one of its own */
#define SAID_MAX ((size_t)256 * 1024)

static const char *const state_names[] = {
    [ATOLL_TASK_WAITING] = "waiting",     [ATOLL_TASK_RUNNING] = "running",
    [ATOLL_TASK_SUCCEEDED] = "succeeded", [ATOLL_TASK_FAILED] = "failed",
    [ATOLL_TASK_CANCELED] = "canceled",
};

const char *atoll_task_state_name(enum atoll_task_state state)
{
    return state_names[state];
}

static bool has_ended(const struct atoll_task *task)
{
    return task->state >= ATOLL_TASK_SUCCEEDED;
}

/* --- request and facts --- */

const char *atoll_task_text(const struct atoll_task *task, const char *name)
{
    return json_string_value(json_object_get(task->request, name));
}

const json_t *atoll_task_object(const struct atoll_task *task, const char *name)
{
    return json_object_get(task->request, name);
}

const char *atoll_task_fact(const struct atoll_task *task, const char *name)
{
    const char *text = json_string_value(json_object_get(task->facts, name));

    return text ? text : "";
}

void atoll_task_note(struct atoll_task *task, const char *name, json_t *value)
{
    (void)json_object_set_new(task->facts, name, value);
}

/* --- rows --- */

int atoll_task_store(struct atoll_task *task, struct atoll_error *err)
{
    char *request = atoll_json_dump(task->request, JSON_COMPACT);
    char *facts = atoll_json_dump(task->facts, JSON_COMPACT);
    const struct atoll_store_task row = {
        .id = task->id,
        .tenant = task->tenant,
        .kind = ATOLL_STORE_TASK,
        .state = state_names[task->state],
        .step = atoll_task_step_name(task->at),
        .attempt = task->attempt,
        .request = request,
        .facts = facts,
        .error_kind =
            task->error.kind == ATOLL_ERR_NONE ? "" : atoll_error_kind_name(task->error.kind),
        .error = task->error.text,
        .created_unix_ms = task->created_unix_ms,
        .started_unix_ms = task->started_unix_ms,
        .ended_unix_ms = task->ended_unix_ms,
    };
    int r = request && facts ? atoll_store_put_task(task->tasks->config.store, &row, err)
                             : atoll_fail_errno(err, ENOMEM, "a task");

    if (request)
        explicit_bzero(request, strlen(request)); /* it may have credentials */
    free(request);
    free(facts);
    return r;
}

static struct atoll_task *task_new(struct atoll_tasks *tasks, const char *id, const char *tenant)
{
    struct atoll_task *task = atoll_alloc(sizeof(*task));

    task->tasks = tasks;
    task->attempt = 1;
    task->log_fd = -1;
    (void)snprintf(task->id, sizeof(task->id), "%s", id);
    (void)snprintf(task->tenant, sizeof(task->tenant), "%s", tenant);
    atoll_list_init(&task->watches);
    atoll_buf_init(&task->said, SAID_MAX);
    atoll_buf_init(&task->read, 2 * SAID_MAX);
    return task;
}

static void task_free(struct atoll_task *task)
{
    atoll_timer_cancel(&task->timer);
    atoll_timer_cancel(&task->pruning);
    atoll_timer_cancel(&task->telling);
    atoll_timer_cancel(&task->step_timer);
    atoll_timer_cancel(&task->budget_timer);
    atoll_task_command_drop(task);
    atoll_task_program_drop(task);
    atoll_task_carry_free(task);
    atoll_task_apart_free(task);
    atoll_list_remove(&task->queue);
    atoll_task_unwatched(task);
    atoll_task_log_close(task);
    atoll_task_mcp_forget(task);
    atoll_buf_done(&task->said);
    atoll_buf_done(&task->read);
    free(task->memory_text);
    json_decref(task->request);
    json_decref(task->facts);
    free(task);
}

bool atoll_task_state_by_name(const char *name, enum atoll_task_state *ret)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(state_names); i++)
        if (strcmp(state_names[i], name) == 0) {
            *ret = (enum atoll_task_state)i;
            return true;
        }
    return false;
}

static int load_row(void *arg, const struct atoll_store_task *row, struct atoll_error *err)
{
    struct atoll_tasks *tasks = arg;
    struct atoll_task *task = task_new(tasks, row->id, row->tenant);

    task->request = atoll_json_load_own(row->request);
    task->facts = atoll_json_load_own(row->facts);
    task->attempt = row->attempt;
    task->created_unix_ms = row->created_unix_ms;
    task->started_unix_ms = row->started_unix_ms;
    task->ended_unix_ms = row->ended_unix_ms;
    task->at = atoll_task_step_find(row->step); /* none after the last one */
    if (*row->error_kind)
        (void)atoll_fail(&task->error, atoll_error_kind_by_name(row->error_kind), 0, "%s",
                         row->error);
    /* Without its key the request cannot be read any more: the task cannot be continued. */
    if (!task->request)
        task->request = json_object();
    if (!json_is_object(task->facts) || !atoll_task_state_by_name(row->state, &task->state) ||
        atoll_map_put(&tasks->by_id, task->id, task) < 0) {
        task_free(task);
        return atoll_fail_errno(err, EBADMSG, "a task in the store");
    }
    atoll_task_log_measure(task);
    return 0;
}

int atoll_tasks_new(const struct atoll_tasks_config *config, struct atoll_tasks **ret,
                    struct atoll_error *err)
{
    struct atoll_tasks *tasks = atoll_alloc(sizeof(*tasks));
    int r = 0;

    tasks->config = *config;
    tasks->dir_fd = -1;
    atoll_map_init(&tasks->by_id);
    atoll_list_init(&tasks->waiting);
    if (mkdirat(config->state_fd, "tasks", 0700) < 0 && errno != EEXIST)
        r = atoll_fail_errno(err, errno, "the directory of tasks");
    if (r == 0)
        tasks->dir_fd = openat(config->state_fd, "tasks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r == 0 && tasks->dir_fd < 0)
        r = atoll_fail_errno(err, errno, "the directory of tasks");
    if (r == 0)
        r = atoll_store_each_task(config->store, ATOLL_STORE_TASK, load_row, tasks, err);
    if (r == 0)
        atoll_task_log_sweep(tasks);
    if (r == 0)
        r = atoll_oauth_new(tasks, &tasks->oauth, err);
    if (r < 0) {
        (void)atoll_tasks_free(tasks);
        return r;
    }
    *ret = tasks;
    return 0;
}

struct atoll_tasks *atoll_tasks_free(struct atoll_tasks *tasks)
{
    struct atoll_task *task;
    size_t pos = 0;

    if (!tasks)
        return NULL;
    (void)atoll_oauth_free(tasks->oauth);
    while ((task = atoll_map_next(&tasks->by_id, &pos)))
        task_free(task);
    atoll_map_done(&tasks->by_id);
    if (tasks->workers)
        (void)atoll_workers_free(tasks->workers);
    if (tasks->dir_fd >= 0)
        (void)close(tasks->dir_fd);
    free(tasks);
    return NULL;
}

/* --- finding --- */

struct atoll_task *atoll_task_get(struct atoll_tasks *tasks, const char *tenant, const char *id,
                                  struct atoll_error *err)
{
    struct atoll_task *task = atoll_map_get(&tasks->by_id, id);

    if (task && (!tenant || strcmp(task->tenant, tenant) == 0))
        return task;
    (void)atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "task %.64s does not exist", id);
    return NULL;
}

static void view_of(struct atoll_task *task, struct atoll_task_view *ret)
{
    *ret = (struct atoll_task_view){
        .id = task->id,
        .tenant = task->tenant,
        .state = task->state,
        .step = task->state == ATOLL_TASK_WAITING ? "" : atoll_task_step_name(task->at),
        .percent = task->state == ATOLL_TASK_WAITING ? 0 : atoll_task_step_percent(task->at),
        .attempt = task->attempt,
        .request = task->request,
        .facts = task->facts,
        .error = &task->error,
        .hint = atoll_task_fact(task, HINT),
        .created_unix_ms = task->created_unix_ms,
        .started_unix_ms = task->started_unix_ms,
        .ended_unix_ms = task->ended_unix_ms,
        .log_bytes = task->log_bytes,
        .wants_source = task->wants_source,
    };
}

int atoll_tasks_find(struct atoll_tasks *tasks, const char *tenant, const char *id,
                     struct atoll_task_view *ret, struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, tenant, id, err);

    if (!task)
        return -ENOENT;
    view_of(task, ret);
    return 0;
}

static bool is_older(const struct atoll_task *task, int64_t created_unix_ms, const char *id)
{
    return task->created_unix_ms < created_unix_ms ||
           (task->created_unix_ms == created_unix_ms && strcmp(task->id, id) < 0);
}

bool atoll_tasks_before(struct atoll_tasks *tasks, const char *tenant, int64_t created_unix_ms,
                        const char *id, struct atoll_task_view *ret)
{
    struct atoll_task *task, *found = NULL;
    size_t pos = 0;

    while ((task = atoll_map_next(&tasks->by_id, &pos)))
        if ((!tenant || strcmp(task->tenant, tenant) == 0) && is_older(task, created_unix_ms, id) &&
            (!found || !is_older(task, found->created_unix_ms, found->id)))
            found = task;
    if (found)
        view_of(found, ret);
    return found != NULL;
}

static size_t count(struct atoll_tasks *tasks, const char *tenant, enum atoll_task_state from,
                    enum atoll_task_state to, struct atoll_task **ret_oldest)
{
    struct atoll_task *task, *oldest = NULL;
    size_t pos = 0, n = 0;

    while ((task = atoll_map_next(&tasks->by_id, &pos))) {
        if (strcmp(task->tenant, tenant) != 0 || task->state < from || task->state > to)
            continue;
        n++;
        if (!oldest || task->ended_unix_ms < oldest->ended_unix_ms)
            oldest = task; /* to end */
    }
    if (ret_oldest)
        *ret_oldest = oldest;
    return n;
}

size_t atoll_tasks_count(struct atoll_tasks *tasks, enum atoll_task_state state)
{
    const struct atoll_task *task;
    size_t pos = 0, n = 0;

    while ((task = atoll_map_next(&tasks->by_id, &pos)))
        n += task->state == state;
    return n;
}

/* --- life --- */

static void save(struct atoll_task *task)
{
    struct atoll_error error;

    if (atoll_task_store(task, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "task is not stored", "task", task->id, "error", error.text,
                  NULL);
}

/* A task whose row cannot be removed stays: the next daemon would have it again. */
static int forget(struct atoll_task *task, struct atoll_error *err)
{
    struct atoll_tasks *tasks = task->tasks;
    int r = atoll_store_drop_task(tasks->config.store, task->id, err);

    if (r < 0)
        return r;
    atoll_task_log_remove(tasks, task->id);
    (void)atoll_map_remove(&tasks->by_id, task->id);
    task_free(task);
    return 0;
}

static void begin(struct atoll_task *task)
{
    struct atoll_error error;

    task->state = ATOLL_TASK_RUNNING;
    if (!task->started_unix_ms)
        task->started_unix_ms = atoll_clock_unix_ms();
    if (task->log_fd < 0 && atoll_task_log_open(task, &error) < 0)
        atoll_log(ATOLL_LOG_WARN, "task has no log", "task", task->id, "error", error.text, NULL);
    atoll_task_run(task);
}

static double priority_of(const struct atoll_task *task)
{
    return json_number_value(atoll_task_object(task, "priority"));
}

/* The one with the highest priority, and of these the oldest, of a tenant that has a place. */
static struct atoll_task *next_admitted(struct atoll_tasks *tasks)
{
    struct atoll_task *best = NULL;

    ATOLL_LIST_FOREACH (&tasks->waiting, node) {
        struct atoll_task *task = ATOLL_CONTAINER_OF(node, struct atoll_task, queue);
        if ((!best || priority_of(task) > priority_of(best)) &&
            count(tasks, task->tenant, ATOLL_TASK_RUNNING, ATOLL_TASK_RUNNING, NULL) <
                ATOLL_TASKS_RUNNING_MAX)
            best = task;
    }
    return best;
}

/* Starts waiting tasks of tenants that have a place. A task that fails at once leads here again, from
 * within: the outermost call goes on. */
static void admit(struct atoll_tasks *tasks)
{
    struct atoll_task *task;

    if (tasks->draining || tasks->admitting)
        return;
    tasks->admitting = true;
    while ((task = next_admitted(tasks))) {
        atoll_list_remove(&task->queue);
        begin(task);
    }
    tasks->admitting = false;
}

void atoll_tasks_drain(struct atoll_tasks *tasks)
{
    struct atoll_task *task;
    size_t pos = 0;

    tasks->draining = true;
    while ((task = atoll_map_next(&tasks->by_id, &pos)))
        if (task->state == ATOLL_TASK_RUNNING && !*atoll_task_fact(task, ATOLL_TASK_CANCELED_BY)) {
            atoll_task_note_stop(task);
            save(task);
        }
}

/* Keeps the number of ended tasks of a tenant bounded. */
static void forget_oldest(void *arg)
{
    const struct atoll_task *task = arg;
    struct atoll_task *oldest;
    struct atoll_error error;

    if (count(task->tasks, task->tenant, ATOLL_TASK_SUCCEEDED, ATOLL_TASK_CANCELED, &oldest) >
            ATOLL_TASKS_ENDED_MAX &&
        forget(oldest, &error) < 0)
        atoll_log(ATOLL_LOG_ERROR, "task is not dropped", "task", oldest->id, "error", error.text,
                  NULL);
}

void atoll_task_ended(struct atoll_task *task, const struct atoll_error *error)
{
    struct atoll_tasks *tasks = task->tasks;

    task->state = !error                              ? ATOLL_TASK_SUCCEEDED
                  : error->kind == ATOLL_ERR_CANCELED ? ATOLL_TASK_CANCELED
                                                      : ATOLL_TASK_FAILED;
    task->error = error ? *error : (struct atoll_error){0};
    (void)json_object_del(task->facts, HINT);
    if (error && *error->hint)
        atoll_task_note(task, HINT, json_string(error->hint));
    task->ended_unix_ms = atoll_clock_unix_ms();
    (void)json_object_del(task->facts, ATOLL_TASK_CANCELED_BY);
    atoll_task_forget_stop(task);
    atoll_metric_add(ATOLL_METRIC_TASKS_ENDED, ATOLL_LABELS(state_names[task->state]), 1);
    if (!error)
        task->at = atoll_task_step_count();
    save(task);
    if (error)
        atoll_task_log(task, "error", "%s", error->text);
    else
        atoll_task_log(task, "success", "the task is done");
    atoll_task_log_close(task);
    atoll_task_changed(task);
    if (tasks->ended)
        tasks->ended(tasks->ended_arg, task->id);
    /* Not now: callers still use the tasks that may be forgotten. */
    atoll_timer_set(&task->pruning, tasks->config.loop, 0, forget_oldest, task);
    admit(tasks);
}

static int refuse_more(struct atoll_error *err)
{
    atoll_metric_add(ATOLL_METRIC_QUOTA_REFUSED, ATOLL_LABELS("tasks"), 1);
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EAGAIN,
                      "%d tasks are waiting already; try again when some have ended",
                      ATOLL_TASKS_WAITING_MAX);
}

int atoll_tasks_start(struct atoll_tasks *tasks, const char *tenant, json_t *request, char *ret_id,
                      struct atoll_error *err)
{
    struct atoll_task_agent agent;
    struct atoll_task *task;
    char id[ATOLL_ID_LEN + 1], **variables = NULL;
    json_t *runtime = NULL;
    int r = atoll_task_agent_find(tasks, request, &agent, err);

    if (r == 0)
        r = atoll_task_agent_defaults(tasks, request, &agent, err);
    if (r == 0)
        r = atoll_task_agent_takes(request, &agent, err);
    if (r == 0)
        r = atoll_task_budget_check(json_object_get(request, "budget"), &agent, err);
    if (r == 0)
        r = atoll_task_runtime(tasks, request, &runtime, err);
    if (r == 0)
        r = atoll_task_split_url(request, err);
    if (r == 0 && count(tasks, tenant, ATOLL_TASK_WAITING, ATOLL_TASK_WAITING, NULL) >=
                      ATOLL_TASKS_WAITING_MAX)
        r = refuse_more(err);
    if (r == 0 && json_dumpb(request, NULL, 0, JSON_COMPACT) > ATOLL_TASK_REQUEST_MAX)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                       "the request of a task has at most %zu KiB; files belong into the sandbox",
                       ATOLL_TASK_REQUEST_MAX / 1024);
    if (r < 0) {
        json_decref(request);
        json_decref(runtime);
        return r;
    }
    atoll_rand_id(id, ATOLL_ID_LEN);
    task = task_new(tasks, id, tenant);
    task->request = request;
    task->facts = json_object();
    task->created_unix_ms = atoll_clock_unix_ms();
    atoll_task_note(task, "agent", json_string(agent.name));
    if (runtime)
        atoll_task_note(task, "runtime", runtime);
    r = atoll_task_agent_env(task, agent.object, &variables, err); /* are its keys there? */
    atoll_task_strings_free(variables);
    if (r == 0)
        r = atoll_task_mcp_check(task, agent.object, err);
    if (r == 0)
        r = atoll_map_put(&tasks->by_id, task->id, task) < 0
                ? atoll_fail_errno(err, ENOMEM, "a task")
                : atoll_task_store(task, err);
    if (r < 0) {
        (void)atoll_map_remove(&tasks->by_id, task->id);
        task_free(task);
        return r;
    }
    memcpy(ret_id, task->id, sizeof(task->id));
    atoll_list_push_back(&tasks->waiting, &task->queue);
    admit(tasks);
    return 0;
}

void atoll_tasks_resume(struct atoll_tasks *tasks)
{
    struct atoll_task_view view = {.created_unix_ms = INT64_MAX, .id = ""};

    /* The newest first, so that the oldest is first in the list. */
    while (atoll_tasks_before(tasks, NULL, view.created_unix_ms, view.id, &view)) {
        struct atoll_task *task = atoll_map_get(&tasks->by_id, view.id);
        if (has_ended(task))
            continue;
        task->state = ATOLL_TASK_WAITING;
        atoll_list_push_back(tasks->waiting.next, &task->queue); /* in front */
    }
    admit(tasks);
}

void atoll_tasks_on_end(struct atoll_tasks *tasks, void (*ended)(void *arg, const char *id),
                        void *arg)
{
    tasks->ended = ended;
    tasks->ended_arg = arg;
}

int atoll_tasks_cancel(struct atoll_tasks *tasks, const char *id, const char *who,
                       struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);
    struct atoll_error canceled;
    int r = 0;

    if (!task)
        return -ENOENT;
    if (task->state == ATOLL_TASK_WAITING) {
        atoll_list_remove(&task->queue);
        (void)atoll_fail(&canceled, ATOLL_ERR_CANCELED, ECANCELED, "canceled by %s", who);
        atoll_task_ended(task, &canceled);
    } else if (task->state == ATOLL_TASK_RUNNING) {
        /* The next daemon has to know it. If it cannot be stored, this one ends the task all the same. */
        atoll_task_note(task, ATOLL_TASK_CANCELED_BY, json_string(who));
        r = atoll_task_store(task, err);
        atoll_task_interrupt(task, who);
    }
    return r;
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

bool atoll_task_has_sandbox(const struct atoll_task *task)
{
    struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_sandbox_view view;

    if (!sandbox)
        return false;
    atoll_sandbox_get(sandbox, &view);
    return view.state != ATOLL_SANDBOX_FAILED && view.state != ATOLL_SANDBOX_STOPPING &&
           view.state != ATOLL_SANDBOX_UNREACHABLE;
}

/* A task that begins anew gets another sandbox. The one that it made is removed, or what is left of it. */
static void drop_sandbox(struct atoll_task *task)
{
    struct atoll_engine *engine = task->tasks->config.engine;
    const char *id = atoll_task_fact(task, "sandbox_id");
    struct atoll_error ignored;

    if (!atoll_task_text(task, "sandboxId") && atoll_engine_find(engine, id)) {
        (void)!atoll_engine_set_name(engine, id, "", &ignored); /* the other one can have it now */
        atoll_engine_destroy(engine, id, "a task that begins anew", ignore, NULL);
    }
    (void)json_object_del(task->facts, "sandbox_id");
}

void atoll_task_anew(struct atoll_task *task)
{
    task->at = 0;
    task->attempt++;
    atoll_task_memory_forget(task);
    drop_sandbox(task);
    (void)json_object_del(task->facts, ATOLL_TASK_SOURCE);
}

/* Whether the repository would be cloned with credentials into a sandbox in which the agent, or what its setup
 * installs, has run and could read them. */
static bool would_show_password(const struct atoll_task *task)
{
    return task->at <= atoll_task_step_find("clone") && atoll_task_has_begun(task, "setup") &&
           atoll_task_has_password(task);
}

int atoll_tasks_retry(struct atoll_tasks *tasks, const char *id, const char *step,
                      const struct atoll_task_change *change, struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);
    size_t at = step ? atoll_task_step_find(step) : 0, failed_at;
    int r;

    if (!task)
        return -ENOENT;
    if (step && at == atoll_task_step_count())
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a task has no step %.64s",
                          step);
    if (task->state != ATOLL_TASK_FAILED && task->state != ATOLL_TASK_CANCELED)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the task is %s; only a failed or canceled one can be tried again",
                          state_names[task->state]);
    if (step && at > task->at)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the task has not come to the step %s yet", step);
    if (count(tasks, task->tenant, ATOLL_TASK_WAITING, ATOLL_TASK_WAITING, NULL) >=
        ATOLL_TASKS_WAITING_MAX)
        return refuse_more(err);
    failed_at = task->at;
    if (step)
        task->at = at;
    if (!atoll_task_has_sandbox(task) || would_show_password(task))
        task->at = 0;
    r = atoll_task_change(task, change, err);
    if (r < 0) {
        task->at = failed_at;
        return r;
    }
    atoll_task_budget_forget(task);
    atoll_task_memory_forget(task);
    if (task->at == 0)
        drop_sandbox(task);
    if (task->at <= atoll_task_step_find("clone")) /* the client may send another one */
        (void)json_object_del(task->facts, ATOLL_TASK_SOURCE);
    task->attempt++;
    task->error = (struct atoll_error){0};
    task->ended_unix_ms = 0;
    task->state = ATOLL_TASK_WAITING;
    save(task);
    atoll_list_push_back(&tasks->waiting, &task->queue);
    if (tasks->swarms)
        atoll_swarms_task_again(tasks->swarms, task->id);
    admit(tasks);
    return 0;
}

/* Whether a task is for this sandbox by its request, or runs there. */
static bool is_for_sandbox(const struct atoll_task *task, const char *sandbox_id)
{
    const char *given = atoll_task_text(task, "sandboxId");
    struct atoll_sandbox *sandbox;
    struct atoll_sandbox_view view;
    struct atoll_error ignored;

    if (strcmp(atoll_task_fact(task, "sandbox_id"), sandbox_id) == 0)
        return true;
    if (!given || atoll_engine_resolve(task->tasks->config.engine, task->tenant, false, given,
                                       &sandbox, &ignored) < 0)
        return false;
    atoll_sandbox_get(sandbox, &view);
    return strcmp(view.id, sandbox_id) == 0;
}

static bool is_needed(struct atoll_tasks *tasks, const char *sandbox_id)
{
    const struct atoll_task *task;
    size_t pos = 0;

    while ((task = atoll_map_next(&tasks->by_id, &pos)))
        if (!has_ended(task) && is_for_sandbox(task, sandbox_id))
            return true;
    return false;
}

int atoll_tasks_remove(struct atoll_tasks *tasks, const char *id, struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);
    char kept[ATOLL_ID_LEN + 1] = "";
    int r;

    if (!task)
        return -ENOENT;
    if (!has_ended(task))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBUSY,
                          "the task is %s; cancel it first", state_names[task->state]);
    if (atoll_task_drops_sandbox(task)) /* it was kept for a retry */
        (void)snprintf(kept, sizeof(kept), "%s", atoll_task_fact(task, "sandbox_id"));
    r = forget(task, err);
    if (r == 0 && *kept && atoll_engine_find(tasks->config.engine, kept) && !is_needed(tasks, kept))
        atoll_engine_destroy(tasks->config.engine, kept, "the removal of its task", ignore, NULL);
    return r;
}

int atoll_tasks_source(struct atoll_tasks *tasks, const char *id, char *ret_sandbox_id,
                       struct atoll_error *err)
{
    struct atoll_task *task = atoll_task_get(tasks, NULL, id, err);

    if (!task)
        return -ENOENT;
    if (!task->wants_source)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the task does not wait for a repository; its request has no "
                          "\"repo\": {\"upload\": true}, or it has it already");
    (void)snprintf(ret_sandbox_id, ATOLL_ID_LEN + 1, "%s", atoll_task_fact(task, "sandbox_id"));
    return 0;
}

void atoll_tasks_source_written(struct atoll_tasks *tasks, const char *id)
{
    struct atoll_task *task = atoll_map_get(&tasks->by_id, id);

    if (task && task->wants_source)
        atoll_task_go_on(task);
}
