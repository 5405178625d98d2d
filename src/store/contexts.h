#pragma once
#include "base/error.h"

/*
 * Interpreter contexts: which exec of which sandbox runs the interpreter, and whether it is running
 * a cell. Rows borrow their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_context {
    const char *id, *sandbox_id, *language;
    const char *cwd, *user; /* "": the default */
    const char *exec_id;    /* "": no interpreter runs */
    bool is_default, is_busy;
    int64_t number; /* order of creation */
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_context(struct atoll_store *store, const struct atoll_store_context *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_context(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row in the order of `number`. A negative result of fn stops the walk and is
 * returned. fn must not write to the store. */
int atoll_store_each_context(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_context *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
