#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/state/capture_queue.h"

/*
 * Carries out what the table of state.c says: the only place where a sandbox enters a phase, where
 * that is stored and where clients are told.
 */

static void enter(struct atoll_sandbox *s, enum atoll_phase to, const char *cause)
{
    int was = atoll_phase_facts(s->phase)->stored, is = atoll_phase_facts(to)->stored;

    s->phase = to;
    (void)snprintf(s->cause, sizeof(s->cause), "%s", atoll_phase_facts(to)->explained ? cause : "");
    if (to == ATOLL_PHASE_RUNNING)
        s->paused_unix_ms = 0;
    if (is != was && (is == ATOLL_SANDBOX_PAUSED || is == ATOLL_SANDBOX_STOPPED)) {
        s->paused_unix_ms = atoll_clock_unix_ms();
        s->expires_unix_ms = 0; /* the deadline is armed again when it runs */
        atoll_timer_cancel(&s->deadline);
    }
    atoll_capture_next_soon(s);
}

static int apply(struct atoll_sandbox *s, enum atoll_phase_event event, const char *why,
                 struct atoll_error *err)
{
    const struct atoll_transition *t = atoll_transition(s->phase, event);
    char detail[sizeof(s->cause)];
    int r;

    if (!t) {
        atoll_log(ATOLL_LOG_ERROR, "impossible event for a sandbox", "sandbox", s->spec.id, "phase",
                  atoll_phase_facts(s->phase)->name, "event", atoll_phase_event_name(event), NULL);
        abort();
    }
    (void)snprintf(detail, sizeof(detail), "%s", why ? why : s->cause);
    enter(s, t->to, detail);
    r = t->store ? atoll_persist_sandbox(s, err) : 0;
    if (t->announce)
        atoll_events_emit(s->engine, t->announce, s, "", detail);
    return r;
}

void atoll_sandbox_apply(struct atoll_sandbox *s, enum atoll_phase_event event, const char *why)
{
    struct atoll_error err;

    (void)!apply(s, event, why, &err);
}

int atoll_sandbox_apply_stored(struct atoll_sandbox *s, enum atoll_phase_event event,
                               struct atoll_error *err)
{
    return apply(s, event, NULL, err);
}

int atoll_sandbox_load_phase(struct atoll_sandbox *s, int stored, struct atoll_error *err)
{
    static const enum atoll_phase phases[] = {
        /* Of an older daemon, which died during the create: undo it. */
        [ATOLL_SANDBOX_CREATING] = ATOLL_PHASE_INTERRUPTED,
        [ATOLL_SANDBOX_RUNNING] = ATOLL_PHASE_RUNNING,
        [ATOLL_SANDBOX_STOPPING] = ATOLL_PHASE_INTERRUPTED,
        [ATOLL_SANDBOX_FAILED] = ATOLL_PHASE_FAILED,
        [ATOLL_SANDBOX_PAUSED] = ATOLL_PHASE_PAUSED,
        [ATOLL_SANDBOX_STOPPED] = ATOLL_PHASE_STOPPED,
    };

    if (stored == ATOLL_STORED_RESTORING) {
        s->phase = ATOLL_PHASE_UNRESTORED;
        return 0;
    }
    if (stored < 0 || (size_t)stored >= ATOLL_ARRAY_LEN(phases))
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "stored sandbox has the state %d",
                          stored);
    s->phase = phases[stored];
    return 0;
}
