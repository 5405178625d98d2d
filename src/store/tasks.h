#pragma once
#include "base/error.h"

/*
 * Tasks and swarms of them: what each was asked to do, how far it is, and what came of it. Rows borrow
 * their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_STORE_TASK "task"
#define ATOLL_STORE_SWARM "swarm"

struct atoll_store_task {
    const char *id, *tenant;
    const char *kind; /* ATOLL_STORE_TASK … */
    const char *state, *step;
    uint32_t attempt;
    const char *request; /* JSON; sealed, since it may have credentials */
    const char *facts;   /* JSON: results of its steps */
    const char *error_kind, *error;
    int64_t created_unix_ms, started_unix_ms, ended_unix_ms; /* 0: not yet */
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_task(struct atoll_store *store, const struct atoll_store_task *row,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_task(struct atoll_store *store, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row of the kind, oldest first. A negative result of fn stops the walk and is returned. fn must
 * not write to the store. */
int atoll_store_each_task(struct atoll_store *store, const char *kind,
                          int (*fn)(void *arg, const struct atoll_store_task *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
