#pragma once
#include "base/error.h"

/*
 * Interpreter contexts as they are kept: which exec of which sandbox runs the interpreter, and whether
 * it was given something to do. Rows borrow their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_context {
    const char *id, *sandbox_id, *language;
    const char *cwd, *user; /* "": the default */
    const char *exec_id;    /* "": none */
    bool is_default, is_busy;
    int64_t number; /* grows */
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_context(struct atoll_store *store, const struct atoll_store_context *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Absent is success. */
int atoll_store_drop_context(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row in the order of their numbers; fn returns < 0 to stop, which is returned. fn must not
 * write. */
int atoll_store_each_context(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_context *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
