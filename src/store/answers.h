#pragma once
#include "base/error.h"

/*
 * Answers to requests that may be sent again, as they are kept.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

#define ATOLL_STORE_REQUEST_BYTES 32

struct atoll_store_answer {
    const char *name;
    const uint8_t *request; /* ATOLL_STORE_REQUEST_BYTES */
    int status;
    const char *answer; /* NULL: too large to keep */
    int64_t until_unix_ms;
};

/* Adds the row, or replaces the one of the same name. */
int atoll_store_put_answer(struct atoll_store *store, const struct atoll_store_answer *row,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Absent is success. */
int atoll_store_drop_answer(struct atoll_store *store, const char *name,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row, the one that expires first first; fn returns < 0 to stop, which is returned. fn must
 * not write. */
int atoll_store_each_answer(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_answer *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
