#include <errno.h>
#include <signal.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "task/task_internal.h"

/*
 * The steps of a task. Each can be run again from its beginning: what it did before is found or repeated
 * without harm. A step that takes too long is stopped; one that failed because a server was not reached
 * is tried again.
 */
#define RETRY_MS 2000 /* doubled for each try */
#define RETRY_MAX_MS 60000
#define WHO "a task"
#define KILL_AGAIN_MS 100 /* commands of a task that an earlier daemon was to cancel */
#define KILLS_MAX 300

static void check(struct atoll_task *task);
static void clean_up(struct atoll_task *task);

static const struct {
    const char *name, *text;
    int percent;
    uint32_t timeout_s, tries; /* unless the request says otherwise; 0: the step has its own time */
    void (*run)(struct atoll_task *task);
} table[] = {
    {"sandbox", "creating the sandbox", 0, 900, 3, atoll_task_sandbox},
    {"install", "installing the agent", 5, 1800, 1, atoll_task_install},
    {"clone", "getting the repository", 15, 1800, 3, atoll_task_source},
    {"branch", "making the branch", 22, 300, 1, atoll_task_branch},
    {"setup", "setting up", 25, 1800, 1, atoll_task_set_up},
    {"run", "running the agent", 45, 0, 1, atoll_task_run_agent},
    {"check", "checking the result", 75, 1800, 1, check},
    {"capture", "comparing the files", 80, 600, 1, atoll_task_capture},
    {"commit", "committing", 85, 600, 1, atoll_task_commit},
    {"push", "pushing", 90, 1800, 3, atoll_task_push},
    {"open", "opening the result", 94, 300, 3, atoll_task_open},
    {"cleanup", "cleaning up", 97, 900, 3, clean_up},
};
#define COUNT ATOLL_ARRAY_LEN(table)

size_t atoll_task_step_count(void)
{
    return COUNT;
}

const char *atoll_task_step_name(size_t at)
{
    return at < COUNT ? table[at].name : "";
}

int atoll_task_step_percent(size_t at)
{
    return at < COUNT ? table[at].percent : 100;
}

size_t atoll_task_step_find(const char *name)
{
    size_t i = 0;

    while (i < COUNT && strcmp(table[i].name, name) != 0)
        i++;
    return i;
}

bool atoll_tasks_is_step(const char *name)
{
    return atoll_task_step_find(name) < COUNT;
}

/* --- records --- */

/* What the answer says about a step: {"step", "state", "tries", "started_ms", "ended_ms", "log_offset"}. */
static json_t *record_of(struct atoll_task *task)
{
    json_t *records = json_object_get(task->facts, "steps"), *record;
    const char *name = table[task->at].name;

    if (!records) {
        records = json_array();
        atoll_task_note(task, "steps", records);
    }
    for (size_t i = 0; i < json_array_size(records); i++) {
        record = json_array_get(records, i);
        if (strcmp(json_string_value(json_object_get(record, "step")), name) == 0)
            return record;
    }
    record = json_pack("{s:s}", "step", name);
    (void)json_array_append_new(records, record);
    return record;
}

unsigned atoll_task_step_tries(struct atoll_task *task)
{
    return (unsigned)json_integer_value(json_object_get(record_of(task), "tries"));
}

bool atoll_task_has_begun(const struct atoll_task *task, const char *step)
{
    const json_t *records = json_object_get(task->facts, "steps");

    for (size_t i = 0; i < json_array_size(records); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(records, i), "step")), step) ==
            0)
            return true;
    return false;
}

static void record_begin(struct atoll_task *task)
{
    json_t *record = record_of(task);
    json_int_t tries = json_integer_value(json_object_get(record, "tries"));

    (void)json_object_set_new(record, "state", json_string("running"));
    (void)json_object_set_new(record, "tries", json_integer(tries + 1));
    (void)json_object_set_new(record, "started_ms", json_integer(atoll_clock_unix_ms()));
    (void)json_object_set_new(record, "log_offset", json_integer((json_int_t)task->log_bytes));
    (void)json_object_del(record, "ended_ms");
    (void)json_object_del(record, "error");
}

static void record_end(struct atoll_task *task, const struct atoll_error *error)
{
    json_t *record = record_of(task);

    (void)json_object_set_new(record, "state",
                              json_string(error           ? "failed"
                                          : task->skipped ? "skipped"
                                                          : "succeeded"));
    task->skipped = false;
    (void)json_object_set_new(record, "ended_ms", json_integer(atoll_clock_unix_ms()));
    if (error)
        (void)json_object_set_new(record, "error", json_string(atoll_error_kind_name(error->kind)));
}

/* --- the runner --- */

/* What the request says about the current step: "steps": {"clone": {"timeoutSeconds": 60, "tries": 5}}. */
static double step_setting(const struct atoll_task *task, const char *name, double otherwise)
{
    const json_t *settings =
        json_object_get(atoll_task_object(task, "steps"), table[task->at].name);
    const json_t *value = json_object_get(settings, name);

    return value ? json_number_value(value) : otherwise;
}

static double step_seconds(const struct atoll_task *task)
{
    return step_setting(task, "timeoutSeconds", table[task->at].timeout_s);
}

uint32_t atoll_task_step_ms(const struct atoll_task *task)
{
    return (uint32_t)(1000 * step_seconds(task));
}

static void say_too_long(const struct atoll_task *task, struct atoll_error *err)
{
    (void)atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the step took longer than %.6g s; \"steps\": {\"%s\": "
                     "{\"timeoutSeconds\": N}} of the task sets the time",
                     step_seconds(task), table[task->at].name);
}

static void takes_too_long(void *arg)
{
    struct atoll_task *task = arg;
    struct atoll_error error;

    say_too_long(task, &error);
    (void)atoll_wrap(&error, "%s", table[task->at].text);
    atoll_task_stop(task, &error);
}

static void begin_step(struct atoll_task *task)
{
    uint32_t timeout_ms = atoll_task_step_ms(task);
    struct atoll_error error;

    record_begin(task);
    if (atoll_task_store(task, &error) < 0) {
        atoll_task_step_done(task, &error);
        return;
    }
    if (timeout_ms > 0)
        atoll_timer_set(&task->step_timer, task->tasks->config.loop, timeout_ms, takes_too_long,
                        task);
    atoll_task_sandbox_extend(task);
    atoll_task_changed(task);
    table[task->at].run(task);
}

static void run_step(void *arg)
{
    struct atoll_task *task = arg;

    task->at = task->steps.at;
    task->tries = 0;
    begin_step(task);
}

static void try_again(void *arg)
{
    begin_step(arg);
}

/* Whether the step is tried once more: a server or a provider did not answer. */
static bool is_tried_again(struct atoll_task *task, const struct atoll_error *error)
{
    uint32_t tries = (uint32_t)step_setting(task, "tries", table[task->at].tries);
    int64_t wait_ms = (int64_t)RETRY_MS << ATOLL_MIN(task->tries, 5u);

    if (task->steps.error.kind != ATOLL_ERR_NONE ||
        (error->kind != ATOLL_ERR_UNAVAILABLE && error->kind != ATOLL_ERR_DEADLINE_EXCEEDED &&
         !(error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED && error->retry_ms > 0)) ||
        task->tries + 1 >= tries)
        return false;
    task->tries++;
    wait_ms = ATOLL_MIN(ATOLL_MAX(wait_ms, (int64_t)error->retry_ms), RETRY_MAX_MS);
    atoll_task_log(task, "info", "%s; trying again", error->text);
    atoll_timer_set(&task->timer, task->tasks->config.loop, wait_ms, try_again, task);
    return true;
}

void atoll_task_step_done(struct atoll_task *task, const struct atoll_error *error)
{
    struct atoll_error wrapped;

    atoll_timer_cancel(&task->step_timer);
    if (error && is_tried_again(task, error))
        return;
    if (error) {
        wrapped = *error;
        (void)atoll_wrap(&wrapped, "%s", table[task->at].text);
        error = &wrapped;
    }
    record_end(task, task->steps.error.kind != ATOLL_ERR_NONE ? &task->steps.error : error);
    atoll_steps_done(&task->steps, error);
}

void atoll_task_step_skip(struct atoll_task *task)
{
    task->skipped = true;
    atoll_task_step_done(task, NULL);
}

static const char *cleanup_of(const struct atoll_task *task)
{
    const json_t *automatic = atoll_task_object(task, "autoCleanup");
    const char *cleanup = atoll_task_text(task, "cleanup");

    if (cleanup)
        return cleanup;
    return automatic ? (json_is_true(automatic) ? "always" : "never") : "success";
}

static bool is_own_sandbox(const struct atoll_task *task)
{
    return !atoll_task_text(task, "sandboxId");
}

bool atoll_task_drops_sandbox(const struct atoll_task *task)
{
    return is_own_sandbox(task) && strcmp(cleanup_of(task), "never") != 0;
}

/* --- the end of a task that failed --- */

static void removed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error why = task->steps.error;

    if (error && error->kind != ATOLL_ERR_NOT_FOUND)
        atoll_log(ATOLL_LOG_WARN, "sandbox of a task is not removed", "task", task->id, "error",
                  error->text, NULL);
    atoll_task_ended(task, &why);
}

static void kept(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;
    struct atoll_error why = task->steps.error;

    if (error)
        atoll_task_log(task, "info", "files are not captured: %s", error->text);
    atoll_task_sandbox_keep(task);
    atoll_task_ended(task, &why);
}

static void leave(struct atoll_task *task)
{
    if (strcmp(cleanup_of(task), "always") == 0 && is_own_sandbox(task))
        atoll_engine_destroy(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), WHO,
                             removed, task);
    else if (atoll_task_captures(task))
        atoll_task_capture_now(task, kept);
    else
        kept(task, NULL);
}

static void measure_and_leave(struct atoll_task *task)
{
    atoll_task_measure(task, leave);
}

static void flow_done(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    atoll_timer_cancel(&task->budget_timer);
    if (error && atoll_task_is_stopped(task))
        return; /* the next daemon goes on */
    if (!error || !*atoll_task_fact(task, "sandbox_id")) {
        atoll_task_ended(task, error);
        return;
    }
    task->steps.error = *error;
    atoll_task_apart_sweep(task, measure_and_leave);
}

static void end_commands(void *arg);

/* Goes on with a cancellation that an earlier daemon has stored: no step begins any more. */
static void run_canceled(struct atoll_task *task, const char *who)
{
    atoll_steps_cancel(&task->steps, who);
    task->tries = 0;
    end_commands(task);
}

static void begin_steps(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    if (error) {
        record_end(task, error);
        atoll_steps_stop(&task->steps, error);
    }
    atoll_steps_start(&task->steps);
}

static void set_limits(void *arg, const struct atoll_error *error)
{
    const struct atoll_task *task = arg;
    struct atoll_error failed;

    if (error)
        (void)atoll_fail(
            &failed, error->kind, error->errnum,
            "%.250s; `atoll task retry %s sandbox%s` makes another sandbox with the new "
            "limits",
            error->text, task->id, atoll_task_repo_option(task));
    begin_steps(arg, error ? &failed : NULL);
}

void atoll_task_run(struct atoll_task *task)
{
    static struct atoll_step steps[COUNT];
    const char *canceled_by = atoll_task_fact(task, ATOLL_TASK_CANCELED_BY);
    struct atoll_error error;
    int r = *canceled_by ? 0 : atoll_task_after_stop(task, &error);

    for (size_t i = 0; i < COUNT; i++)
        steps[i] = (struct atoll_step){table[i].text, run_step, NULL};
    task->steps = (struct atoll_steps){
        .steps = steps, .count = COUNT, .arg = task, .done = flow_done, .at = task->at};
    if (*canceled_by) {
        run_canceled(task, canceled_by);
        return;
    }
    atoll_task_budget_begin(task);
    if (r < 0)
        begin_steps(task, &error);
    else
        atoll_task_set_limits(task, set_limits);
}

static void ignore(void *arg ATOLL_UNUSED, const struct atoll_error *error ATOLL_UNUSED)
{
}

/* Kills the commands of the sandbox that are the task's, and returns how many there are. only_marked: none
 * but those that its steps have started. */
static size_t kill_commands(struct atoll_task *task, bool only_marked, const char *who)
{
    struct atoll_sandbox *sandbox =
        atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"));
    struct atoll_exec *exec;
    size_t pos = 0, n = 0;

    while (sandbox && (exec = atoll_sandbox_next_exec(sandbox, &pos))) {
        struct atoll_exec_view view;
        atoll_exec_get(exec, &view);
        if (view.result || (only_marked && !atoll_task_has_mark(task, view.argv)))
            continue;
        atoll_exec_signal(exec, SIGKILL, true, who, ignore, NULL);
        n++;
    }
    return n;
}

void atoll_task_kill_commands(struct atoll_task *task, const char *who)
{
    if (is_own_sandbox(task))
        (void)kill_commands(task, false, who);
}

/* What still runs is killed until it has ended: the sandbox may not be connected yet. */
static void end_commands(void *arg)
{
    struct atoll_task *task = arg;
    const char *who = atoll_task_fact(task, ATOLL_TASK_CANCELED_BY);

    if (task->tries < KILLS_MAX && kill_commands(task, !is_own_sandbox(task), who) > 0) {
        task->tries++;
        atoll_timer_set(&task->step_timer, task->tasks->config.loop, KILL_AGAIN_MS, end_commands,
                        task);
        return;
    }
    if (task->at < COUNT)
        record_end(task, &task->steps.error);
    atoll_steps_start(&task->steps); /* which has failed already: only its end follows */
}

/* Ends what the current step waits for. */
static void interrupt(struct atoll_task *task, const char *who)
{
    struct atoll_error error = task->steps.error;
    bool waits = task->timer.loop != NULL;

    atoll_timer_cancel(&task->timer);
    task->wants_source = false;
    if (waits) {
        atoll_task_step_done(task, &error);
        return;
    }
    atoll_task_program_kill(task);
    atoll_task_command_kill(task, who);
    atoll_task_kill_commands(task, who);
    atoll_task_apart_interrupt(task);
}

void atoll_task_interrupt(struct atoll_task *task, const char *who)
{
    atoll_steps_cancel(&task->steps, who);
    interrupt(task, who);
}

void atoll_task_stop(struct atoll_task *task, const struct atoll_error *error)
{
    atoll_steps_stop(&task->steps, error);
    interrupt(task, WHO);
}

/* --- commands --- */

void atoll_task_command_ended(struct atoll_task *task, const struct atoll_exec_result *result,
                              const char *tail, const struct atoll_error *error)
{
    struct atoll_error failed;
    char how[300];

    if (!error && result->kind == ATOLL_END_TIMED_OUT) {
        say_too_long(task, &failed);
        error = &failed;
    } else if (!error && atoll_task_ran_out(task, result, tail, &failed)) {
        error = &failed;
    } else if (!error && !(result->kind == ATOLL_END_EXITED && result->code == 0)) {
        atoll_task_describe_end(result, how, sizeof(how));
        (void)atoll_fail(&failed, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "the command %s%s%.400s",
                         how, *tail ? ": " : "", tail);
        error = &failed;
    }
    atoll_task_step_done(task, error);
}

void atoll_task_shell(struct atoll_task *task, const char *name, const char *text,
                      void (*done)(struct atoll_task *task, const struct atoll_exec_result *result,
                                   const char *tail, const struct atoll_error *error))
{
    const char *const argv[] = {"/bin/sh", "-c", text, NULL};

    atoll_task_command_run(
        task, &(struct atoll_task_command_request){.name = name,
                                                   .argv = argv,
                                                   .shown = text,
                                                   .timeout_ms = atoll_task_step_ms(task),
                                                   .done = done});
}

static void check(struct atoll_task *task)
{
    const char *text = atoll_task_text(task, "check");

    if (text)
        atoll_task_shell(task, "check", text, atoll_task_command_ended);
    else
        atoll_task_step_skip(task);
}

/* --- the end --- */

static void destroyed(void *arg, const struct atoll_error *error)
{
    struct atoll_task *task = arg;

    atoll_task_step_done(task, error && error->kind != ATOLL_ERR_NOT_FOUND ? error : NULL);
}

static void captured(void *arg, const struct atoll_error *error)
{
    atoll_task_step_done(arg, error);
}

static void conclude(struct atoll_task *task)
{
    if (strcmp(cleanup_of(task), "never") == 0 || !is_own_sandbox(task))
        atoll_task_capture_now(task, captured);
    else
        atoll_engine_destroy(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), WHO,
                             destroyed, task);
}

static void clean_up(struct atoll_task *task)
{
    atoll_task_measure(task, conclude);
}
