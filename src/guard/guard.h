#pragma once
#include "guard/policy.h"

/*
 * The guard of tool calls: decides, by policies, interceptors and humans, whether a call runs and with which
 * arguments; lets interceptors change its result; and keeps a record of every call. docs/interception.md.
 *
 * A call that waits for a human needs its client: if the client goes, or the daemon ends, the call never runs.
 *
 * Thread: the loop's; webhooks and the operator's program run on worker threads.
 */
struct atoll_engine;
struct atoll_guard;
struct atoll_loop;
struct atoll_store;
struct atoll_store_tool_call;

#define ATOLL_GUARD_ID_LEN 24

struct atoll_guard_config {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    struct atoll_store *store;
    const char *program; /* the operator's interceptor for every call; NULL: none */
    uint32_t program_timeout_ms;
    bool program_fails_open; /* calls go on if it fails or answers wrongly */
    const char *
        internal; /* HOST or HOST:PORT, separated by commas or blanks: webhooks may go there although the
                             address is not public; NULL: none */
};
int atoll_guard_new(const struct atoll_guard_config *config, struct atoll_guard **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* No calls may be under way. Accepts NULL. */
struct atoll_guard *atoll_guard_free(struct atoll_guard *guard);
/* Calls that wait are refused, and no more are accepted. */
void atoll_guard_drain(struct atoll_guard *guard);

/* --- the policy of a tenant --- */

/* NULL: it has none. Borrowed until the next change. */
struct atoll_guard_policy *atoll_guard_tenant_policy(const struct atoll_guard *guard,
                                                     const char *tenant);
/* json NULL: none. INVALID_ARGUMENT. */
int atoll_guard_set_tenant_policy(struct atoll_guard *guard, const char *tenant, const json_t *json,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;

/* --- calls --- */

struct atoll_guard_call;

/* What a call is about depends on its arguments, which interceptors can change. */
struct atoll_guard_ops {
    /* Whether the arguments are valid; may normalize them. */
    int (*check)(void *arg, json_t *args, struct atoll_error *err);
    /* The texts are borrowed until the next call of it. Fails if a path is not one of the sandbox. */
    int (*describe)(void *arg, const json_t *args, struct atoll_guard_subject *ret,
                    struct atoll_error *err);
    /* error NULL: run it, with the arguments of atoll_guard_call_args(). Else it must not run, and call is NULL. */
    void (*decided)(void *arg, struct atoll_guard_call *call, const struct atoll_error *error);
    /* After atoll_guard_call_end(): the result as the client gets it; borrowed. The call is freed. data NULL: {}.
     * changed: an interceptor has replaced the text. */
    void (*finished)(void *arg, const char *text, const json_t *data, bool is_error, bool changed);
};

struct atoll_guard_request {
    const char *tenant, *sandbox_id; /* sandbox_id "": it is about none */
    const char *sandbox_policy;      /* JSON, or NULL */
    json_t *args;                    /* checked; a reference is taken */
    const struct atoll_guard_ops *ops;
    void *arg;
};
/* `decided` may be called at once. Returns NULL if the call has ended already. */
struct atoll_guard_call *atoll_guard_call_begin(struct atoll_guard *guard,
                                                const struct atoll_guard_request *request);
json_t *atoll_guard_call_args(const struct atoll_guard_call *call); /* borrowed */
/* The tool has ended. `finished` follows, maybe at once. */
void atoll_guard_call_end(struct atoll_guard_call *call, const char *text, const json_t *data,
                          bool is_error);
/* The tool failed without a result. Frees the call. */
void atoll_guard_call_fail(struct atoll_guard_call *call, const struct atoll_error *error);
/* The client is gone, at any time: no callback is called any more. Frees the call. */
void atoll_guard_call_drop(struct atoll_guard_call *call);

/* --- calls that wait for a human, and records --- */

struct atoll_guard_approval {
    const char *id, *tenant, *sandbox_id, *tool, *arguments; /* arguments: JSON, without secrets */
    const char *by, *reason;                                 /* why a human is asked */
    int64_t asked_unix_ms, expires_unix_ms;
};
/* Oldest first: *pos is 0 at first. tenant NULL: of all. False: no more. */
bool atoll_guard_next_approval(const struct atoll_guard *guard, const char *tenant, size_t *pos,
                               struct atoll_guard_approval *ret);
/* NOT_FOUND. */
int atoll_guard_find_approval(const struct atoll_guard *guard, const char *id,
                              struct atoll_guard_approval *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* by: who answers; reason may be NULL. NOT_FOUND; FAILED_PRECONDITION: it was decided already. */
int atoll_guard_answer(struct atoll_guard *guard, const char *id, bool allow, const char *by,
                       const char *reason, struct atoll_error *err) ATOLL_MUST_CHECK;

typedef int atoll_guard_record_fn(void *arg, const struct atoll_store_tool_call *row,
                                  struct atoll_error *err);
/* As atoll_store_each_tool_call(). */
int atoll_guard_each_record(const struct atoll_guard *guard, const char *tenant,
                            const char *sandbox_id, int64_t before, uint32_t most,
                            atoll_guard_record_fn *fn, void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* 1: fn was called, 0: there is no record of that id. */
int atoll_guard_find_record(const struct atoll_guard *guard, const char *id,
                            atoll_guard_record_fn *fn, void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
