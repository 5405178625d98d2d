#pragma once
#include <stdbool.h>
#include "base/error.h"
#include "engine/engine.h"

/*
 * The life of a sandbox as one table: (phase, event) → (phase, what is stored and announced). The
 * phase is exact; the state that clients see and the state in the store are derived from it.
 * docs/sandbox-states.md has the picture.
 */

enum atoll_phase {
    ATOLL_PHASE_NONE,     /* no phase: an event that is not possible */
    ATOLL_PHASE_CREATING, /* made for the first time; it has no row yet */
    ATOLL_PHASE_RUNNING,
    ATOLL_PHASE_PAUSING,  /* its agent prepares for the freeze */
    ATOLL_PHASE_FREEZING, /* its provider freezes it */
    ATOLL_PHASE_PAUSED,
    ATOLL_PHASE_RESUMING,
    ATOLL_PHASE_HALTING, /* its processes are being ended, its disk is kept */
    ATOLL_PHASE_STOPPED, /* only its disk exists */
    ATOLL_PHASE_STARTING,
    ATOLL_PHASE_RECREATING, /* its provider lost it, and it is made again */
    ATOLL_PHASE_RESTORING,  /* it is made again with the files of a snapshot */
    /* A dead daemon was restoring it; waits for its provider's list. */
    ATOLL_PHASE_UNRESTORED,
    ATOLL_PHASE_FAILED, /* kept as a record of the cause until a client destroys it */
    /* Loaded from the store, and its provider has not answered: the state in the store is all that
     * is known. */
    ATOLL_PHASE_UNREACHABLE_RUNNING,
    ATOLL_PHASE_UNREACHABLE_PAUSED,
    ATOLL_PHASE_UNREACHABLE_STOPPED,
    ATOLL_PHASE_INTERRUPTED, /* a dead daemon was destroying it; waits for its provider's list */
    ATOLL_PHASE_DESTROYING,
    ATOLL_PHASE_UNREMOVED, /* its provider could not remove it: the destroy is retried */
    ATOLL_PHASE_UNDROPPED, /* it is gone, but its row could not be dropped: that is retried */
    ATOLL_PHASE_DEPARTING, /* its row is dropped; depart.c frees it */
};
#define ATOLL_PHASES (ATOLL_PHASE_DEPARTING + 1)

enum atoll_phase_event {
    ATOLL_ON_RUNS,           /* its agent is connected: after create, resume, start, recreate */
    ATOLL_ON_CREATED,        /* the client that asked for it gets it */
    ATOLL_ON_UNDO,           /* the create failed after the provider had made it */
    ATOLL_ON_PAUSE,          /* a pause was asked for */
    ATOLL_ON_PREPARED,       /* the agent is ready for the freeze */
    ATOLL_ON_FROZEN,         /* the provider has frozen it */
    ATOLL_ON_NOT_PAUSED,     /* the pause failed: it continues to run */
    ATOLL_ON_RESUME,         /* a resume was asked for: it is thawed or started again */
    ATOLL_ON_NOT_RESUMED,    /* that failed: it stays paused or stopped */
    ATOLL_ON_STOP,           /* end its processes, keep its disk */
    ATOLL_ON_HALTED,         /* its processes are ended */
    ATOLL_ON_NOT_HALTED,     /* they could not be ended */
    ATOLL_ON_PROCESSES_GONE, /* processes that could not be ended are gone now */
    ATOLL_ON_DIED,           /* its first process ended without a request */
    ATOLL_ON_RECREATE,       /* the same, but it is made again */
    ATOLL_ON_RESTORE,        /* it is to be made again with the files of a snapshot */
    ATOLL_ON_NOT_RESTORED,   /* that could not be stored: it continues to run */
    ATOLL_ON_GIVE_UP,        /* it could not be made again */
    ATOLL_ON_NO_ANSWER,      /* after a restart: its provider does not list its sandboxes */
    ATOLL_ON_LISTED,         /* after a restart: its provider has listed its sandboxes */
    ATOLL_ON_DESTROY,        /* a destroy was asked for */
    ATOLL_ON_NOT_REMOVED,    /* the provider could not remove what it holds of the sandbox */
    ATOLL_ON_DROPPED,        /* nothing is left of it at the provider, and its row is dropped */
    ATOLL_ON_NOT_DROPPED,    /* the store could not drop its row */
    ATOLL_ON_ENDED,          /* its commands are dropped too */
};
#define ATOLL_PHASE_EVENTS (ATOLL_ON_ENDED + 1)

struct atoll_transition {
    enum atoll_phase to;  /* its own phase: nothing changes, the request waits */
    bool store;           /* write the row */
    const char *announce; /* kind of the event for clients, or NULL */
};

#define ATOLL_NOT_STORED (-1)
#define ATOLL_STORED_RESTORING 100 /* only in the store; clients see CREATING */
struct atoll_phase_facts {
    const char *name;
    enum atoll_sandbox_state shown; /* what clients see */
    int stored;     /* enum atoll_sandbox_state from which the next daemon continues, or
                   ATOLL_STORED_RESTORING, or ATOLL_NOT_STORED */
    bool explained; /* atoll_sandbox.cause is kept: why it is in this phase */
    /* The callback of a request to the provider is still to come; it continues a destroy that is
     * asked for meanwhile. */
    bool pending;
    bool steady; /* no operation is in progress */
};

const struct atoll_phase_facts *atoll_phase_facts(enum atoll_phase phase);
const char *atoll_phase_event_name(enum atoll_phase_event event);
/* NULL: the event is not possible in that phase. */
const struct atoll_transition *atoll_transition(enum atoll_phase phase,
                                                enum atoll_phase_event event);

struct atoll_sandbox;

/* What clients see. */
enum atoll_sandbox_state atoll_sandbox_state(const struct atoll_sandbox *sandbox);
/* Whether the event is possible now. */
bool atoll_sandbox_allows(const struct atoll_sandbox *sandbox, enum atoll_phase_event event);
/* Whether it would bring the sandbox into another phase. */
bool atoll_sandbox_would_move(const struct atoll_sandbox *sandbox, enum atoll_phase_event event);
/* enter.c: the only way to another phase: enters it, writes the row, announces it. An event that is not
 * possible is a defect of the engine and aborts. why: the cause, and the detail of the announcement;
 * NULL: the cause stays. A row that cannot be written is written again later. */
void atoll_sandbox_apply(struct atoll_sandbox *sandbox, enum atoll_phase_event event,
                         const char *why);
/* The same. The error says that the row was not written; the phase is the new one nevertheless. */
int atoll_sandbox_apply_stored(struct atoll_sandbox *sandbox, enum atoll_phase_event event,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets the phase of a sandbox that was just loaded. DATA_LOSS: there is no such state. */
int atoll_sandbox_load_phase(struct atoll_sandbox *sandbox, int stored,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
