#pragma once
#include <signal.h>
#include <sys/epoll.h>
#include "base/error.h"

/*
 * The event loop of daemon, spawn and agent: epoll events, timers, signals.
 * Thread: everything here belongs to the thread that runs the loop, except atoll_mailbox_post().
 * Ownership: the caller owns the storage of watches and timers and must close or cancel them before it
 * frees them. Callbacks may close any watch or timer, including their own.
 */
struct atoll_loop;

int atoll_loop_new(struct atoll_loop **ret_loop, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_loop *atoll_loop_free(struct atoll_loop *loop);

/* Dispatches until atoll_loop_stop(). */
int atoll_loop_run(struct atoll_loop *loop, struct atoll_error *err) ATOLL_MUST_CHECK;
/* One iteration: waits at most timeout_ms (-1: for ever) and dispatches events. */
int atoll_loop_step(struct atoll_loop *loop, int timeout_ms,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_loop_stop(struct atoll_loop *loop);
/* Timing of one iteration of the loop. */
struct atoll_loop_turn {
    int64_t us;       /* all callbacks */
    int64_t worst_us; /* the slowest callback */
    const char *file; /* where the slowest callback was registered */
    const char *fn;   /* its name */
    const char *note; /* its last atoll_loop_note(), or "" */
};
/* Measures every iteration from now on and calls fn after each; the time of fn is not included. Costs two
 * clock readings per iteration and one per callback. */
void atoll_loop_measure(struct atoll_loop *loop,
                        void (*fn)(void *arg, const struct atoll_loop_turn *turn), void *arg);
/* Notes what the running callback does, for struct atoll_loop_turn. `what` is a literal. Thread: any; a
 * note from another thread than the loop's has no effect. */
void atoll_loop_note(const char *what);

/* Start of the current iteration, in milliseconds (CLOCK_MONOTONIC). */
int64_t atoll_loop_now_ms(const struct atoll_loop *loop);

/* Watches the readiness of one descriptor, which is borrowed. */
struct atoll_watch {
    struct atoll_loop *loop; /* NULL when not open */
    int fd;
    uint32_t events;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
    const char *name; /* for the watchdog: "FILE\0FUNCTION" */
};

/* Where a callback is registered: the file and, after its NUL, the name of the function. */
#define ATOLL_LOOP_NAME(fn) (__FILE__ "\0" #fn)

/* events: EPOLLIN, EPOLLOUT, …; level-triggered. 0: only errors and hang-up are reported. */
#define atoll_watch_open(w, loop, fd, events, fn, arg) \
    atoll_watch_open_named(w, loop, fd, events, fn, arg, ATOLL_LOOP_NAME(fn))
int atoll_watch_open_named(struct atoll_watch *w, struct atoll_loop *loop, int fd, uint32_t events,
                           void (*fn)(void *arg, uint32_t events), void *arg,
                           const char *name) ATOLL_MUST_CHECK;
int atoll_watch_set(struct atoll_watch *w, uint32_t events) ATOLL_MUST_CHECK;
/* No callback is made after this. Allowed on a zeroed or closed watch. */
void atoll_watch_close(struct atoll_watch *w);

/* One-shot timer. */
struct atoll_timer {
    struct atoll_loop *loop; /* NULL when not armed */
    int64_t at_ms;
    size_t index; /* in the loop's heap */
    void (*fn)(void *arg);
    void *arg;
    const char *name; /* like that of a watch */
};

/* Fires once, after_ms from now; re-arms a timer that is already armed. If the process was stopped in
 * between, input that arrived is served first. Aborts without memory. */
#define atoll_timer_set(t, loop, after_ms, fn, arg) \
    atoll_timer_set_named(t, loop, after_ms, fn, arg, ATOLL_LOOP_NAME(fn))
void atoll_timer_set_named(struct atoll_timer *t, struct atoll_loop *loop, int64_t after_ms,
                           void (*fn)(void *arg), void *arg, const char *name);
/* Allowed on a zeroed, fired or cancelled timer. */
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
