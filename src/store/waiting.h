#pragma once
#include "base/error.h"

/*
 * Sandboxes that a client has the id of already, and that wait for a build. Rows borrow their strings for
 * the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_waiting {
    const char *id, *tenant;
    const char *build;   /* id of the build */
    const char *request; /* as the client sent it; sealed, since it may have credentials */
    const char *state;   /* how it failed, a word of the facade; "": it waits */
    const char *reason;  /* why it failed */
    int64_t created_unix_ms;
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_waiting(struct atoll_store *store, const struct atoll_store_waiting *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_waiting(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row, oldest first. A negative result of fn stops the walk and is returned. fn must not
 * write to the store. */
int atoll_store_each_waiting(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_waiting *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
