#pragma once
#include "base/trace.h"
#include "loop/workers.h"
#include "provider/provider.h"

/*
 * A provider as straight-line code: every operation runs on a worker, blocks as it likes within its
 * deadline, and returns. This is what docker, gvisor, e2b and fake are written against; wrapping one
 * gives the asynchronous provider the engine knows. See docs/adding-a-provider.md.
 *
 * Thread: operations run on workers, several at a time, also for the same sandbox only if the engine
 * asked for both. What they share they lock. They never touch the loop.
 * Errors: UNAVAILABLE and DEADLINE_EXCEEDED mean that trying again may help; provider/checked.c
 * does. NOT_FOUND for a sandbox that is not there. Texts are for users: no keys, no tokens.
 */
struct atoll_sync_provider;

struct atoll_sync_call {
    int64_t
        deadline_ms; /* CLOCK_MONOTONIC; past it the operation gives up with DEADLINE_EXCEEDED */
    int cancel_fd;   /* readable once nobody wants the result any more: give up with ABORTED */
    void (*say)(void *arg, const char *text); /* see atoll_sync_say() */
    void *say_arg;
    struct atoll_origin origin; /* whose request it is: for headers on the way out */
};
/* Milliseconds left, at least 0; for poll() and for the options of HTTP clients. */
int atoll_sync_left_ms(const struct atoll_sync_call *call);
bool atoll_sync_cancelled(const struct atoll_sync_call *call);
/* Tells whoever waits for it what it is busy with (create), or a line of output (build). From the
 * worker that runs the operation. */
void atoll_sync_say(const struct atoll_sync_call *call, const char *text);

struct atoll_sync_ops {
    const char *name;
    struct atoll_provider_caps caps;
    /* As in provider.h. Pure: called on the loop's thread. */
    uint32_t (*missing_limits)(const struct atoll_sync_provider *p, const struct atoll_spec *spec);
    /* Makes the sandbox and starts our agent in it; ret_fd is the first stream to it. What the provider
     * needs to find it again goes to spec->handle. Called again with the same id after a failure that
     * may have left something: begins by removing that. On an error nothing is left. */
    int (*create)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  struct atoll_spec *spec, int *ret_fd, struct atoll_error *err);
    /* One more stream to the agent. */
    int (*dial)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                const struct atoll_spec *spec, int *ret_fd, struct atoll_error *err);
    /* How it is. Only an answer of the back end counts: silence is UNAVAILABLE. */
    int (*inspect)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                   struct atoll_error *err);
    /* Every sandbox of this daemon that the back end has. */
    int (*list)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                void (*each)(void *arg, const char *id, const char *handle, bool alive), void *arg,
                struct atoll_error *err);
    /* Idempotent and complete. */
    int (*destroy)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                   const struct atoll_spec *spec, struct atoll_error *err);
    /* The following may be NULL where caps say that there is no such thing. */
    int (*pause)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, struct atoll_error *err);
    int (*resume)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                  const struct atoll_spec *spec, struct atoll_error *err);
    int (*set_limits)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const struct atoll_spec *spec, const struct atoll_limits *limits,
                      struct atoll_error *err);
    int (*stats)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                 struct atoll_error *err);
    /* As in provider.h; build->context_fd is borrowed here. */
    int (*build)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                 const struct atoll_provider_build *build, struct atoll_provider_image *ret,
                 struct atoll_error *err);
    int (*snapshot)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                    const struct atoll_spec *spec, const char *image,
                    struct atoll_provider_image *ret, struct atoll_error *err);
    int (*drop_image)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                      const char *image, struct atoll_error *err);
    int (*list_volumes)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                        const char *tenant, atoll_provider_volume_fn *each, void *arg,
                        struct atoll_error *err);
    int (*drop_volume)(struct atoll_sync_provider *p, const struct atoll_sync_call *call,
                       const char *tenant, const char *name, struct atoll_error *err);
    /* Whether it can make sandboxes now; detail (cap bytes) gets a few words such as its version. */
    int (*health)(struct atoll_sync_provider *p, const struct atoll_sync_call *call, char *detail,
                  size_t cap, struct atoll_error *err);
    /* As in provider.h; may be NULL. Never blocks: called on the loop's thread. */
    bool (*public_host)(struct atoll_sync_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap);
    struct atoll_sync_provider *(*free)(struct atoll_sync_provider *p);
};

/* First member of every such provider's own struct. */
struct atoll_sync_provider {
    const struct atoll_sync_ops *ops;
};

/* Takes over p, also on failure; workers are borrowed. */
int atoll_sync_wrap(struct atoll_loop *loop, struct atoll_workers *workers,
                    struct atoll_sync_provider *p, struct atoll_provider **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
