#pragma once
#include "base/list.h"
#include "base/map.h"
#include "guard/guard.h"
#include "loop/loop.h"
#include "loop/workers.h"
#include "provider/remote/http.h"

/* Internal to the guard: guard.c has the policies of tenants, call.c the life of a call, hook.c interceptors,
 * record.c the queue and the records. */

#define ATOLL_GUARD_WAITING_MAX 512
#define ATOLL_GUARD_WAITING_TENANT_MAX 64
#define ATOLL_GUARD_ANSWER_MAX ((size_t)2 * 1024 * 1024) /* of an interceptor */

struct atoll_guard {
    struct atoll_guard_config config; /* strings are owned */
    struct atoll_map policies;        /* of struct atoll_guard_policy, by tenant; owned */
    struct atoll_list waiting;        /* of struct atoll_guard_call, oldest first */
    struct atoll_workers *workers;    /* NULL until the first hook */
    struct atoll_remote_http *any, *public;
    int cancel_fds[2]; /* the second one is closed when the guard ends */
    int64_t number;    /* of the last record */
    unsigned unpruned; /* records since the last removal */
    bool draining;
};

enum atoll_guard_phase { ATOLL_GUARD_BEFORE, ATOLL_GUARD_AFTER };

struct atoll_guard_job;
struct atoll_guard_call {
    struct atoll_guard *guard;
    char id[ATOLL_GUARD_ID_LEN + 1];
    char tenant[65], sandbox_id[33], tool[65];
    struct atoll_guard_policy *policies[2]; /* owned; of the tenant and of the sandbox; or NULL */
    json_t *args;                           /* owned */
    const struct atoll_guard_ops *ops;
    void *arg;
    struct atoll_guard_decision decision; /* so far */
    bool *gone;                           /* set when the call is freed; or NULL */
    bool result_changed;                  /* by an interceptor */
    bool changed;                         /* an interceptor has changed the arguments */
    /* Interceptors: the program, then those of the policies. */
    enum atoll_guard_phase phase;
    size_t hook;
    struct atoll_guard_job *job; /* that runs; or NULL */
    /* The result, while interceptors of the second phase see it. */
    char *text;   /* owned */
    json_t *data; /* owned */
    bool is_error;
    /* The queue. */
    struct atoll_list node;
    struct atoll_timer timer;
    int64_t expires_unix_ms;
    /* The record. */
    int64_t number, started_unix_ms, started_ms, decided_ms;
    char *shown; /* owned: its arguments without secrets */
    const char *state, *verdict;
};

/* hook.c: asks the next interceptor. `answered` is called with its answer (borrowed, an object) or an error.
 * Returns false if there is none left. */
bool atoll_guard_hook_next(struct atoll_guard_call *call);
/* Its answer, if there is one, is ignored. */
void atoll_guard_hook_drop(struct atoll_guard_call *call);
void atoll_guard_hooks_close(struct atoll_guard *guard);
/* call.c */
void atoll_guard_hook_answered(struct atoll_guard_call *call, const char *name, bool fails_open,
                               const json_t *answer, const struct atoll_error *error);
void atoll_guard_call_answer(struct atoll_guard_call *call, bool allow, const char *by,
                             const char *reason);

/* record.c: writes the record of the call as it is now. */
int atoll_guard_record(struct atoll_guard_call *call, const char *reason, size_t result_bytes,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
