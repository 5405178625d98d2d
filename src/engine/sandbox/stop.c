#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "engine/state/capture_queue.h"
#include "engine/state/checkpoint.h"

/*
 * Persistent sandboxes: running → stopped (only the disk exists) → running on that disk. The row
 * says stopped before any process is ended and until the sandbox runs again, so that if the daemon
 * dies in between, the next one can only stop or start it.
 */

static void on_halted(void *arg, const struct atoll_error *error);

static void take_down(struct atoll_sandbox *s)
{
    s->removing = true;
    s->spec.unwritten = s->stop_disk == ATOLL_STOP_UNWRITTEN;
    if (s->remains)
        s->provider->ops->stop(s->provider, &s->spec, on_halted, s);
    else
        on_halted(s, NULL);
}

static void on_halted(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg; /* not freed before this callback */
    char why[200];

    s->removing = false;
    if (s->phase == ATOLL_PHASE_DESTROYING) { /* meanwhile */
        atoll_sandbox_remove_remains(s);
        return;
    }
    s->remains = true;                                                       /* its disk */
    if (!error && s->spec.unwritten && s->stop_disk == ATOLL_STOP_WRITTEN) { /* likewise */
        take_down(s);
        return;
    }
    s->stop_disk = ATOLL_STOP_WRITTEN;
    if (error) {
        atoll_log(ATOLL_LOG_ERROR, "sandbox cannot be stopped", "sandbox", s->spec.id, "error",
                  error->text, NULL);
        (void)snprintf(why, sizeof(why), "it could not be stopped: %.150s", error->text);
        atoll_sandbox_apply(s, ATOLL_ON_NOT_HALTED, why);
    } else {
        atoll_sandbox_apply(s, ATOLL_ON_HALTED, NULL);
    }
    if (!atoll_list_empty(&s->resumers)) {
        if (error)
            atoll_waiters_tell(&s->resumers, error);
        else
            atoll_sandbox_begin_resume(s);
    }
    atoll_waiters_tell(&s->stoppers, error);
}

void atoll_sandbox_halt(struct atoll_sandbox *s, enum atoll_end_kind kind, const char *who,
                        const char *cause)
{
    atoll_lifetime_settle(s);
    atoll_sandbox_apply(s, ATOLL_ON_STOP, cause);
    s->removing = true;
    atoll_sandbox_abort_resumes(s, "it is being stopped");
    atoll_sandbox_end_reattach(s);
    atoll_network_detach(s);
    atoll_exec_end_all(s, kind, who);
    atoll_sandbox_drop_agent(s, "the sandbox is being stopped");
    atoll_checkpoints_refuse_starts(s);
    take_down(s);
}

void atoll_sandbox_stop(struct atoll_sandbox *s, const char *who, enum atoll_stop_disk disk,
                        atoll_done_fn *done, void *arg)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];

    if (s->phase == ATOLL_PHASE_STOPPED && (!s->spec.unwritten || disk == ATOLL_STOP_UNWRITTEN)) {
        done(arg, NULL);
        return;
    }
    if (atoll_list_empty(&s->stoppers) || disk == ATOLL_STOP_WRITTEN)
        s->stop_disk = disk;
    atoll_waiters_add(&s->stoppers, done, arg);
    /* The end of a command is told with its checkpoint. */
    memcpy(id, s->spec.id, sizeof(id));
    if (s->phase == ATOLL_PHASE_RUNNING && !atoll_capture_in_progress(s))
        atoll_checkpoints_hurry(s);
    s = atoll_map_get(&engine->sandboxes, id);
    /* A sandbox that is being started is stopped as soon as it runs, and one of which a snapshot is
     * made after that. */
    if (s && s->phase != ATOLL_PHASE_STARTING && !atoll_capture_in_progress(s) &&
        atoll_sandbox_would_move(s, ATOLL_ON_STOP))
        atoll_sandbox_halt(s, ATOLL_END_KILLED_BY, who, "");
}

void atoll_engine_stop(struct atoll_engine *engine, const char *id, const char *who,
                       enum atoll_stop_disk disk, atoll_done_fn *done, void *arg)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, id);
    struct atoll_sandbox *running;
    struct atoll_error err;
    int r = 0;

    if (s && !s->options.lifetime.persistent)
        r = atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "sandbox %s is not persistent: nothing of it could be kept; destroy it, or "
                       "create one with \"persistent\": true",
                       id);
    else if (!s || !atoll_sandbox_allows(s, ATOLL_ON_STOP) ||
             atoll_sandbox_state(s) == ATOLL_SANDBOX_UNREACHABLE)
        r = atoll_engine_look(engine, id, &running, &err);
    if (r < 0)
        done(arg, &err);
    else
        atoll_sandbox_stop(s, who, disk, done, arg);
}

/* Starting again. */

static void stays_stopped(struct atoll_sandbox *s, const struct atoll_error *error)
{
    atoll_sandbox_apply(s, ATOLL_ON_NOT_RESUMED, NULL);
    s->remains = true;
    atoll_waiters_tell(&s->resumers, error);
    atoll_waiters_tell(&s->stoppers, NULL);
}

/* Its commands can use the network from the first one on. */
static void on_attached(void *arg, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg; /* not freed before this callback, as during a create */

    if (s->phase == ATOLL_PHASE_DESTROYING) { /* meanwhile */
        atoll_sandbox_remove_remains(s);
        return;
    }
    if (error) {
        atoll_waiters_tell(&s->resumers, error);
        atoll_sandbox_halt(s, ATOLL_END_LOST, error->text, error->text);
        return;
    }
    atoll_sandbox_tell_agent(s);
    atoll_sandbox_arm_deadline(s);
    atoll_sandbox_runs_again(s, "");
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_RUNNING && !atoll_list_empty(&s->stoppers))
        atoll_sandbox_halt(s, ATOLL_END_KILLED_BY, "a stop requested while it was being started",
                           "");
}

static void on_started(void *arg, int agent_fd, uint64_t boot_us, const struct atoll_error *error)
{
    struct atoll_sandbox *s = arg; /* not freed before this callback, as during a create */
    struct atoll_error err;

    s->spec.resume_disk = s->spec.unwritten = false;
    if (s->phase == ATOLL_PHASE_DESTROYING) { /* meanwhile */
        if (agent_fd >= 0)
            atoll_engine_discard(s->engine, s->spec.id, agent_fd);
        atoll_sandbox_remove_remains(s);
        return;
    }
    if (error) {
        stays_stopped(s, error);
        return;
    }
    atoll_tenant_recount(s);
    s->boot_ms = (double)boot_us / 1000;
    s->last_cpu_us = 0;
    s->last_cpu_ms = atoll_clock_ms();
    if (atoll_sandbox_open_agent(s, agent_fd, &err) < 0)
        on_attached(s, &err);
    else
        atoll_network_attach(s, on_attached, s);
}

void atoll_sandbox_start_again(struct atoll_sandbox *s)
{
    struct atoll_error err;

    if (!s->options.env && atoll_env_load(s, &err) < 0) {
        atoll_waiters_tell(&s->resumers, &err);
        return;
    }
    atoll_sandbox_apply(s, ATOLL_ON_RESUME, NULL);
    s->spec.resume_disk = true;
    /* Its disk may be of an earlier version, and gets it now. */
    s->spec.history_bytes = atoll_place_history(s->provider, &s->options, &s->spec.limits);
    atoll_sandbox_make(s, on_started);
}
