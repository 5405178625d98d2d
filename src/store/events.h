#pragma once
#include "base/error.h"

/*
 * Events as they are kept, so that whoever listens can go on where it was after a restart.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_event {
    uint64_t id;
    int64_t unix_ms;
    const char *kind, *sandbox_id, *owner, *exec_id, *detail;
};

/* Adds all of them and drops those up to drop_through, in one transaction. */
int atoll_store_put_events(struct atoll_store *store, const struct atoll_store_event *rows,
                           size_t count, uint64_t drop_through,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row, by id; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_event(struct atoll_store *store,
                           int (*fn)(void *arg, const struct atoll_store_event *row,
                                     struct atoll_error *err),
                           void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
