#pragma once
#include "base/error.h"

/*
 * Stored answers of idempotent requests: a client that sends a request again under the same key
 * gets the first answer.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_STORE_REQUEST_BYTES 32

struct atoll_store_answer {
    const char *name;
    uint8_t request[ATOLL_STORE_REQUEST_BYTES];
    int status;
    const char *answer; /* NULL: too large to store */
    int64_t until_unix_ms;
};

/* Adds the row, or replaces the one of the same name. */
int atoll_store_put_answer(struct atoll_store *store, const struct atoll_store_answer *row,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_answer(struct atoll_store *store, const char *name,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row, the earliest expiry first. A negative result of fn stops the walk and
 * is returned. fn must not write to the store. */
int atoll_store_each_answer(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_answer *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
