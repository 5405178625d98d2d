#pragma once
#include "store/store.h"

/*
 * Records of ended sandboxes: what their rows said, how they ended, and their newest commands.
 * atoll_store_drop_sandbox() makes them, in the transaction that drops the sandbox's row.
 *
 * Blocking: tens of microseconds; a batch of removals a few milliseconds. Thread: the loop's.
 */

struct atoll_store_ended {
    int64_t number; /* in the order in which they ended */
    const char *id, *owner, *template_name;
    const char *provider, *image;
    const char *name, *metadata_json;   /* or NULL */
    const char *facade_json;            /* what its facade keeps of it, or NULL */
    const char *session_id;             /* "": it was not the sandbox of a session */
    const char *environment;            /* of the session */
    const char *agent_config;           /* of the session, or NULL */
    const char *end, *ended_by, *cause; /* as in struct atoll_store_end */
    int64_t created_unix_ms, ended_unix_ms;
    uint64_t boot_us;
    bool persistent;
    int network;
    uint32_t waived;
    struct atoll_limits limits;
};
typedef int atoll_store_ended_fn(void *arg, const struct atoll_store_ended *row,
                                 struct atoll_error *err);

/* Calls fn for the record of that sandbox, or of the sandbox of that session. Returns 1 if there
 * is one, 0 if not; the result of fn if it is negative. */
int atoll_store_find_ended(struct atoll_store *store, const char *id, atoll_store_ended_fn *fn,
                           void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_find_ended_session(struct atoll_store *store, const char *session_id,
                                   atoll_store_ended_fn *fn, void *arg,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Calls fn for at most `most` records in the order of their numbers, from the first one after
 * `number`. owner NULL: of all tenants. A negative result of fn stops the walk and is returned. */
int atoll_store_each_ended(struct atoll_store *store, const char *owner, int64_t number,
                           uint32_t most, atoll_store_ended_fn *fn, void *arg,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for the commands of one of them, in the order in which they started. */
int atoll_store_each_ended_exec(struct atoll_store *store, const char *sandbox_id,
                                int (*fn)(void *arg, const struct atoll_store_exec *row,
                                          struct atoll_error *err),
                                void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_store_ended_sum {
    uint64_t count, bytes; /* bytes: with the commands, without indexes */
};
int atoll_store_sum_ended(struct atoll_store *store, struct atoll_store_ended_sum *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes a batch of the records that ended before that time or exceed `most`, with their
 * commands: of those that exceed it, the oldest of the tenant that has the most. Then calls gone
 * with the id of each. Returns 1 if there may be more to remove, else 0. */
int atoll_store_prune_ended(struct atoll_store *store, int64_t before_unix_ms,
                            const struct atoll_store_ended_sum *most,
                            void (*gone)(void *arg, const char *id), void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
