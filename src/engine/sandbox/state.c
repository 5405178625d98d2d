#include "engine/sandbox/state.h"
#include "engine/engine_internal.h"

#define STORE true /* write the row */
#define KEEP false /* the row stays */
#define AT(phase, event, next, store, announce) \
    [ATOLL_PHASE_##phase][ATOLL_ON_##event] = {ATOLL_PHASE_##next, store, announce}

/* What is not in the table is not possible. */
static const struct atoll_transition table[ATOLL_PHASES][ATOLL_PHASE_EVENTS] = {
    AT(CREATING, RUNS, RUNNING, STORE, NULL),
    AT(CREATING, UNDO, DESTROYING, KEEP, NULL),
    AT(CREATING, DESTROY, DESTROYING, KEEP, NULL),
    AT(CREATING, DROPPED, DEPARTING, KEEP, NULL),

    AT(RUNNING, CREATED, RUNNING, KEEP, "sandbox.created"),
    AT(RUNNING, UNDO, DESTROYING, KEEP, NULL),
    AT(RUNNING, PAUSE, PAUSING, KEEP, NULL),
    AT(RUNNING, STOP, HALTING, STORE, NULL),
    AT(RUNNING, DIED, FAILED, STORE, "sandbox.failed"),
    AT(RUNNING, RECREATE, RECREATING, KEEP, NULL),
    AT(RUNNING, RESTORE, RESTORING, STORE, NULL),
    AT(RUNNING, NO_ANSWER, UNREACHABLE_RUNNING, KEEP, NULL),
    AT(RUNNING, DESTROY, DESTROYING, STORE, NULL),

    AT(PAUSING, CREATED, PAUSING, KEEP, "sandbox.created"),
    AT(PAUSING, PREPARED, FREEZING, STORE, NULL),
    AT(PAUSING, NOT_PAUSED, RUNNING, KEEP, NULL),
    AT(PAUSING, RESUME, PAUSING, KEEP, NULL),
    AT(PAUSING, STOP, HALTING, STORE, NULL),
    AT(PAUSING, DIED, FAILED, STORE, "sandbox.failed"),
    AT(PAUSING, RECREATE, RECREATING, KEEP, NULL),
    AT(PAUSING, DESTROY, DESTROYING, STORE, NULL),

    AT(FREEZING, FROZEN, PAUSED, KEEP, "sandbox.paused"),
    AT(FREEZING, NOT_PAUSED, RUNNING, STORE, NULL),
    AT(FREEZING, RESUME, FREEZING, KEEP, NULL),
    AT(FREEZING, STOP, HALTING, STORE, NULL),
    AT(FREEZING, DIED, FAILED, STORE, "sandbox.failed"),
    AT(FREEZING, DESTROY, DESTROYING, STORE, NULL),

    AT(PAUSED, RESUME, RESUMING, KEEP, NULL),
    AT(PAUSED, STOP, HALTING, STORE, NULL),
    AT(PAUSED, DIED, FAILED, STORE, "sandbox.failed"),
    AT(PAUSED, NO_ANSWER, UNREACHABLE_PAUSED, KEEP, NULL),
    AT(PAUSED, DESTROY, DESTROYING, STORE, NULL),

    AT(RESUMING, RUNS, RUNNING, STORE, "sandbox.resumed"),
    AT(RESUMING, RESUME, RESUMING, KEEP, NULL),
    AT(RESUMING, NOT_RESUMED, PAUSED, KEEP, NULL),
    AT(RESUMING, STOP, HALTING, STORE, NULL),
    AT(RESUMING, DIED, FAILED, STORE, "sandbox.failed"),
    AT(RESUMING, DESTROY, DESTROYING, STORE, NULL),

    AT(HALTING, RESUME, HALTING, KEEP, NULL),
    AT(HALTING, STOP, HALTING, KEEP, NULL),
    AT(HALTING, HALTED, STOPPED, STORE, "sandbox.stopped"),
    AT(HALTING, NOT_HALTED, FAILED, STORE, NULL),
    AT(HALTING, DESTROY, DESTROYING, STORE, NULL),

    AT(STOPPED, RESUME, STARTING, KEEP, NULL),
    AT(STOPPED, STOP, HALTING, STORE, NULL), /* if its disk is unwritten */
    AT(STOPPED, NO_ANSWER, UNREACHABLE_STOPPED, KEEP, NULL),
    AT(STOPPED, DESTROY, DESTROYING, STORE, NULL),

    AT(STARTING, RUNS, RUNNING, STORE, "sandbox.started"),
    AT(STARTING, RESUME, STARTING, KEEP, NULL),
    AT(STARTING, NOT_RESUMED, STOPPED, KEEP, NULL),
    AT(STARTING, STOP, HALTING, STORE, NULL),
    AT(STARTING, DESTROY, DESTROYING, STORE, NULL),

    AT(RECREATING, RUNS, RUNNING, STORE, "sandbox.recreated"),
    AT(RECREATING, RESUME, RECREATING, KEEP, NULL),
    AT(RECREATING, GIVE_UP, FAILED, STORE, "sandbox.failed"),
    AT(RECREATING, DESTROY, DESTROYING, STORE, NULL),

    AT(RESTORING, RUNS, RUNNING, STORE, "sandbox.restored"),
    AT(RESTORING, RESUME, RESTORING, KEEP, NULL),
    AT(RESTORING, NOT_RESTORED, RUNNING, STORE, NULL),
    AT(RESTORING, GIVE_UP, FAILED, STORE, "sandbox.failed"),
    AT(RESTORING, DESTROY, DESTROYING, STORE, NULL),

    AT(UNRESTORED, RESTORE, RESTORING, KEEP, NULL),
    AT(UNRESTORED, DESTROY, DESTROYING, STORE, NULL),

    AT(FAILED, STOP, HALTING, STORE, NULL),
    AT(FAILED, PROCESSES_GONE, STOPPED, STORE, NULL),
    AT(FAILED, DESTROY, DESTROYING, STORE, NULL),
    AT(FAILED, NOT_REMOVED, FAILED, KEEP, NULL),
    AT(FAILED, DROPPED, DEPARTING, KEEP, NULL), /* of the pool: no client needs its record */

    AT(UNREACHABLE_RUNNING, STOP, HALTING, STORE, NULL),
    AT(UNREACHABLE_RUNNING, NO_ANSWER, UNREACHABLE_RUNNING, KEEP, NULL),
    AT(UNREACHABLE_RUNNING, LISTED, RUNNING, KEEP, NULL),
    AT(UNREACHABLE_RUNNING, DESTROY, DESTROYING, STORE, NULL),

    AT(UNREACHABLE_PAUSED, STOP, HALTING, STORE, NULL),
    AT(UNREACHABLE_PAUSED, NO_ANSWER, UNREACHABLE_PAUSED, KEEP, NULL),
    AT(UNREACHABLE_PAUSED, LISTED, PAUSED, KEEP, NULL),
    AT(UNREACHABLE_PAUSED, DESTROY, DESTROYING, STORE, NULL),

    AT(UNREACHABLE_STOPPED, STOP, HALTING, STORE, NULL),
    AT(UNREACHABLE_STOPPED, NO_ANSWER, UNREACHABLE_STOPPED, KEEP, NULL),
    AT(UNREACHABLE_STOPPED, LISTED, STOPPED, KEEP, NULL),
    AT(UNREACHABLE_STOPPED, DESTROY, DESTROYING, STORE, NULL),

    AT(INTERRUPTED, LISTED, DESTROYING, KEEP, NULL),
    AT(INTERRUPTED, DESTROY, INTERRUPTED, KEEP, NULL),

    AT(DESTROYING, DESTROY, DESTROYING, KEEP, NULL),
    AT(DESTROYING, NOT_REMOVED, UNREMOVED, KEEP, NULL),
    AT(DESTROYING, DROPPED, DEPARTING, KEEP, NULL),
    AT(DESTROYING, NOT_DROPPED, UNDROPPED, KEEP, NULL),

    AT(UNREMOVED, LISTED, DESTROYING, KEEP, NULL),
    AT(UNREMOVED, DESTROY, DESTROYING, KEEP, NULL),

    AT(UNDROPPED, DESTROY, DESTROYING, KEEP, NULL),
    AT(UNDROPPED, DROPPED, DEPARTING, KEEP, NULL),
    AT(UNDROPPED, NOT_DROPPED, UNDROPPED, KEEP, NULL),

    AT(DEPARTING, DESTROY, DEPARTING, KEEP, NULL),
    AT(DEPARTING, ENDED, DEPARTING, KEEP, "sandbox.destroyed"),
};

#define SHOWN(state) .shown = ATOLL_SANDBOX_##state
#define STORED(state) .stored = ATOLL_SANDBOX_##state

static const struct atoll_phase_facts facts[ATOLL_PHASES] = {
    [ATOLL_PHASE_NONE] = {"none", SHOWN(CREATING), .stored = ATOLL_NOT_STORED},
    [ATOLL_PHASE_CREATING] = {"creating", SHOWN(CREATING), .stored = ATOLL_NOT_STORED,
                              .pending = true},
    [ATOLL_PHASE_RUNNING] = {"running", SHOWN(RUNNING), STORED(RUNNING), .steady = true},
    [ATOLL_PHASE_PAUSING] = {"pausing", SHOWN(RUNNING), STORED(RUNNING)},
    [ATOLL_PHASE_FREEZING] = {"freezing", SHOWN(PAUSED), STORED(PAUSED)},
    [ATOLL_PHASE_PAUSED] = {"paused", SHOWN(PAUSED), STORED(PAUSED), .steady = true},
    [ATOLL_PHASE_RESUMING] = {"resuming", SHOWN(PAUSED), STORED(PAUSED)},
    [ATOLL_PHASE_HALTING] = {"halting", SHOWN(STOPPING), STORED(STOPPED), .explained = true,
                             .pending = true},
    [ATOLL_PHASE_STOPPED] = {"stopped", SHOWN(STOPPED), STORED(STOPPED), .explained = true,
                             .steady = true},
    [ATOLL_PHASE_STARTING] = {"starting", SHOWN(CREATING), STORED(STOPPED), .explained = true,
                              .pending = true},
    [ATOLL_PHASE_RECREATING] = {"recreating", SHOWN(CREATING), STORED(RUNNING), .explained = true,
                                .pending = true},
    [ATOLL_PHASE_RESTORING] = {"restoring", SHOWN(CREATING), .stored = ATOLL_STORED_RESTORING,
                               .pending = true},
    [ATOLL_PHASE_UNRESTORED] = {"unrestored", SHOWN(CREATING), .stored = ATOLL_STORED_RESTORING},
    [ATOLL_PHASE_FAILED] = {"failed", SHOWN(FAILED), STORED(FAILED), .explained = true,
                            .steady = true},
    [ATOLL_PHASE_UNREACHABLE_RUNNING] = {"unreachable_running", SHOWN(UNREACHABLE), STORED(RUNNING),
                                         .explained = true, .steady = true},
    [ATOLL_PHASE_UNREACHABLE_PAUSED] = {"unreachable_paused", SHOWN(UNREACHABLE), STORED(PAUSED),
                                        .explained = true, .steady = true},
    [ATOLL_PHASE_UNREACHABLE_STOPPED] = {"unreachable_stopped", SHOWN(UNREACHABLE), STORED(STOPPED),
                                         .explained = true, .steady = true},
    [ATOLL_PHASE_INTERRUPTED] = {"interrupted", SHOWN(STOPPING), STORED(STOPPING),
                                 .explained = true},
    [ATOLL_PHASE_DESTROYING] = {"destroying", SHOWN(STOPPING), STORED(STOPPING), .explained = true},
    [ATOLL_PHASE_UNREMOVED] = {"unremoved", SHOWN(FAILED), STORED(STOPPING), .explained = true,
                               .steady = true},
    [ATOLL_PHASE_UNDROPPED] = {"undropped", SHOWN(FAILED), STORED(STOPPING), .explained = true,
                               .steady = true},
    [ATOLL_PHASE_DEPARTING] = {"departing", SHOWN(STOPPING), .stored = ATOLL_NOT_STORED,
                               .explained = true},
};

const char *atoll_phase_event_name(enum atoll_phase_event event)
{
    static const char *const names[] = {
        "runs",    "created",      "undo",           "pause",       "prepared",
        "frozen",  "not_paused",   "resume",         "not_resumed", "stop",
        "halted",  "not_halted",   "processes_gone", "died",        "recreate",
        "restore", "not_restored", "give_up",        "no_answer",   "listed",
        "destroy", "not_removed",  "dropped",        "not_dropped", "ended"};
    _Static_assert(ATOLL_ARRAY_LEN(names) == ATOLL_PHASE_EVENTS, "each event has a name");
    return names[event];
}

const struct atoll_phase_facts *atoll_phase_facts(enum atoll_phase phase)
{
    return &facts[phase];
}

const struct atoll_transition *atoll_transition(enum atoll_phase phase,
                                                enum atoll_phase_event event)
{
    const struct atoll_transition *t = &table[phase][event];

    return t->to == ATOLL_PHASE_NONE ? NULL : t;
}

enum atoll_sandbox_state atoll_sandbox_state(const struct atoll_sandbox *s)
{
    return facts[s->phase].shown;
}

bool atoll_sandbox_allows(const struct atoll_sandbox *s, enum atoll_phase_event event)
{
    return atoll_transition(s->phase, event) != NULL;
}

bool atoll_sandbox_would_move(const struct atoll_sandbox *s, enum atoll_phase_event event)
{
    const struct atoll_transition *t = atoll_transition(s->phase, event);

    return t && t->to != s->phase;
}
