#include "engine/state/capture_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "base/metrics.h"
#include "engine/state/capture.h"
#include "engine/state/checkpoint.h"
#include "engine/state/state.h"

struct wait {
    struct atoll_list node;   /* in sandbox->capture_waits */
    struct atoll_list listed; /* in engine->capture_waits, if it counts */
    struct atoll_sandbox *sandbox;
    const void *owner;
    atoll_done_fn *fn;
    void *arg;
};

/* Its phase will change without a request. */
static bool is_changing(const struct atoll_sandbox *s)
{
    switch (s->phase) {
    case ATOLL_PHASE_PAUSING:
    case ATOLL_PHASE_FREEZING:
    case ATOLL_PHASE_RESUMING:
    case ATOLL_PHASE_HALTING:
    case ATOLL_PHASE_STARTING:
    case ATOLL_PHASE_RECREATING:
    case ATOLL_PHASE_RESTORING:
        return true;
    default:
        return false;
    }
}

bool atoll_capture_in_progress(const struct atoll_sandbox *s)
{
    return s->snapping || (s->checkpoints && s->checkpoints->is_capturing);
}

/* Ends a wait; what it was is called by the caller. */
static struct wait take(struct wait *w)
{
    struct wait was = *w;

    atoll_list_remove(&w->node);
    atoll_list_remove(&w->listed);
    free(w);
    return was;
}

static void add(struct atoll_sandbox *s, bool counts, const void *owner, atoll_done_fn *fn,
                void *arg)
{
    struct wait *w = atoll_alloc(sizeof(*w));

    *w = (struct wait){.sandbox = s, .owner = owner, .fn = fn, .arg = arg};
    atoll_list_push_back(&s->capture_waits, &w->node);
    atoll_list_init(&w->listed);
    if (counts)
        atoll_list_push_back(&s->engine->capture_waits, &w->listed);
}

/* Its deadline comes first. */
static bool is_overdue(const struct atoll_sandbox *s)
{
    return s->overdue && s->phase == ATOLL_PHASE_RUNNING;
}

static bool is_free(const struct atoll_sandbox *s)
{
    return atoll_list_empty(&s->capture_waits) && !atoll_capture_in_progress(s) && !is_overdue(s);
}

size_t atoll_capture_waiting(struct atoll_engine *engine, const char *tenant)
{
    size_t n = 0;

    ATOLL_LIST_FOREACH (&engine->capture_waits, node)
        n += strcmp(ATOLL_CONTAINER_OF(node, struct wait, listed)->sandbox->spec.tenant, tenant) ==
             0;
    return n;
}

static int refuse_ending(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is stopping");
}

void atoll_capture_await(struct atoll_sandbox *s, const void *owner, atoll_done_fn *fn, void *arg)
{
    struct atoll_error err;
    int r = s->engine->ending ? refuse_ending(&err) : 0;

    if (r == 0 && !is_free(s))
        r = atoll_capture_admit(s, &err);
    if (r < 0)
        fn(arg, &err);
    else if (is_free(s))
        fn(arg, NULL);
    else
        add(s, true, owner, fn, arg);
}

void atoll_capture_await_checkpoint(struct atoll_sandbox *s, atoll_done_fn *fn, void *arg)
{
    if (is_free(s))
        fn(arg, NULL);
    else
        add(s, false, NULL, fn, arg);
}

void atoll_capture_next(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];
    struct wait was;

    memcpy(id, s->spec.id, sizeof(id));
    while (s && !atoll_list_empty(&s->capture_waits) && !atoll_capture_in_progress(s) &&
           !is_changing(s) && !is_overdue(s)) {
        was = take(ATOLL_CONTAINER_OF(s->capture_waits.next, struct wait, node));
        was.fn(was.arg, NULL);
        s = atoll_map_get(&engine->sandboxes, id);
    }
}

void atoll_capture_proceed(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    char id[ATOLL_ID_LEN + 1];

    if (atoll_capture_in_progress(s) ||
        (atoll_list_empty(&s->stoppers) && atoll_list_empty(&s->resumers)))
        return;
    memcpy(id, s->spec.id, sizeof(id));
    atoll_checkpoints_hurry(s);
    s = atoll_map_get(&engine->sandboxes, id);
    if (!s || atoll_capture_in_progress(s))
        return;
    if (!atoll_list_empty(&s->stoppers) && atoll_sandbox_would_move(s, ATOLL_ON_STOP))
        atoll_sandbox_halt(s, ATOLL_END_KILLED_BY, "a stop requested during a snapshot", "");
    else if (!atoll_list_empty(&s->resumers) && atoll_sandbox_would_move(s, ATOLL_ON_RESUME))
        atoll_sandbox_begin_resume(s);
}

static void next(void *arg)
{
    atoll_capture_next(arg);
}

void atoll_capture_next_soon(struct atoll_sandbox *s)
{
    if (!atoll_list_empty(&s->capture_waits))
        atoll_timer_set(&s->capture_turn, s->engine->loop, 0, next, s);
}

void atoll_capture_abort(struct atoll_sandbox *s)
{
    struct atoll_error err;
    struct wait was;

    atoll_timer_cancel(&s->capture_turn);
    (void)atoll_fail(&err, ATOLL_ERR_FAILED_PRECONDITION, ESRCH, "sandbox %s has ended",
                     s->spec.id);
    while (!atoll_list_empty(&s->capture_waits)) {
        was = take(ATOLL_CONTAINER_OF(s->capture_waits.next, struct wait, node));
        was.fn(was.arg, &err);
    }
}

void atoll_captures_shutdown(struct atoll_engine *engine)
{
    struct atoll_error err;
    struct wait was;

    (void)refuse_ending(&err);
    while (!atoll_list_empty(&engine->capture_waits)) {
        was = take(ATOLL_CONTAINER_OF(engine->capture_waits.next, struct wait, listed));
        was.fn(was.arg, &err);
    }
}

bool atoll_capture_cancel(struct atoll_engine *engine, const void *owner)
{
    struct atoll_error err;
    struct wait was;

    ATOLL_LIST_FOREACH (&engine->capture_waits, node) {
        struct wait *w = ATOLL_CONTAINER_OF(node, struct wait, listed);

        if (w->owner != owner)
            continue;
        was = take(w);
        (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "the client has disconnected");
        was.fn(was.arg, &err);
        return true;
    }
    return false;
}
