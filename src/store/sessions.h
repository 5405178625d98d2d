#pragma once
#include "base/error.h"

/*
 * Sessions: the sandbox, environment and owner of each. Everything else about a session is in the
 * row of its sandbox. Rows borrow their strings for the call.
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_session {
    const char *id, *sandbox_id, *environment, *owner;
    const char *start_exec;   /* "": the environment has no start command */
    const char *agent_config; /* JSON of the client, or NULL */
    int64_t created_unix_ms;
};

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_session(struct atoll_store *store, const struct atoll_store_session *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is no such row. */
int atoll_store_drop_session(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for every row. A negative result of fn stops the walk and is returned. fn must not
 * write to the store. */
int atoll_store_each_session(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_session *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
