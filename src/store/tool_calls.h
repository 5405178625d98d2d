#pragma once
#include "base/error.h"

/*
 * Records of calls of tools, and the tool policies of tenants. Rows borrow their strings for the call.
 * Records of a sandbox are removed with the record of the sandbox (store/ended.h).
 * Blocking: tens of microseconds. Thread: the loop's.
 */
struct atoll_store;

struct atoll_store_tool_call {
    int64_t number; /* in the order in which they came */
    const char *id, *tenant;
    const char *sandbox_id;       /* "": it is about none */
    const char *tool, *arguments; /* arguments: JSON, without secrets */
    const char *state;            /* "waiting", "running", "done", "failed", "denied", … */
    const char *decision, *decided_by, *reason;
    bool is_error;
    uint64_t result_bytes;
    int64_t started_unix_ms;
    int64_t waited_ms;   /* until it was decided */
    int64_t duration_ms; /* of the tool; 0 until it has ended */
};
typedef int atoll_store_tool_call_fn(void *arg, const struct atoll_store_tool_call *row,
                                     struct atoll_error *err);

/* What is kept: of a sandbox, of a tenant, in all. */
struct atoll_store_tool_calls_most {
    uint32_t of_sandbox, of_tenant, all;
};

/* Adds the row, or replaces the one of the same number. */
int atoll_store_put_tool_call(struct atoll_store *store, const struct atoll_store_tool_call *row,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* The largest number so far, 0 if there are no records. Also settles what an earlier daemon left: those that waited
 * are canceled, the result of those that ran is lost. */
int atoll_store_settle_tool_calls(struct atoll_store *store, int64_t *ret_number,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for at most `most` rows, newest first, with numbers below `before`. sandbox_id NULL: all of the tenant;
 * else tenant is not used. A negative result of fn stops the walk and is returned. */
int atoll_store_each_tool_call(struct atoll_store *store, const char *tenant,
                               const char *sandbox_id, int64_t before, uint32_t most,
                               atoll_store_tool_call_fn *fn, void *arg,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Returns 1 if there is such a row, 0 if not; the result of fn if it is negative. */
int atoll_store_find_tool_call(struct atoll_store *store, const char *id,
                               atoll_store_tool_call_fn *fn, void *arg,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes the oldest records of that sandbox, that tenant and of all, beyond `most`. */
int atoll_store_prune_tool_calls(struct atoll_store *store, const char *tenant,
                                 const char *sandbox_id,
                                 const struct atoll_store_tool_calls_most *most,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_store_tool_policy {
    const char *tenant;
    const char *policy; /* JSON; sealed; NULL: it cannot be opened */
};
int atoll_store_put_tool_policy(struct atoll_store *store,
                                const struct atoll_store_tool_policy *row,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Success also if there is none. */
int atoll_store_drop_tool_policy(struct atoll_store *store, const char *tenant,
                                 struct atoll_error *err) ATOLL_MUST_CHECK;
/* A negative result of fn stops the walk and is returned. */
int atoll_store_each_tool_policy(struct atoll_store *store,
                                 int (*fn)(void *arg, const struct atoll_store_tool_policy *row,
                                           struct atoll_error *err),
                                 void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
