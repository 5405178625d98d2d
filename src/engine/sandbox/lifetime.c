#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/engine_internal.h"
#include "engine/state/capture_queue.h"

/*
 * Deadlines, leases, idle time and budgets of sandboxes.
 *
 * One timer for all sandboxes fires when the first of them may have expired. A use only moves that
 * moment to later and does not change the timer: the timer checks when it fires. The CPU time of a
 * sandbox with a CPU budget is read once a second.
 *
 * A spent budget ends the commands, not the sandbox: their output can still be read.
 */

#define CPU_EVERY_MS 1000
#define SOONEST_MS 20
#define CHANGE_MS 500  /* retry while a pause, a stop or a snapshot is in progress */
#define AGAIN_MS 10000 /* retry of a failed stop */
/* If killed processes used this much CPU time since, some still run. */
#define STILL_BURNING_US 200000

static const struct {
    const char *cause; /* label of the metric */
    const char *who;   /* in the results of its commands */
    bool always_destroys;
} overs[] = {
    [ATOLL_OVER_DEADLINE] = {"deadline", "the sandbox's time limit", false},
    [ATOLL_OVER_IDLE] = {"idle", "the sandbox's idle time", false},
    [ATOLL_OVER_LEASE] = {"lease", "the lease ran out", true},
    [ATOLL_OVER_CONNECTION] = {"connection", "its lease: the connection closed", true},
};

static void schedule(struct atoll_engine *engine, int64_t at_ms);

/* Expiry. */

/* A pause or a stop in progress. */
struct suspending {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    enum atoll_over why;
    bool pause;
};

static void destroy(struct atoll_sandbox *s, enum atoll_over why)
{
    s->life.cause = overs[why].cause;
    atoll_sandbox_destroy(s, overs[why].who, NULL, NULL);
}

static void on_suspended(void *arg, const struct atoll_error *error)
{
    struct suspending *a = arg;
    struct atoll_sandbox *s = atoll_map_get(&a->engine->sandboxes, a->id);

    if (!error)
        atoll_metric_add(ATOLL_METRIC_SANDBOXES_ENDED,
                         ATOLL_LABELS(overs[a->why].cause, a->pause ? "paused" : "stopped"), 1);
    if (error && s && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING) {
        atoll_log(ATOLL_LOG_ERROR, "sandbox not paused or stopped", "sandbox", a->id, "why",
                  overs[a->why].cause, "error", error->text, NULL);
        s->life.used_ms = atoll_clock_ms();
        if (!s->options.lifetime.persistent)
            destroy(s, a->why);
        else if (a->why == ATOLL_OVER_DEADLINE) /* retry instead of destroying a persistent disk */
            atoll_sandbox_arm_deadline_in(s, AGAIN_MS);
    }
    free(a);
}

static void suspend(struct atoll_sandbox *s, enum atoll_over why)
{
    struct suspending *a = atoll_alloc(sizeof(*a));

    *a = (struct suspending){.engine = s->engine,
                             .why = why,
                             .pause = s->options.lifetime.at_deadline != ATOLL_DEADLINE_DESTROY};
    memcpy(a->id, s->spec.id, sizeof(a->id));
    if (a->pause)
        atoll_sandbox_pause_now(s, s->options.lifetime.at_deadline == ATOLL_DEADLINE_PAUSE,
                                overs[why].who, on_suspended, a);
    else
        atoll_engine_stop(s->engine, a->id, overs[why].who, ATOLL_STOP_WRITTEN, on_suspended, a);
}

static bool is_kept(const struct atoll_sandbox *s, enum atoll_over why)
{
    return !overs[why].always_destroys &&
           (s->options.lifetime.persistent ||
            s->options.lifetime.at_deadline != ATOLL_DEADLINE_DESTROY);
}

void atoll_lifetime_over(struct atoll_sandbox *s, enum atoll_over why)
{
    bool runs = s->phase == ATOLL_PHASE_RUNNING, always = overs[why].always_destroys;
    /* A failed sandbox is only a record to be destroyed, unless it is persistent and its disk must
     * be kept. */
    bool is_record =
        atoll_sandbox_state(s) == ATOLL_SANDBOX_FAILED && !s->options.lifetime.persistent;

    s->overdue = false;
    atoll_capture_next_soon(s);
    if (!always && (s->snapping || s->phase == ATOLL_PHASE_PAUSING ||
                    s->phase == ATOLL_PHASE_RECREATING || s->phase == ATOLL_PHASE_RESTORING)) {
        s->overdue = true;
        atoll_sandbox_arm_deadline_in(s, CHANGE_MS); /* retry after the change */
        return;
    }
    if (!atoll_sandbox_would_move(s, ATOLL_ON_DESTROY) || !(runs || always || is_record))
        return;
    if (runs || always)
        atoll_events_emit(s->engine, "sandbox.expired", s, "", overs[why].who);
    if (runs && is_kept(s, why))
        suspend(s, why);
    else
        destroy(s, why);
}

void atoll_engine_connection_closed(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (s && s->options.lifetime.connection_lease)
        atoll_lifetime_over(s, ATOLL_OVER_CONNECTION);
}

void atoll_lifetime_ended(struct atoll_sandbox *s, bool failed)
{
    const char *cause = s->life.cause ? s->life.cause : "request";

    if (s->hidden || s->life.counted)
        return;
    s->life.counted = true;
    atoll_metric_add(ATOLL_METRIC_SANDBOXES_ENDED,
                     failed ? ATOLL_LABELS("failed", "failed") : ATOLL_LABELS(cause, "destroyed"),
                     1);
}

/* Budgets. */

static bool cpu_is_spent(const struct atoll_sandbox *s)
{
    return s->options.lifetime.cpu_budget_s > 0 &&
           s->cpu_spent_us + s->life.cpu_us >= (uint64_t)s->options.lifetime.cpu_budget_s * 1000000;
}

static bool output_is_spent(const struct atoll_sandbox *s)
{
    return s->options.lifetime.output_budget_bytes > 0 &&
           s->life.output_bytes >= s->options.lifetime.output_budget_bytes;
}

static void describe_budget(const struct atoll_sandbox *s, char *out, size_t cap)
{
    if (cpu_is_spent(s))
        (void)snprintf(out, cap, "the sandbox's CPU budget of %u s is spent",
                       s->options.lifetime.cpu_budget_s);
    else
        (void)snprintf(out, cap, "the sandbox's output budget of %llu bytes is spent",
                       (unsigned long long)s->options.lifetime.output_budget_bytes);
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

/* Kills all processes: background processes that the commands left would continue to use CPU. */
static void kill_processes(struct atoll_sandbox *s)
{
    char who[100];
    struct atoll_am_signal msg = {ATOLL_EXEC_EVERY, SIGKILL, true, who};
    struct atoll_error err;

    describe_budget(s, who, sizeof(who));
    s->life.killed_us = s->life.cpu_us;
    if (!s->life.spent)
        atoll_events_emit(s->engine, "sandbox.budget_spent", s, "", who);
    s->life.spent = true;
    (void)!atoll_sandbox_ask(s, ATOLL_AGENT_EXEC_SIGNAL, &atoll_am_signal_desc, &msg, ignore, NULL,
                             &err);
}

static void check_cpu(struct atoll_sandbox *s)
{
    if (cpu_is_spent(s) &&
        (!s->life.spent || s->life.cpu_us > s->life.killed_us + STILL_BURNING_US))
        kill_processes(s);
}

struct looking {
    struct atoll_engine *engine;
    char id[ATOLL_ID_LEN + 1];
    bool enforce; /* check the budget */
};

static void on_stats(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    struct looking *l = arg;
    struct atoll_sandbox *s = atoll_map_get(&l->engine->sandboxes, l->id);

    if (!error && s && atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING) {
        s->life.cpu_us = ATOLL_MAX(s->life.cpu_us, (uint64_t)(stats->cpu_seconds * 1e6));
        check_cpu(s);
    }
    free(l);
}

static void on_measured(void *arg, const struct atoll_provider_stats *stats,
                        const struct atoll_error *error)
{
    struct looking *l = arg;
    struct atoll_sandbox *s = atoll_map_get(&l->engine->sandboxes, l->id);
    bool is_known = !error && stats->cpu_us > 0;

    if (s)
        s->life.looking = false;
    if (s && is_known)
        s->life.cpu_us = ATOLL_MAX(s->life.cpu_us, stats->cpu_us);
    if (s && is_known && l->enforce)
        check_cpu(s);
    if (s && !is_known && l->enforce)
        atoll_engine_stats(l->engine, l->id, on_stats, l); /* the agent sums over the processes */
    else
        free(l);
}

/* Asks the provider for the CPU time; a provider on this host answers before this returns. */
static void measure(const struct atoll_sandbox *s, bool enforce)
{
    struct atoll_sandbox *mine = atoll_map_get(&s->engine->sandboxes, s->spec.id);
    struct looking *l;

    if (mine != s || s->life.looking)
        return;
    l = atoll_alloc(sizeof(*l));
    l->engine = s->engine;
    l->enforce = enforce;
    memcpy(l->id, s->spec.id, sizeof(l->id));
    mine->life.looking = true;
    s->provider->ops->stats(s->provider, &s->spec, on_measured, l);
}

static void look_at_cpu(struct atoll_sandbox *s)
{
    s->life.looked_ms = atoll_clock_ms();
    measure(s, true);
}

uint64_t atoll_lifetime_cpu_us(const struct atoll_sandbox *s)
{
    if (s->options.lifetime.cpu_budget_s == 0 || !atoll_sandbox_allows(s, ATOLL_ON_DIED))
        return s->cpu_spent_us;
    measure(s, false);
    return s->cpu_spent_us + s->life.cpu_us;
}

void atoll_lifetime_settle(struct atoll_sandbox *s)
{
    s->cpu_spent_us = atoll_lifetime_cpu_us(s);
    s->life.cpu_us = 0;
}

int atoll_lifetime_admit(struct atoll_sandbox *s, struct atoll_error *err)
{
    char what[100];

    if (!cpu_is_spent(s) && !output_is_spent(s))
        return 0;
    describe_budget(s, what, sizeof(what));
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ETIME,
                      "%s; its files can still be read, commands need a new sandbox", what);
}

void atoll_lifetime_output(struct atoll_sandbox *s, uint64_t bytes)
{
    uint64_t most = s->options.lifetime.output_budget_bytes;

    s->life.output_bytes += bytes;
    /* A command that has used exactly its budget is not killed. */
    if (most > 0 && s->life.output_bytes > most && !s->life.spent)
        kill_processes(s);
}

static uint64_t output_of(const struct atoll_exec *x)
{
    return x->journal.seen[ATOLL_STREAM_STDOUT] + x->journal.seen[ATOLL_STREAM_STDERR];
}

void atoll_lifetime_forget(struct atoll_sandbox *s, const struct atoll_exec *x)
{
    s->output_spent_bytes += output_of(x);
    if (s->options.lifetime.output_budget_bytes > 0)
        atoll_persist_sandbox_later(s);
}

void atoll_lifetime_recount(struct atoll_sandbox *s)
{
    s->life.output_bytes = s->output_spent_bytes;
    ATOLL_LIST_FOREACH (&s->exec_list, node)
        s->life.output_bytes += output_of(ATOLL_CONTAINER_OF(node, struct atoll_exec, node));
}

/* Idle time and leases. */

static bool has_running_exec(const struct atoll_sandbox *s)
{
    /* The newest exec first: it is the most likely to run. */
    for (const struct atoll_list *node = s->exec_list.prev; node != &s->exec_list;
         node = node->prev) {
        const struct atoll_exec *x = ATOLL_CONTAINER_OF(node, struct atoll_exec, node);
        if (!x->ended && !x->resting)
            return true;
    }
    return false;
}

static bool is_bounded(const struct atoll_sandbox *s)
{
    return s->phase == ATOLL_PHASE_RUNNING && !s->hidden &&
           (s->options.lifetime.idle_s > 0 || s->options.lifetime.lease_s > 0 ||
            s->options.lifetime.cpu_budget_s > 0);
}

static int64_t idle_at(const struct atoll_sandbox *s)
{
    return s->options.lifetime.idle_s > 0
               ? s->life.used_ms + (int64_t)s->options.lifetime.idle_s * 1000
               : INT64_MAX;
}

static int64_t lease_at(const struct atoll_sandbox *s)
{
    return s->options.lifetime.lease_s > 0
               ? s->life.heartbeat_ms + (int64_t)s->options.lifetime.lease_s * 1000
               : INT64_MAX;
}

static int64_t look_at(const struct atoll_sandbox *s)
{
    return s->options.lifetime.cpu_budget_s > 0 ? s->life.looked_ms + CPU_EVERY_MS : INT64_MAX;
}

/* Finds a sandbox that has expired, and why; NULL when there is none. */
static struct atoll_sandbox *find_over(struct atoll_engine *engine, int64_t now,
                                       enum atoll_over *ret_why)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        if (!is_bounded(s))
            continue;
        *ret_why = lease_at(s) <= now ? ATOLL_OVER_LEASE : ATOLL_OVER_IDLE;
        if (lease_at(s) <= now)
            return s;
        if (idle_at(s) > now)
            continue;
        if (!has_running_exec(s) && s->life.uses == 0)
            return s;
        s->life.used_ms = now;
    }
    return NULL;
}

static void reap(void *arg)
{
    struct atoll_engine *engine = arg;
    int64_t now = atoll_clock_ms(), next = INT64_MAX;
    struct atoll_sandbox *s;
    enum atoll_over why;
    size_t pos = 0;

    /* Searches from the start each time: destroying a sandbox may add or remove others. */
    while ((s = find_over(engine, now, &why)) != NULL)
        atoll_lifetime_over(s, why);
    while ((s = atoll_map_next(&engine->sandboxes, &pos)) != NULL) {
        if (!is_bounded(s))
            continue;
        if (look_at(s) <= now)
            look_at_cpu(s);
        next = ATOLL_MIN(next, ATOLL_MIN(look_at(s), ATOLL_MIN(idle_at(s), lease_at(s))));
    }
    if (next != INT64_MAX)
        schedule(engine, next);
}

static void schedule(struct atoll_engine *engine, int64_t at_ms)
{
    int64_t after_ms = ATOLL_MAX(at_ms - atoll_clock_ms(), (int64_t)SOONEST_MS);

    if (!engine->reaper.loop || engine->reaper.at_ms > at_ms)
        atoll_timer_set(&engine->reaper, engine->loop, after_ms, reap, engine);
}

void atoll_lifetime_begin(struct atoll_sandbox *s)
{
    s->life.used_ms = s->life.heartbeat_ms = atoll_clock_ms();
    s->life.spent = false;
    s->life.cpu_us = s->life.killed_us = 0;
    atoll_lifetime_recount(s);
    atoll_lifetime_output(s, 0);
    if (!is_bounded(s))
        return;
    if (s->options.lifetime.cpu_budget_s > 0)
        look_at_cpu(s);
    schedule(s->engine, ATOLL_MIN(look_at(s), ATOLL_MIN(idle_at(s), lease_at(s))));
}

void atoll_engine_touch(struct atoll_engine *engine, const char *id)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (s)
        s->life.used_ms = atoll_clock_ms();
}

void atoll_engine_use(struct atoll_engine *engine, const char *id, int by)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return; /* it was destroyed while the use lasted */
    s->life.used_ms = atoll_clock_ms();
    if (by > 0)
        s->life.uses++;
    else if (s->life.uses > 0)
        s->life.uses--;
}

int atoll_engine_set_idle(struct atoll_engine *engine, const char *id, uint32_t seconds,
                          enum atoll_at_deadline then, struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);

    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s", id);
    s->options.lifetime.idle_s = seconds;
    s->options.lifetime.at_deadline = then;
    s->life.used_ms = atoll_clock_ms();
    atoll_persist_sandbox_later(s);
    if (is_bounded(s))
        schedule(engine, idle_at(s));
    return 0;
}

void atoll_exec_set_resting(struct atoll_exec *x, bool resting)
{
    x->resting = resting;
    if (x->sandbox)
        x->sandbox->life.used_ms = atoll_clock_ms();
}

int atoll_engine_heartbeat(struct atoll_engine *engine, const char *id, struct atoll_error *err)
{
    struct atoll_sandbox *s = NULL;
    int r = atoll_engine_look(engine, id, &s, err);

    if (r < 0)
        return r;
    if (s->options.lifetime.lease_s == 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "sandbox %s has no lease; a lease is set when the sandbox is created",
                          id);
    s->life.heartbeat_ms = atoll_clock_ms();
    return 0;
}
