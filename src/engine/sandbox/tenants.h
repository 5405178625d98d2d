#pragma once
#include "base/error.h"
#include "base/list.h"
#include "base/map.h"
#include "engine/sandbox/ordered.h"
#include "loop/loop.h"

/*
 * Accounts of tenants: their sandboxes in list order, the sums of their limits, and their running
 * and queued requests (admission.c). Thread: the loop's.
 */
struct atoll_engine;
struct atoll_provider_entry;
struct atoll_spec;
struct atoll_limits;

/* Kinds of requests that have a quota and a queue; admission.c. */
enum atoll_turn {
    ATOLL_TURN_CREATE,    /* creates on this machine */
    ATOLL_TURN_ELSEWHERE, /* creates that name an image or another provider */
    ATOLL_TURN_EXEC,
    ATOLL_TURNS
};

/* Limits of sandboxes whose sum is bounded. */
enum atoll_promise {
    ATOLL_PROMISE_MEMORY, /* bytes */
    ATOLL_PROMISE_CPU,    /* thousandths of a CPU */
    ATOLL_PROMISE_DISK,   /* bytes */
    ATOLL_PROMISES
};

/* Exists while the tenant has sandboxes or requests. */
struct atoll_tenant {
    char name[65];
    struct atoll_engine *engine;
    struct atoll_ordered sandboxes; /* without pooled ones */
    struct atoll_map names;         /* sandboxes that have one, by name; keys are in the sandbox */
    uint64_t promised[ATOLL_PROMISES];
    /* admission.c */
    uint32_t busy[ATOLL_TURNS];
    size_t waiting[ATOLL_TURNS];
    size_t waiting_bytes;                 /* size of the copies of queued requests */
    struct atoll_list queue[ATOLL_TURNS]; /* of struct request.node */
    struct atoll_list turn;               /* in engine->turns while a request is queued */
    bool held;                            /* not freed while its requests are processed */
};

/* Finds or makes the account; never NULL. */
struct atoll_tenant *atoll_tenant_get(struct atoll_engine *engine, const char *name);
/* NULL when the tenant has no account. */
struct atoll_tenant *atoll_tenant_find(const struct atoll_engine *engine, const char *name);
/* Frees the account if it is empty. */
void atoll_tenant_settle(struct atoll_tenant *tenant);
void atoll_tenants_done(struct atoll_engine *engine);

/* Adds a sandbox, whose owner and creation time are set, to its tenant's account and to lists. */
void atoll_tenant_enter(struct atoll_sandbox *sandbox);
/* Removes a sandbox; does nothing if it was never added. */
void atoll_tenant_leave(struct atoll_sandbox *sandbox);
/* Call when its limits or its provider have changed: updates the sums. */
void atoll_tenant_recount(struct atoll_sandbox *sandbox);

/* ALREADY_EXISTS: a sandbox of the tenant has this name. NULL name: 0. */
int atoll_tenant_check_name(const struct atoll_engine *engine, const char *owner, const char *name,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether a sandbox with these limits may be created there. INVALID_ARGUMENT: more than the machine
 * has; RESOURCE_EXHAUSTED: too much together with what other sandboxes were promised. */
int atoll_tenant_admit(struct atoll_engine *engine, const char *owner,
                       const struct atoll_provider_entry *entry, const struct atoll_spec *spec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the sandbox may have these limits instead of its own; errors as above. */
int atoll_tenant_admit_change(const struct atoll_sandbox *sandbox,
                              const struct atoll_limits *limits,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
