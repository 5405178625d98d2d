#include "loop/steps.h"

#include <assert.h>
#include <errno.h>

static bool has_failed(const struct atoll_steps *s)
{
    return s->error.kind != ATOLL_ERR_NONE;
}

/* The step that runs; a flow may also be cancelled after the last one completed. */
static const char *name_of(const struct atoll_steps *s)
{
    return s->steps[s->at < s->count ? s->at : s->count - 1].name;
}

/* Calls the next step's run or undo; false when there is none left. */
static bool call_next(struct atoll_steps *s)
{
    void (*fn)(void *) = NULL;

    if (!has_failed(s)) {
        if (s->at == s->count)
            return false;
        fn = s->steps[s->at].run;
    }
    while (!fn && s->at > 0) {
        s->undoing = true;
        fn = s->steps[--s->at].undo;
    }
    if (!fn)
        return false;
    s->waiting = true;
    fn(s->arg);
    return true;
}

/* Steps that complete before their call returns are handled in this loop, not by recursion. */
static void advance(struct atoll_steps *s)
{
    s->advancing = true;
    do {
        if (!call_next(s)) {
            atoll_timer_cancel(&s->timer);
            s->done(s->arg, has_failed(s) ? &s->error : NULL);
            return; /* *s may be gone */
        }
    } while (!s->waiting);
    s->advancing = false;
}

static void on_deadline(void *arg)
{
    struct atoll_steps *s = arg;

    if (!has_failed(s))
        (void)atoll_fail(&s->error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                         "%s did not complete in time", name_of(s));
}

void atoll_steps_start(struct atoll_steps *s)
{
    assert(s->at <= s->count && !s->waiting);
    if (s->deadline_ms > 0)
        atoll_timer_set(&s->timer, s->loop, s->deadline_ms, on_deadline, s);
    advance(s);
}

void atoll_steps_done(void *steps, const struct atoll_error *error)
{
    struct atoll_steps *s = steps;

    assert(s->waiting);
    s->waiting = false;
    if (!s->undoing && !error)
        s->at++;
    else if (!s->undoing && !has_failed(s))
        s->error = *error;
    if (!s->advancing)
        advance(s);
}

void atoll_steps_cancel(struct atoll_steps *s, const char *why)
{
    if (!has_failed(s))
        (void)atoll_fail(&s->error, ATOLL_ERR_CANCELED, ECANCELED, "cancelled by %s while %s", why,
                         name_of(s));
}

void atoll_steps_stop(struct atoll_steps *s, const struct atoll_error *error)
{
    if (!has_failed(s))
        s->error = *error;
}
