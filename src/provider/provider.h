#pragma once
#include "base/error.h"
#include "sandbox/spec.h"

/*
 * What the engine wants from whoever makes sandboxes: a place that runs our agent, and a way to get
 * rid of it again. Commands and files then go through the agent, the same for every provider.
 *
 * Thread: the loop's; nothing here blocks. `done` is called exactly once, possibly before the call
 * returns. A sandbox is named by its spec, of which id and handle are what it is found by: plain
 * data that survives a restart of the daemon. Specs are borrowed for the call, but for create().
 */
struct atoll_provider;

struct atoll_provider_exit {
    int code;   /* of the first process, -1 when a signal ended it */
    int signal; /* 0 when it exited */
    uint64_t oom_kills, memory_peak_bytes, cpu_us;
};

struct atoll_provider_stats {
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes; /* limit 0: none */
    uint64_t cpu_us;
    uint64_t processes, processes_peak;
};

/* What a provider can promise. What it cannot is refused, never imitated. */
struct atoll_provider_caps {
    const char *isolation; /* "namespaces", "container", "gvisor", "microvm" */
    bool remote;           /* runs somewhere else: files and output travel over a network */
    bool templates;        /* runs the engine's templates */
    bool images;           /* runs container images by name */
    bool layers;           /* builds templates: it keeps layers */
    bool descriptors;      /* streams to the agent carry descriptors */
    bool pause;
    bool persistent; /* a disk can outlive its processes */
    bool set_limits; /* while it runs */
    bool stats;
    uint32_t networks; /* bit per enum atoll_network */
};

/* How a sandbox is, by the word of whoever runs it. */
struct atoll_provider_look {
    enum { ATOLL_LOOK_ALIVE, ATOLL_LOOK_PAUSED, ATOLL_LOOK_EXITED, ATOLL_LOOK_GONE } state;
    struct atoll_provider_exit exit; /* EXITED */
    char cause[200];                 /* EXITED, GONE: in words */
};

struct atoll_provider_events {
    /* A sandbox's first process is gone, unasked. What remains waits for destroy(). */
    void (*exited)(void *arg, const char *id, const struct atoll_provider_exit *exit);
    /* Every sandbox of this provider is gone, with all that belonged to it. */
    void (*lost)(void *arg, const char *why);
};

/* agent_fd: a connected stream to the agent, owned by the callback; boot_us: how long it took. */
typedef void atoll_provider_created_fn(void *arg, int agent_fd, uint64_t boot_us,
                                       const struct atoll_error *error);
/* fd: a connected stream to the agent, owned by the callback. */
typedef void atoll_provider_dialed_fn(void *arg, int fd, const struct atoll_error *error);
typedef void atoll_provider_looked_fn(void *arg, const struct atoll_provider_look *look,
                                      const struct atoll_error *error);
typedef void atoll_provider_stats_fn(void *arg, const struct atoll_provider_stats *stats,
                                     const struct atoll_error *error);
/* detail: a few words such as its version; "" where there is nothing to say. */
typedef void atoll_provider_health_fn(void *arg, const char *detail,
                                      const struct atoll_error *error);
/* handle: "" where the id is all there is. */
typedef void atoll_provider_each_fn(void *arg, const char *id, const char *handle, bool alive);
typedef void atoll_provider_done_fn(void *arg, const struct atoll_error *error);

struct atoll_provider_ops {
    const char *name;
    /* Does not change while the provider is there. */
    const struct atoll_provider_caps *(*caps)(struct atoll_provider *p);
    /* Which of ATOLL_LIMIT_* cannot be enforced for this spec. */
    uint32_t (*missing_limits)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* On an error nothing of it is left. *spec lives until done: what the provider chose itself is
     * in it by then (handle), or already when this returns (outside_id). */
    void (*create)(struct atoll_provider *p, struct atoll_spec *spec,
                   atoll_provider_created_fn *done, void *arg);
    /* Nobody wants this one any more: its create(), if under way, may give up. Its done comes all
     * the same, with what became of it. May be NULL. */
    void (*cancel)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* One more stream to the agent of one that lives. */
    void (*dial)(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_dialed_fn *done, void *arg);
    /* How it is. Only an answer counts: whoever is silent is UNAVAILABLE, and its sandboxes are not
     * gone for that. */
    void (*look)(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_looked_fn *done, void *arg);
    /* What there is from before this daemon: `each` for every sandbox (not alive: its first process
     * is gone, the rest waits for destroy or stop; a stopped one is such a rest), then done. */
    void (*list)(struct atoll_provider *p, atoll_provider_each_fn *each,
                 atoll_provider_done_fn *done, void *arg);
    /* One of those, or one that is stopped, is known again with what it holds on this host (its
     * outside_id), before anything is asked about it. adopt() does so by itself. */
    void (*reserve)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* Takes one of those over: what create() gave, once more. spec is as it was then. */
    void (*adopt)(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_created_fn *done, void *arg);
    /* Idempotent and complete. */
    void (*destroy)(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_done_fn *done, void *arg);
    /* Of a persistent one: as destroy(), but its disk stays, for a create() with spec.resume_disk, and
     * what it holds on this host stays reserved. */
    void (*stop)(struct atoll_provider *p, const struct atoll_spec *spec,
                 atoll_provider_done_fn *done, void *arg);
    /* done comes when every process stands still, agent included. Idempotent, as is resume(). */
    void (*pause)(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_done_fn *done, void *arg);
    void (*resume)(struct atoll_provider *p, const struct atoll_spec *spec,
                   atoll_provider_done_fn *done, void *arg);
    void (*set_limits)(struct atoll_provider *p, const struct atoll_spec *spec,
                       const struct atoll_limits *limits, atoll_provider_done_fn *done, void *arg);
    /* NOT_FOUND, or UNIMPLEMENTED where nobody measures. */
    void (*stats)(struct atoll_provider *p, const struct atoll_spec *spec,
                  atoll_provider_stats_fn *done, void *arg);
    /* Directory `path` of the writable part of a builder sandbox becomes the layer `layer`. */
    void (*keep_layer)(struct atoll_provider *p, const struct atoll_spec *spec, const char *path,
                       const char *layer, atoll_provider_done_fn *done, void *arg);
    void (*drop_layer)(struct atoll_provider *p, const char *layer, atoll_provider_done_fn *done,
                       void *arg);
    /* Whether it can make sandboxes now. */
    void (*health)(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);
    /* Ends what runs beside the daemon, after the last sandbox is gone. */
    void (*shutdown)(struct atoll_provider *p);
    struct atoll_provider *(*free)(struct atoll_provider *p);
};

/* First member of every provider's own struct. Operations that its capabilities exclude may be NULL
 * (pause, resume, stop, set_limits, stats, keep_layer, drop_layer, reserve, shutdown): the engine
 * has every provider wrapped by provider/checked.h, which refuses in words. */
struct atoll_provider {
    const struct atoll_provider_ops *ops;
    const struct atoll_provider_events *events; /* set by the engine before the first call */
    void *events_arg;
};
