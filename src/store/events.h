#pragma once
#include "base/error.h"

/*
 * Stored events: a client that follows the events can continue where it stopped after the daemon
 * restarts.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_event {
    uint64_t id;
    int64_t unix_ms;
    const char *kind, *sandbox_id, *owner, *exec_id, *detail;
};

/* Adds all rows and drops those with an id up to drop_through, in one transaction. */
int atoll_store_put_events(struct atoll_store *store, const struct atoll_store_event *rows,
                           size_t count, uint64_t drop_through,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row in the order of ids. A negative result of fn stops the walk and is
 * returned. fn must not write to the store. */
int atoll_store_each_event(struct atoll_store *store,
                           int (*fn)(void *arg, const struct atoll_store_event *row,
                                     struct atoll_error *err),
                           void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
