#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include "base/clock.h"

#define BATCH 64

struct atoll_loop {
    int epoll_fd;
    bool stopping;
    int late_rounds; /* iterations in which late timers were deferred for descriptors */
    int64_t now_ms;
    struct epoll_event batch[BATCH]; /* events of the current iteration, for atoll_watch_close() */
    int batch_len;
    struct atoll_timer **heap; /* owned array of borrowed timers, earliest first */
    size_t heap_len, heap_cap;
    void (*measured)(void *arg, const struct atoll_loop_turn *turn); /* NULL: do not measure */
    void *measured_arg;
    struct atoll_loop_turn turn; /* the current iteration */
    int64_t last_us;             /* when the last callback ended */
};

static _Thread_local const char *note = "";

void atoll_loop_note(const char *what)
{
    note = what;
}

void atoll_loop_measure(struct atoll_loop *loop,
                        void (*fn)(void *arg, const struct atoll_loop_turn *turn), void *arg)
{
    loop->measured = fn;
    loop->measured_arg = arg;
}

static void begin_turn(struct atoll_loop *loop)
{
    if (!loop->measured)
        return;
    loop->turn = (struct atoll_loop_turn){.file = "", .fn = "", .note = ""};
    loop->last_us = atoll_clock_us();
    note = "";
}

/* Records the time of a callback. name: a literal, valid even if the callback freed its watch. */
static void clock_callback(struct atoll_loop *loop, const char *name)
{
    struct atoll_loop_turn *turn = &loop->turn;
    int64_t now, took;

    if (!loop->measured)
        return;
    now = atoll_clock_us();
    took = now - loop->last_us;
    loop->last_us = now;
    turn->us += took;
    if (took > turn->worst_us) {
        turn->worst_us = took;
        turn->file = name;
        turn->fn = name + strlen(name) + 1;
        turn->note = note;
    }
    note = "";
}

int atoll_loop_new(struct atoll_loop **ret_loop, struct atoll_error *err)
{
    struct atoll_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return atoll_fail_errno(err, ENOMEM, "event loop");
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        int errnum = errno;
        free(loop);
        return atoll_fail_errno(err, errnum, "epoll_create1");
    }
    loop->now_ms = atoll_clock_ms();
    *ret_loop = loop;
    return 0;
}

struct atoll_loop *atoll_loop_free(struct atoll_loop *loop)
{
    if (loop) {
        (void)close(loop->epoll_fd);
        free(loop->heap);
        free(loop);
    }
    return NULL;
}

int64_t atoll_loop_now_ms(const struct atoll_loop *loop)
{
    return loop->now_ms;
}

void atoll_loop_stop(struct atoll_loop *loop)
{
    loop->stopping = true;
}

/* Timers: a binary heap by time. Each timer stores its index, so that cancel is O(log n). */

static void heap_place(struct atoll_loop *loop, size_t i, struct atoll_timer *t)
{
    loop->heap[i] = t;
    t->index = i;
}

static void heap_up(struct atoll_loop *loop, size_t i)
{
    struct atoll_timer *t = loop->heap[i];
    for (; i > 0 && loop->heap[(i - 1) / 2]->at_ms > t->at_ms; i = (i - 1) / 2)
        heap_place(loop, i, loop->heap[(i - 1) / 2]);
    heap_place(loop, i, t);
}

static void heap_down(struct atoll_loop *loop, size_t i)
{
    struct atoll_timer *t = loop->heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < loop->heap_len && loop->heap[child + 1]->at_ms < loop->heap[child]->at_ms)
            child++;
        if (child >= loop->heap_len || loop->heap[child]->at_ms >= t->at_ms)
            break;
        heap_place(loop, i, loop->heap[child]);
        i = child;
    }
    heap_place(loop, i, t);
}

void atoll_timer_cancel(struct atoll_timer *t)
{
    struct atoll_loop *loop = t->loop;
    size_t i = t->index;

    if (!loop)
        return;
    t->loop = NULL;
    loop->heap_len--;
    if (i < loop->heap_len) {
        heap_place(loop, i, loop->heap[loop->heap_len]);
        heap_up(loop, i);
        heap_down(loop, loop->heap[i]->index);
    }
}

void atoll_timer_set_named(struct atoll_timer *t, struct atoll_loop *loop, int64_t after_ms,
                           void (*fn)(void *arg), void *arg, const char *name)
{
    atoll_timer_cancel(t);
    if (loop->heap_len == loop->heap_cap) {
        size_t cap = ATOLL_MAX(loop->heap_cap * 2, (size_t)16);
        struct atoll_timer **grown = realloc(loop->heap, cap * sizeof(*grown));
        if (!grown)
            abort();
        loop->heap = grown;
        loop->heap_cap = cap;
    }
    /* Relative to now, not to the start of the iteration, which may be long ago. */
    t->at_ms = atoll_clock_ms() + after_ms;
    t->loop = loop;
    t->fn = fn;
    t->arg = arg;
    t->name = name;
    heap_place(loop, loop->heap_len++, t);
    heap_up(loop, t->index);
}

static void fire_timers(struct atoll_loop *loop)
{
    while (loop->heap_len > 0 && loop->heap[0]->at_ms <= loop->now_ms) {
        struct atoll_timer *t = loop->heap[0];
        const char *name = t->name;
        atoll_timer_cancel(t);
        t->fn(t->arg);
        clock_callback(loop, name);
    }
}

static int wait_ms(const struct atoll_loop *loop, int timeout_ms)
{
    int64_t until;

    if (loop->heap_len == 0)
        return timeout_ms;
    until = loop->heap[0]->at_ms - atoll_clock_ms();
    until = ATOLL_MIN(ATOLL_MAX(until, (int64_t)0), (int64_t)60 * 1000);
    return timeout_ms < 0 ? (int)until : ATOLL_MIN((int)until, timeout_ms);
}

/* If a timer is this late, the process itself was stopped or blocked. The event that a timeout waits for
 * may have arrived in that time, so descriptors are served first, for at most this many iterations: one
 * accepts a connection, the next reads what was sent. */
#define LATE_MS 1000
#define LATE_ROUNDS 32

/* Whether to defer late timers in this iteration. n: number of events; < 0: interrupted by a signal, such
 * as SIGCONT. */
static bool defers_late_timers(struct atoll_loop *loop, int n)
{
    bool late = loop->heap_len > 0 && loop->heap[0]->at_ms + LATE_MS <= loop->now_ms;

    if (late && n != 0 && loop->late_rounds < LATE_ROUNDS) {
        loop->late_rounds++;
        return true;
    }
    loop->late_rounds = 0;
    return false;
}

int atoll_loop_step(struct atoll_loop *loop, int timeout_ms, struct atoll_error *err)
{
    int n = epoll_wait(loop->epoll_fd, loop->batch, BATCH, wait_ms(loop, timeout_ms));

    if (n < 0 && errno != EINTR)
        return atoll_fail_errno(err, errno, "epoll_wait");
    loop->now_ms = atoll_clock_ms();
    begin_turn(loop);
    loop->batch_len = ATOLL_MAX(n, 0);
    for (int i = 0; i < loop->batch_len; i++) {
        struct atoll_watch *w = loop->batch[i].data.ptr;
        const char *name = w ? w->name : NULL;
        if (!w)
            continue;
        w->fn(w->arg, loop->batch[i].events);
        clock_callback(loop, name);
    }
    loop->batch_len = 0;
    if (!defers_late_timers(loop, n))
        fire_timers(loop);
    if (loop->measured)
        loop->measured(loop->measured_arg, &loop->turn);
    return 0;
}

int atoll_loop_run(struct atoll_loop *loop, struct atoll_error *err)
{
    loop->stopping = false;
    while (!loop->stopping) {
        int r = atoll_loop_step(loop, -1, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_watch_open_named(struct atoll_watch *w, struct atoll_loop *loop, int fd, uint32_t events,
                           void (*fn)(void *arg, uint32_t events), void *arg, const char *name)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -errno;
    *w = (struct atoll_watch){loop, fd, events, fn, arg, name};
    return 0;
}

int atoll_watch_set(struct atoll_watch *w, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = w};

    assert(w->loop);
    if (w->events == events)
        return 0;
    if (epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) < 0)
        return -errno;
    w->events = events;
    return 0;
}

void atoll_watch_close(struct atoll_watch *w)
{
    struct atoll_loop *loop = w->loop;

    if (!loop)
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
    /* Events of this iteration that are not dispatched yet may refer to it. */
    for (int i = 0; i < loop->batch_len; i++)
        if (loop->batch[i].data.ptr == w)
            loop->batch[i].data.ptr = NULL;
    w->loop = NULL;
}

static void signals_ready(void *arg, uint32_t events)
{
    struct atoll_signals *s = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (s->watch.loop && read(s->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        s->fn(s->arg, (int)info.ssi_signo);
}

int atoll_signals_open(struct atoll_signals *s, struct atoll_loop *loop, const sigset_t *signals,
                       void (*fn)(void *arg, int signo), void *arg, struct atoll_error *err)
{
    int r;

    *s = (struct atoll_signals){.fd = ATOLL_NO_FD, .fn = fn, .arg = arg};
    if (sigprocmask(SIG_BLOCK, signals, NULL) < 0)
        return atoll_fail_errno(err, errno, "sigprocmask");
    s->fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->fd < 0)
        return atoll_fail_errno(err, errno, "signalfd");
    r = atoll_watch_open(&s->watch, loop, s->fd, EPOLLIN, signals_ready, s);
    if (r < 0) {
        (void)close(ATOLL_TAKE_FD(s->fd));
        return atoll_fail_errno(err, -r, "watch signals");
    }
    return 0;
}

void atoll_signals_close(struct atoll_signals *s)
{
    atoll_watch_close(&s->watch);
    if (s->fd >= 0)
        (void)close(ATOLL_TAKE_FD(s->fd));
}
