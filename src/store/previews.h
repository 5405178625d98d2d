#pragma once
#include "base/error.h"

/*
 * Previews: which ports of which sandboxes clients outside can reach. The token is stored in the
 * clear: a client that may list previews gets their addresses, which include the tokens.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_preview {
    const char *sandbox_id, *token;
    uint16_t port;
    bool is_public;
    int64_t created_unix_ms;
    const char *address; /* of the host, where the port is published; "": not published */
};

/* Adds the row, or replaces the one of the same sandbox and port. */
int atoll_store_put_preview(struct atoll_store *store, const struct atoll_store_preview *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_preview(struct atoll_store *store, const char *sandbox_id, uint16_t port,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row. A negative result of fn stops the walk and is returned. fn must not
 * write to the store. */
int atoll_store_each_preview(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_preview *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
