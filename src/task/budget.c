#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "task/task_internal.h"

/*
 * What a task uses: figures for its answer, and budgets that end it. Tokens and cost are those that the
 * agent reports, CPU time is the sandbox's, wall time the task's; each is counted anew by a retry.
 */
#define CHECK_MS 1000

static double budget_of(const struct atoll_task *task, const char *name)
{
    return json_number_value(json_object_get(atoll_task_object(task, "budget"), name));
}

static void exceed(struct atoll_task *task, const char *name, double used)
{
    struct atoll_error error;

    if (task->steps.error.kind != ATOLL_ERR_NONE)
        return;
    (void)atoll_fail(
        &error, ATOLL_ERR_RESOURCE_EXHAUSTED, EDQUOT,
        "the budget of the task is used up: %s is %.6g, and %.6g is used; raise it with "
        "`atoll task retry --budget %s=N %s%s`",
        name, budget_of(task, name), used, name, task->id, atoll_task_repo_option(task));
    atoll_task_stop(task, &error);
}

static bool is_used_up(const struct atoll_task *task, const char *name, double used)
{
    double most = budget_of(task, name);

    return most > 0 && used > most;
}

void atoll_task_budget_usage(struct atoll_task *task)
{
    double tokens = atoll_task_used(task, "input_tokens") + atoll_task_used(task, "output_tokens");
    double cost = atoll_task_used(task, "cost_usd");

    if (is_used_up(task, "tokens", tokens))
        exceed(task, "tokens", tokens);
    else if (is_used_up(task, "costUsd", cost))
        exceed(task, "costUsd", cost);
}

/* --- what agents report --- */

/* The members of a budget that only the agent can count, and the fields of rules for its output. */
static const struct {
    const char *name, *fields[2];
} reported[] = {{"tokens", {"inputTokens", "outputTokens"}}, {"costUsd", {"costUsd", "costUsd"}}};

/* Whether a rule for the output has it; `early`: one that is not about the total at the end. */
static bool reports(const json_t *agent, size_t which, bool early)
{
    const json_t *rules = json_object_get(agent, "output");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const json_t *rule = json_array_get(rules, i);
        if (early && json_is_true(json_object_get(rule, "total")))
            continue;
        if (json_object_get(rule, reported[which].fields[0]) ||
            json_object_get(rule, reported[which].fields[1]))
            return true;
    }
    return false;
}

int atoll_task_budget_check(const json_t *budget, const struct atoll_task_agent *agent,
                            struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(reported); i++)
        if (json_object_get(budget, reported[i].name) && !reports(agent->object, i, false))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "budget.%s: the agent %.64s does not report it; give cpuSeconds or "
                              "wallSeconds",
                              reported[i].name, agent->name);
    return 0;
}

void atoll_task_budget_warn(struct atoll_task *task, const json_t *agent)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(reported); i++)
        if (budget_of(task, reported[i].name) > 0 && !reports(agent, i, true))
            atoll_task_log(
                task, "info",
                "the agent reports budget.%s only at its end; cpuSeconds and wallSeconds "
                "end it earlier",
                reported[i].name);
}

/* --- figures --- */

/* A request for figures; the task may be gone when they come. */
struct asking {
    struct atoll_tasks *tasks;
    char id[ATOLL_ID_LEN + 1];
    void (*got)(struct atoll_task *task, const struct atoll_sandbox_stats *stats);
};

static void answered(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct asking *asking = arg;
    struct atoll_task *task = atoll_map_get(&asking->tasks->by_id, asking->id);

    if (task)
        asking->got(task, error || stats->cpu_unknown ? NULL : stats);
    free(asking);
}

void atoll_task_figures(struct atoll_task *task,
                        void (*got)(struct atoll_task *task,
                                    const struct atoll_sandbox_stats *stats))
{
    struct asking *asking = atoll_alloc(sizeof(*asking));

    asking->tasks = task->tasks;
    asking->got = got;
    memcpy(asking->id, task->id, sizeof(asking->id));
    atoll_engine_figures(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id"), answered,
                         asking);
}

/* --- while it runs --- */

static void check(void *arg);

static void check_later(struct atoll_task *task)
{
    if (task->state == ATOLL_TASK_RUNNING && task->steps.error.kind == ATOLL_ERR_NONE)
        atoll_timer_set(&task->budget_timer, task->tasks->config.loop, CHECK_MS, check, task);
}

static void check_cpu(struct atoll_task *task, const struct atoll_sandbox_stats *stats)
{
    double base = json_number_value(json_object_get(task->facts, "_cpu_base"));

    if (task->state != ATOLL_TASK_RUNNING)
        return;
    if (stats && (!json_object_get(task->facts, "_cpu_base") || base > stats->cpu_seconds)) {
        base = task->attempt > 1 ? stats->cpu_seconds : 0;
        atoll_task_note(task, "_cpu_base", json_real(base));
    }
    if (stats && is_used_up(task, "cpuSeconds", stats->cpu_seconds - base))
        exceed(task, "cpuSeconds", stats->cpu_seconds - base);
    else
        check_later(task);
}

static void check(void *arg)
{
    struct atoll_task *task = arg;
    double begun = json_number_value(json_object_get(task->facts, "_begun_ms"));
    double wall_s = ((double)atoll_clock_unix_ms() - begun) / 1000;

    if (is_used_up(task, "wallSeconds", wall_s))
        exceed(task, "wallSeconds", wall_s);
    else if (budget_of(task, "cpuSeconds") > 0 &&
             atoll_engine_find(task->tasks->config.engine, atoll_task_fact(task, "sandbox_id")))
        atoll_task_figures(task, check_cpu);
    else
        check_later(task);
}

void atoll_task_budget_begin(struct atoll_task *task)
{
    if (!json_object_get(task->facts, "_begun_ms"))
        atoll_task_note(task, "_begun_ms", json_integer(atoll_clock_unix_ms()));
    if (budget_of(task, "cpuSeconds") > 0 || budget_of(task, "wallSeconds") > 0)
        atoll_timer_set(&task->budget_timer, task->tasks->config.loop, CHECK_MS, check, task);
}

void atoll_task_budget_forget(struct atoll_task *task)
{
    (void)json_object_del(task->facts, "_begun_ms");
    (void)json_object_del(task->facts, "_cpu_base");
    atoll_task_used_earlier(task);
}

/* --- at its end --- */

static void note_figures(struct atoll_task *task, const struct atoll_sandbox_stats *stats)
{
    json_t *usage = json_object_get(task->facts, "usage");

    if (!usage) {
        usage = json_object();
        atoll_task_note(task, "usage", usage);
    }
    (void)json_object_set_new(
        usage, "wall_seconds",
        json_real((double)(atoll_clock_unix_ms() - task->started_unix_ms) / 1000));
    if (stats) {
        (void)json_object_set_new(usage, "cpu_seconds", json_real(stats->cpu_seconds));
        (void)json_object_set_new(usage, "memory_peak_bytes",
                                  json_integer((json_int_t)stats->memory_peak_bytes));
        (void)json_object_set_new(usage, "disk_bytes", json_integer((json_int_t)stats->disk_bytes));
        (void)json_object_set_new(
            usage, "network_bytes",
            json_integer((json_int_t)(stats->net_rx_bytes + stats->net_tx_bytes)));
    }
    task->next(task);
}

void atoll_task_measure(struct atoll_task *task, void (*next)(struct atoll_task *task))
{
    task->next = next;
    atoll_task_figures(task, note_figures);
}
