#pragma once
#include "base/error.h"
#include "loop/loop.h"

/*
 * A flow of several asynchronous steps as a table. The steps run in order. If one fails, or the
 * flow is cancelled or exceeds its deadline, the steps that succeeded are undone in reverse order.
 *
 * A running step is never abandoned: after a cancel or the deadline the runner waits until it
 * completes, and undoes it too if it succeeded. Steps therefore bound their own time.
 *
 * Thread: the loop's. Ownership: the caller owns struct atoll_steps, until done is called. The
 * runner allocates nothing.
 */
struct atoll_step {
    const char *name; /* for error texts: "creating the sandbox" */
    /* Must lead to exactly one atoll_steps_done(), which may come before it returns. A step that
     * fails has cleaned up after itself: its own undo is not called. */
    void (*run)(void *arg);
    /* The same, to reverse a step that succeeded; NULL: nothing to reverse. Its error does not
     * change the result: the step reports it where an operator sees it. */
    void (*undo)(void *arg);
};

struct atoll_steps {
    /* Set by the caller. */
    const struct atoll_step *steps; /* borrowed */
    size_t count;
    void *arg; /* for all callbacks */
    /* Called exactly once, when no step runs and nothing is left to undo. error NULL: all steps
     * succeeded. Otherwise the error of the step that failed, CANCELED or DEADLINE_EXCEEDED. The
     * struct may be freed here. */
    void (*done)(void *arg, const struct atoll_error *error);
    /* Resume point: where to begin. The steps before it succeeded earlier, maybe in another
     * process, and are undone if a later one fails. */
    size_t at;               /* afterwards: the step that runs or is undone */
    struct atoll_loop *loop; /* borrowed; needed for the deadline only */
    int64_t deadline_ms;     /* from the start, for all steps but not for undoing; 0: none */
    /* Private. */
    struct atoll_timer timer;
    struct atoll_error error; /* why steps are undone; kind NONE: they are not */
    bool undoing;
    bool waiting;   /* for atoll_steps_done() */
    bool advancing; /* a completion during a callback is handled when the callback returns */
};

/* done may be called before this returns. */
void atoll_steps_start(struct atoll_steps *s);
/* Completes the current run or undo. steps: a struct atoll_steps; this is an atoll_done_fn, which
 * can be given to functions of the engine. The error is copied. */
void atoll_steps_done(void *steps, const struct atoll_error *error);
/* Starts no further step and undoes those that succeeded. No effect after a failure or an earlier
 * cancel. why: who cancelled, for the error text. Not after done. */
void atoll_steps_cancel(struct atoll_steps *s, const char *why);
/* The same with an error of the caller's, which is copied. */
void atoll_steps_stop(struct atoll_steps *s, const struct atoll_error *error);
