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
/* Milliseconds (CLOCK_MONOTONIC) as of the current round. */
int64_t atoll_loop_now_ms(const struct atoll_loop *loop);

/* Readiness of one descriptor. The descriptor stays the caller's. */
struct atoll_watch {
    struct atoll_loop *loop; /* NULL when not open */
    int fd;
    uint32_t events;
    void (*fn)(void *arg, uint32_t events);
    void *arg;
};

/* events: EPOLLIN, EPOLLOUT, …; level-triggered. 0 keeps it registered for errors and hang-up only. */
int atoll_watch_open(struct atoll_watch *w, struct atoll_loop *loop, int fd, uint32_t events,
                     void (*fn)(void *arg, uint32_t events), void *arg) ATOLL_MUST_CHECK;
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
};

/* Fires once, after_ms from now, and after what had arrived by then if this process was stopped meanwhile; re-arms a timer that is already armed. Aborts out of memory. */
void atoll_timer_set(struct atoll_timer *t, struct atoll_loop *loop, int64_t after_ms,
                     void (*fn)(void *arg), void *arg);
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
