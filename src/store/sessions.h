#pragma once
#include "base/error.h"

/*
 * Sessions as they are kept: which sandbox is whose session, of what environment. Everything else
 * about it is in the row of the sandbox. Rows borrow their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_session {
    const char *id, *sandbox_id, *environment, *owner;
    const char *start_exec; /* "": none */
    int64_t created_unix_ms;
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_session(struct atoll_store *store, const struct atoll_store_session *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Absent is success. */
int atoll_store_drop_session(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_session(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_session *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
