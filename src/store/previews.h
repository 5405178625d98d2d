#pragma once
#include "base/error.h"

/*
 * Which ports of which sandboxes are shown to the outside, as they are kept. The token is kept as
 * it is: whoever may list previews is given their addresses again, tokens included.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_preview {
    const char *sandbox_id, *token;
    uint16_t port;
    bool is_public;
    int64_t created_unix_ms;
};

/* Adds the row, or replaces the one of the same sandbox and port. */
int atoll_store_put_preview(struct atoll_store *store, const struct atoll_store_preview *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Absent is success. */
int atoll_store_drop_preview(struct atoll_store *store, const char *sandbox_id, uint16_t port,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Every row; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_preview(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_preview *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
