#pragma once
#include "base/error.h"
#include "base/list.h"
#include "engine/sandbox/ordered.h"
#include "loop/loop.h"

/*
 * What each tenant has: its sandboxes in the order of lists, what was promised to them of the
 * machine, and what it does and waits for (quota.c). All of it belongs to the loop's thread.
 */
struct atoll_engine;
struct atoll_provider_entry;
struct atoll_spec;

/* What a tenant takes turns for; quota.c. */
enum atoll_turn {
    ATOLL_TURN_CREATE,    /* sandboxes that this machine makes */
    ATOLL_TURN_ELSEWHERE, /* sandboxes for which the request names an image or another provider */
    ATOLL_TURN_EXEC,
    ATOLL_TURNS
};

/* Limits of sandboxes, which add up. */
enum atoll_promise {
    ATOLL_PROMISE_MEMORY, /* bytes */
    ATOLL_PROMISE_CPU,    /* thousandths */
    ATOLL_PROMISE_DISK,   /* bytes */
    ATOLL_PROMISES
};

/* Exists while the tenant has, uses or waits for something. */
struct atoll_tenant {
    char name[65];
    struct atoll_engine *engine;
    struct atoll_ordered sandboxes; /* not those that wait in the pool */
    uint64_t promised[ATOLL_PROMISES];
    /* quota.c */
    uint32_t busy[ATOLL_TURNS];
    size_t waiting[ATOLL_TURNS];
    size_t waiting_bytes;                 /* of the texts of those */
    struct atoll_list queue[ATOLL_TURNS]; /* of struct request.node */
    struct atoll_list turn;               /* in engine->turns while anything waits */
    bool held;                            /* stays while its requests come and go */
};

/* Never NULL. */
struct atoll_tenant *atoll_tenant_get(struct atoll_engine *engine, const char *name);
/* NULL when it has nothing. */
struct atoll_tenant *atoll_tenant_find(const struct atoll_engine *engine, const char *name);
/* Frees it when it has nothing any more. */
void atoll_tenant_settle(struct atoll_tenant *tenant);
void atoll_tenants_done(struct atoll_engine *engine);

/* A sandbox is its tenant's and in lists from now on: its owner and time of creation are set. */
void atoll_tenant_enter(struct atoll_sandbox *sandbox);
/* Nothing is left of it. One that never entered is fine. */
void atoll_tenant_leave(struct atoll_sandbox *sandbox);
/* Its limits or its provider have changed: counts what is promised to it once more. */
void atoll_tenant_recount(struct atoll_sandbox *sandbox);

/* Whether a sandbox with these limits may be made there. INVALID_ARGUMENT: the machine could never
 * give it; RESOURCE_EXHAUSTED: with what was promised to others it is too much. */
int atoll_tenant_admit(struct atoll_engine *engine, const char *owner,
                       const struct atoll_provider_entry *entry, const struct atoll_spec *spec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
