#pragma once
#include "base/error.h"

/*
 * Commands of sandboxes with checkpoints: what ran, and the stacks of layers before and after it.
 *
 * Blocking: some tens of microseconds a call. Thread: the loop's. Each call is one transaction. Rows borrow their
 * texts for the call. Rows are dropped with their sandbox (atoll_store_drop_sandbox()).
 */
struct atoll_store;

struct atoll_store_checkpoint {
    const char *sandbox_id;
    uint64_t number; /* of the command, from 1 */
    const char *exec_id, *command;
    int64_t started_unix_ms;
    const char *before, *after; /* stacks; "": not kept */
    uint64_t before_bytes, after_bytes;
    bool shared;  /* another command ran at the same time */
    bool counted; /* the numbers below are known */
    uint64_t added, changed, removed, bytes;
};
int atoll_store_put_checkpoint(struct atoll_store *store, const struct atoll_store_checkpoint *row,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops the rows from..to of the sandbox, both included. Succeeds also if it has no such rows. */
int atoll_store_drop_checkpoints(struct atoll_store *store, const char *sandbox_id, uint64_t from,
                                 uint64_t to, struct atoll_error *err) ATOLL_MUST_CHECK;
/* In the order of sandboxes and numbers; fn as of atoll_store_each_sandbox(). */
int atoll_store_each_checkpoint(struct atoll_store *store,
                                int (*fn)(void *arg, const struct atoll_store_checkpoint *row,
                                          struct atoll_error *err),
                                void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
