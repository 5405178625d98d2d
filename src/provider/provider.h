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
    /* What is 0 nobody measured: the agent's own figures stand in, where it has some. */
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes; /* limit 0: none */
    uint64_t cpu_us;
    uint64_t processes, processes_peak;
    uint64_t disk_bytes, disk_limit_bytes;
    uint32_t cpu_limit_millis;
    bool has_cpu_percent;
    double cpu_percent; /* of late, 100 is one CPU; by whoever measures no sum of it */
};

/* What a provider can promise. What it cannot is refused, never imitated. */
struct atoll_provider_caps {
    const char *isolation; /* "namespaces", "container", "gvisor", "microvm" */
    bool remote;           /* runs somewhere else: files and output travel over a network */
    bool templates;        /* runs the engine's templates */
    bool images;           /* runs container images by name */
    bool own_templates;    /* has templates of its own, for requests that name the provider too */
    bool layers;           /* builds templates: it keeps layers */
    bool builds;           /* builds images from a Dockerfile */
    bool snapshots;        /* makes images of what is on a sandbox's disk */
    bool volumes;          /* mounts what outlives sandboxes: spec.mounts */
    bool descriptors;      /* streams to the agent carry descriptors */
    bool pause;
    bool persistent; /* a disk can outlive its processes */
    bool set_limits; /* while it runs */
    bool stats;
    uint32_t networks; /* bit per enum atoll_network */
};

/* How a sandbox is, by the word of whoever runs it. */
struct atoll_provider_inspection {
    enum {
        ATOLL_INSPECT_ALIVE,
        ATOLL_INSPECT_PAUSED,
        ATOLL_INSPECT_EXITED,
        ATOLL_INSPECT_GONE
    } state;
    struct atoll_provider_exit exit; /* EXITED */
    bool oom;                        /* EXITED: of its memory limit, with exit.oom_kills */
    char cause[200];                 /* EXITED, GONE: in words */
};

struct atoll_provider_events {
    /* A sandbox's first process is gone, unasked. What remains waits for destroy(). */
    void (*exited)(void *arg, const char *id, const struct atoll_provider_exit *exit);
    /* Every sandbox of this provider is gone, with all that belonged to it. */
    void (*lost)(void *arg, const char *why);
    /* What a create() is busy with, in words for whoever waits for it. May be NULL. */
    void (*progress)(void *arg, const char *id, const char *text);
};

/* An image to be. */
struct atoll_provider_build {
    const char *image;          /* the name it gets */
    const char *dockerfile;     /* its path in the context */
    int context_fd;             /* a stream with the context as a tar archive; taken over */
    enum atoll_network network; /* what the steps see: NONE or BRIDGE */
    uint64_t memory_bytes;      /* for each step */
};

/* What came of it. */
struct atoll_provider_image {
    char digest[72]; /* "sha256:…" */
    uint64_t size_bytes;
};

struct atoll_provider_volume {
    char name[65];           /* among its tenant's */
    int64_t created_unix_ms; /* 0: not known */
};

/* agent_fd: a connected stream to the agent, owned by the callback; boot_us: how long it took. */
typedef void atoll_provider_created_fn(void *arg, int agent_fd, uint64_t boot_us,
                                       const struct atoll_error *error);
/* fd: a connected stream to the agent, owned by the callback. */
typedef void atoll_provider_dialed_fn(void *arg, int fd, const struct atoll_error *error);
typedef void atoll_provider_inspected_fn(void *arg, const struct atoll_provider_inspection *look,
                                         const struct atoll_error *error);
typedef void atoll_provider_stats_fn(void *arg, const struct atoll_provider_stats *stats,
                                     const struct atoll_error *error);
/* detail: a few words such as its version; "" where there is nothing to say. */
typedef void atoll_provider_health_fn(void *arg, const char *detail,
                                      const struct atoll_error *error);
/* handle: "" where the id is all there is. */
typedef void atoll_provider_each_fn(void *arg, const char *id, const char *handle, bool alive);
typedef void atoll_provider_done_fn(void *arg, const struct atoll_error *error);
/* A line of a build's output. */
typedef void atoll_provider_said_fn(void *arg, const char *line);
typedef void atoll_provider_image_fn(void *arg, const struct atoll_provider_image *image,
                                     const struct atoll_error *error);
typedef void atoll_provider_volume_fn(void *arg, const struct atoll_provider_volume *volume);

struct atoll_provider_ops {
    const char *name;
    /* Does not change while the provider is there. */
    const struct atoll_provider_caps *(*caps)(struct atoll_provider *p);
    /* Which of ATOLL_LIMIT_* cannot be enforced for this spec, or only at a price that whoever can do
     * without them (spec->waived) would not pay. */
    uint32_t (*missing_limits)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* On an error nothing of it is left. *spec lives until done: what the provider chose itself is
     * in it by then (handle, outside_id). */
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
    void (*inspect)(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_inspected_fn *done, void *arg);
    /* What there is, also from before this daemon: `each` for every sandbox (not alive: its first process
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
    /* Images of its own, by names that the engine gives them (spec.image). What the build says comes
     * line by line, then done. A step that fails is FAILED_PRECONDITION with the step and why. */
    void (*build)(struct atoll_provider *p, const struct atoll_provider_build *build,
                  atoll_provider_said_fn *said, atoll_provider_image_fn *done, void *arg);
    /* Nobody wants that image any more: its build(), if under way, may give up. done comes. */
    void (*cancel_build)(struct atoll_provider *p, const char *image);
    /* From what the disk of a sandbox holds now. */
    void (*snapshot)(struct atoll_provider *p, const struct atoll_spec *spec, const char *image,
                     atoll_provider_image_fn *done, void *arg);
    /* Absent is success. */
    void (*drop_image)(struct atoll_provider *p, const char *image, atoll_provider_done_fn *done,
                       void *arg);
    /* Those of one tenant: made by the create() that first mounts them, there until dropped. */
    void (*list_volumes)(struct atoll_provider *p, const char *tenant,
                         atoll_provider_volume_fn *each, atoll_provider_done_fn *done, void *arg);
    /* NOT_FOUND; FAILED_PRECONDITION while a sandbox has it. */
    void (*drop_volume)(struct atoll_provider *p, const char *tenant, const char *name,
                        atoll_provider_done_fn *done, void *arg);
    /* Whether it can make sandboxes now. */
    void (*health)(struct atoll_provider *p, atoll_provider_health_fn *done, void *arg);
    /* Under what name whoever runs it shows its ports to the world, "{port}" in place of the number;
     * false where nobody does. May be NULL. */
    bool (*public_host)(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap);
    /* Whether somebody waits for a `done` of it. May be NULL. */
    bool (*is_busy)(struct atoll_provider *p);
    /* Ends what runs beside the daemon, after the last sandbox is gone. */
    void (*shutdown)(struct atoll_provider *p);
    struct atoll_provider *(*free)(struct atoll_provider *p);
};

/* First member of every provider's own struct. Operations that its capabilities exclude may be NULL
 * (pause, resume, stop, set_limits, stats, keep_layer, drop_layer, build and the like, reserve,
 * shutdown): the engine
 * has every provider wrapped by provider/checked.h, which refuses in words. */
struct atoll_provider {
    const struct atoll_provider_ops *ops;
    const struct atoll_provider_events *events; /* set by the engine before the first call */
    void *events_arg;
};
