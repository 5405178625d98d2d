#include <stdio.h>
#include "base/log.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"

/*
 * The removal of a sandbox's record, after its provider has confirmed that its resources are gone.
 * The sandbox counts as destroyed when the store has dropped its row. If the store cannot, the
 * waiting callers get the error, and it is retried.
 *
 * A sandbox may have thousands of commands, each with a row and a file. They are removed a few at a
 * time, so that the loop serves other requests meanwhile. Rows that a daemon leaves when it dies in
 * between belong to no sandbox; the next daemon removes them.
 */

#define EXECS_PER_TURN 64

/* The waiting callers are called when nothing is left, also in memory. */
static void finish(struct atoll_sandbox *s)
{
    struct atoll_engine *engine = s->engine;
    struct atoll_list waiting;

    atoll_env_drop(s);
    atoll_network_end_journal(s);
    if (s->boot_ms > 0) { /* a sandbox that was never created has no end event */
        atoll_sandbox_apply(s, ATOLL_ON_ENDED, "");
        atoll_lifetime_ended(s, false);
    }
    atoll_list_init(&waiting);
    ATOLL_LIST_FOREACH (&s->destroyers, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&waiting, node);
    }
    if (!s->hidden)
        engine->public_count--;
    atoll_sandbox_discard(s);
    atoll_waiters_tell(&waiting, NULL);
    atoll_pool_refill_soon(engine);
}

static void drop_commands(void *arg)
{
    struct atoll_sandbox *s = arg;
    bool more = atoll_exec_drop_some(s, EXECS_PER_TURN);

    if (s->rows_left)
        s->rows_left = atoll_persist_drop_execs(s);
    if (more || s->rows_left)
        atoll_timer_set(&s->departure, s->engine->loop, 0, drop_commands, s);
    else
        finish(s);
}

/* Keeps the record; persist.c retries the drop. */
static void keep_record(struct atoll_sandbox *s, const struct atoll_error *error)
{
    char why[200];

    (void)snprintf(why, sizeof(why), "its end could not be stored: %.150s", error->text);
    atoll_sandbox_apply(s, ATOLL_ON_NOT_DROPPED, why);
    atoll_waiters_tell(&s->destroyers, error);
}

void atoll_sandbox_depart(struct atoll_sandbox *s)
{
    struct atoll_error err;

    if (atoll_persist_drop(s, &s->rows_left, &err) < 0) {
        keep_record(s, &err);
        return;
    }
    atoll_sandbox_apply(s, ATOLL_ON_DROPPED, NULL);
    s->unsaved = false;
    drop_commands(s);
}
