#pragma once
#include "base/trace.h"
#include "loop/workers.h"
#include "provider/provider.h"

/*
 * A provider as blocking code: every operation runs on a worker, may block within its deadline, and
 * returns. docker, gvisor, e2b and fake are written against this; wrapping one makes the
 * asynchronous provider that the engine uses. See docs/adding-a-provider.md.
 *
 * Thread: operations run on workers, several at a time; two for the same sandbox only if the engine
 * asked for both. Shared data must be locked. Operations never touch the loop.
 * Errors: UNAVAILABLE and DEADLINE_EXCEEDED mean that a retry may succeed; provider/checked.c
 * retries. NOT_FOUND: there is no such sandbox. Error texts are for users: no keys, no tokens.
 */
struct atoll_sync_provider;

struct atoll_sync_call {
    int64_t deadline_ms; /* CLOCK_MONOTONIC; after it the operation fails with DEADLINE_EXCEEDED */
    int cancel_fd;       /* readable once the result is not needed any more: fail with ABORTED */
    void (*say)(void *arg, const char *text); /* see atoll_sync_say() */
    void *say_arg;
    struct atoll_origin origin; /* the request it belongs to: for headers of outgoing requests */
};
/* Milliseconds left, at least 0; for poll() and for the options of HTTP clients. */
int atoll_sync_left_ms(const struct atoll_sync_call *call);
bool atoll_sync_cancelled(const struct atoll_sync_call *call);
/* Reports progress (create) or a line of output (build). Called on the worker that runs the
 * operation. */
void atoll_sync_say(const struct atoll_sync_call *call, const char *text);

struct atoll_sync_ops {
    const char *name;
    struct atoll_provider_caps caps;
    /* As in provider.h. Pure: called on the loop's thread. */
    uint32_t (*missing_limits)(const struct atoll_sync_provider *p, const struct atoll_spec *spec);
    /* The networks that exist at present, instead of caps.networks; may be NULL. Likewise. */
    uint32_t (*networks)(const struct atoll_sync_provider *p);
    /* Those that the capabilities exclude may be NULL. */
#define BLOCKING(NAME, member, parameters, pass) int(*member) parameters;
#include "provider/operations.def"
    /* As in provider.h; may be NULL. Must not block: called on the loop's thread. */
    int (*keeper)(struct atoll_sync_provider *p);
    bool (*public_host)(struct atoll_sync_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap);
    struct atoll_sync_provider *(*free)(struct atoll_sync_provider *p);
};

/* First member of every blocking provider's own struct. */
struct atoll_sync_provider {
    const struct atoll_sync_ops *ops;
};

/* Takes ownership of p, also on failure; workers are borrowed. */
int atoll_sync_wrap(struct atoll_loop *loop, struct atoll_workers *workers,
                    struct atoll_sync_provider *p, struct atoll_provider **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
