#pragma once
#include <signal.h>
#include <sys/epoll.h>
#include "base/error.h"

/*
 * The event loop that daemon, spawn and agent share: epoll readiness, timers, signals.
 * Thread: everything here belongs to the thread that runs the loop, except atoll_mailbox_post().
 * Ownership: watches and timers are the caller's storage and must be closed/cancelled before it
 * goes away. Callbacks may close any watch or timer, their own included.
 */
struct atoll_loop;

int atoll_loop_new(struct atoll_loop **ret_loop, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_loop *atoll_loop_free(struct atoll_loop *loop);

/* Dispatches until atoll_loop_stop(). */
int atoll_loop_run(struct atoll_loop *loop, struct atoll_error *err) ATOLL_MUST_CHECK;
/* One round: waits at most timeout_ms (-1: until something happens) and dispatches. */
int atoll_loop_step(struct atoll_loop *loop, int timeout_ms,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_loop_stop(struct atoll_loop *loop);
/* One round of callbacks that took longer than its share. */
struct atoll_loop_turn {
    int64_t us;       /* of the whole round */
    int64_t worst_us; /* of the slowest callback in it */
    const char *file; /* where that was registered, */
    const char *fn;   /* its name, */
    const char *note; /* and what it said it was doing; "" */
};
/* Measures every round from now on; fn is called after each, and its own time does not count. Costs two
 * readings of the clock a round, and one for each callback. */
void atoll_loop_measure(struct atoll_loop *loop,
                        void (*fn)(void *arg, const struct atoll_loop_turn *turn), void *arg);
/* What the running callback does, for whoever measures: a text that lives for ever. Thread: any; only the
 * loop's matters. */
void atoll_loop_note(const char *what);

/* Milliseconds (CLOCK_MONOTONIC) as of the current round. */
int64_t atoll_loop_now_ms(const struct atoll_loop *loop);

/* Readiness of one descriptor. The descriptor stays the caller's. */
struct atoll_watch {
    struct atoll_loop *loop; /* NULL when not open */
    int fd;
    uint32_t events;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
    const char *name; /* for the watchdog: "FILE\0FUNCTION" */
};

/* Where a callback is registered: the file and, behind its NUL, the name of the function. */
#define ATOLL_LOOP_NAME(fn) (__FILE__ "\0" #fn)

/* events: EPOLLIN, EPOLLOUT, …; level-triggered. 0 keeps it registered for errors and hang-up only. */
#define atoll_watch_open(w, loop, fd, events, fn, arg) \
    atoll_watch_open_named(w, loop, fd, events, fn, arg, ATOLL_LOOP_NAME(fn))
int atoll_watch_open_named(struct atoll_watch *w, struct atoll_loop *loop, int fd, uint32_t events,
                           void (*fn)(void *arg, uint32_t events), void *arg,
                           const char *name) ATOLL_MUST_CHECK;
int atoll_watch_set(struct atoll_watch *w, uint32_t events) ATOLL_MUST_CHECK;
/* No callback after this. Safe on a zeroed or closed watch. */
void atoll_watch_close(struct atoll_watch *w);

/* One-shot timer. */
struct atoll_timer {
    struct atoll_loop *loop; /* NULL when not armed */
    int64_t at_ms;
    size_t index; /* place in the loop's heap */
    void (*fn)(void *arg);
    void *arg;
    const char *name; /* as that of a watch */
};

/* Fires once, after_ms from now, and after what had arrived by then if this process was stopped
 * meanwhile; re-arms a timer that is already armed. Aborts out of memory. */
#define atoll_timer_set(t, loop, after_ms, fn, arg) \
    atoll_timer_set_named(t, loop, after_ms, fn, arg, ATOLL_LOOP_NAME(fn))
void atoll_timer_set_named(struct atoll_timer *t, struct atoll_loop *loop, int64_t after_ms,
                           void (*fn)(void *arg), void *arg, const char *name);
/* Safe on a zeroed, fired or cancelled timer. */
void atoll_timer_cancel(struct atoll_timer *t);

/* Blocks `signals` for the process and delivers them through the loop. */
struct atoll_signals {
    struct atoll_watch watch;
    int fd;
    void (*fn)(void *arg, int signo);
    void *arg;
};
int atoll_signals_open(struct atoll_signals *s, struct atoll_loop *loop, const sigset_t *signals,
                       void (*fn)(void *arg, int signo), void *arg,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_signals_close(struct atoll_signals *s);
