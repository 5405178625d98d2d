#pragma once
#include "base/error.h"
#include "sandbox/spec.h"

/*
 * The interface between the engine and a provider, which makes sandboxes: it runs our agent in a
 * place of its own and removes that place again. Commands and files go through the agent, the same
 * for every provider.
 *
 * Thread: the loop's; nothing here blocks. `done` is called exactly once, possibly before the call
 * returns. A spec names a sandbox: its id and handle are enough to find it and survive a restart of
 * the daemon. Specs are borrowed for the call, except by create().
 */
struct atoll_provider;

struct atoll_provider_exit {
    int code;   /* of the first process; -1 if a signal ended it */
    int signal; /* 0 if it exited */
    uint64_t oom_kills, memory_peak_bytes, cpu_us;
};

struct atoll_provider_stats {
    /* 0: not measured; the engine then uses the agent's figures, if there are any. */
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes; /* limit 0: no limit */
    uint64_t cpu_us;
    uint64_t processes, processes_peak;
    uint64_t disk_bytes, disk_limit_bytes;
    uint32_t cpu_limit_millis;
    bool has_cpu_percent;
    /* Recent load, 100 is one CPU; for providers that do not measure total CPU time. */
    double cpu_percent;
};

/* What a provider supports. The engine refuses the rest and does not emulate it. */
struct atoll_provider_caps {
    const char *isolation; /* "namespaces", "container", "gvisor", "microvm" */
    bool remote;           /* not on this host: files and output cross a network */
    bool templates;        /* runs the engine's templates */
    bool images;           /* runs container images by name */
    bool stacks;           /* runs stacks of layers (spec.layers): the engine pulls images for it */
    bool own_templates;    /* has templates of its own, for requests that also name the provider */
    bool layers;           /* can build templates: it stores layers */
    bool builds;           /* builds images from a Dockerfile */
    bool loads;            /* loads images from archives: the engine makes those of its templates */
    bool snapshots;        /* makes images from the disk of a sandbox */
    bool snapshot_layers;  /* makes layers from the disk of a sandbox */
    bool volumes;          /* supports spec.mounts: volumes outlive sandboxes */
    bool volume_copies;    /* makes a volume from what another one has */
    bool read_only;        /* supports spec.read_only */
    bool disk_choice;      /* supports spec.disk_choice */
    bool disk_pool;   /* has one: a disk there has spec.history_bytes, which create() clears else */
    bool descriptors; /* streams to the agent carry descriptors */
    bool pause;
    bool save;       /* can write the memory of sandboxes to disk, and read it back */
    bool reclaim;    /* memory of paused sandboxes */
    bool persistent; /* a disk can outlive the processes of its sandbox */
    bool set_limits; /* while the sandbox runs */
    bool stats;
    uint32_t networks; /* bit per enum atoll_network */
    /* Its networks are served by atoll-egress, which enforces their policy: it has sockets(). */
    bool sockets;
    /* Enforces policies itself (spec.network_json): its create() refuses, before it makes anything, one that
     * it cannot express. */
    bool policies;
    bool set_network; /* with policies: that of a running sandbox */
};

/* The state of a sandbox as its provider reports it. */
struct atoll_provider_inspection {
    enum {
        ATOLL_INSPECT_ALIVE,
        ATOLL_INSPECT_PAUSED,
        ATOLL_INSPECT_EXITED,
        ATOLL_INSPECT_GONE
    } state;
    struct atoll_provider_exit exit; /* EXITED */
    bool oom;                        /* EXITED: killed at its memory limit, with exit.oom_kills */
    char cause[200];                 /* EXITED, GONE: for users */
};

struct atoll_provider_events {
    /* The first process of a sandbox ended without a request. destroy() removes what remains. */
    void (*exited)(void *arg, const char *id, const struct atoll_provider_exit *exit);
    /* Every sandbox of this provider is gone, with all its resources. */
    void (*lost)(void *arg, const char *why);
    /* What create() is doing now, as text for the client. May be NULL. */
    void (*progress)(void *arg, const char *id, const char *text);
};

/* Input of build(). */
struct atoll_provider_build {
    const char *image;          /* name of the new image */
    const char *dockerfile;     /* path in the context */
    int context_fd;             /* stream of the context as a tar archive; ownership passes */
    enum atoll_network network; /* network of the build steps: NONE or BRIDGE */
    uint64_t memory_bytes;      /* limit of each step */
};

/* Result of build() and snapshot(). */
struct atoll_provider_image {
    char digest[72]; /* "sha256:…" */
    uint64_t size_bytes;
};

/* Result of keep_layer() and snapshot_layer(). */
struct atoll_provider_layer {
    uint64_t bytes;     /* of the content of its files; 0: unknown */
    uint64_t files;     /* number of its entries; 0: unknown */
    uint64_t flush_us;  /* snapshot_layer(): what was done before that, while they ran */
    uint64_t frozen_us; /* snapshot_layer(): how long the processes of the sandbox stood still */
};

struct atoll_provider_volume {
    char name[65];           /* unique for its tenant */
    int64_t created_unix_ms; /* 0: unknown */
    uint64_t size_bytes;     /* its limit; 0: none, or unknown */
    uint64_t used_bytes;     /* of the disk, if it has a limit */
};

/* agent_fd: a connected stream to the agent, owned by the callback. boot_us: how long the start
 * took. */
typedef void atoll_provider_created_fn(void *arg, int agent_fd, uint64_t boot_us,
                                       const struct atoll_error *error);
/* fd: a connected stream to the agent, owned by the callback. */
typedef void atoll_provider_dialed_fn(void *arg, int fd, const struct atoll_error *error);
/* Both are owned by the callback. */
typedef void atoll_provider_sockets_fn(void *arg, int tcp_fd, int dns_fd,
                                       const struct atoll_error *error);
typedef void atoll_provider_inspected_fn(void *arg, const struct atoll_provider_inspection *look,
                                         const struct atoll_error *error);
typedef void atoll_provider_stats_fn(void *arg, const struct atoll_provider_stats *stats,
                                     const struct atoll_error *error);
/* detail: short text such as the provider's version, or "". */
typedef void atoll_provider_health_fn(void *arg, const char *detail,
                                      const struct atoll_error *error);
/* handle: "" if the provider uses the id alone. */
typedef void atoll_provider_each_fn(void *arg, const char *id, const char *handle, bool alive);
typedef void atoll_provider_done_fn(void *arg, const struct atoll_error *error);
/* A line of a build's output. */
typedef void atoll_provider_said_fn(void *arg, const char *line);
typedef void atoll_provider_image_fn(void *arg, const struct atoll_provider_image *image,
                                     const struct atoll_error *error);
typedef void atoll_provider_layer_fn(void *arg, const struct atoll_provider_layer *made,
                                     const struct atoll_error *error);
typedef void atoll_provider_volume_fn(void *arg, const struct atoll_provider_volume *volume);

/* The operations with a result are declared by the table in operations.def, where each has its
 * contract. */
struct atoll_provider_ops {
    const char *name;
    /* Constant for the life of the provider. */
    const struct atoll_provider_caps *(*caps)(struct atoll_provider *p);
    /* Which of ATOLL_LIMIT_* cannot be enforced for this spec. Includes limits that are possible
     * but costly if the spec waives them (spec->waived). */
    uint32_t (*missing_limits)(struct atoll_provider *p, const struct atoll_spec *spec);
#define OPERATION(NAME, member, label, verb, budget_ms, deadline_ms, capability, result, \
                  parameters, keep, pass)                                                \
    void(*member) parameters;
#include "provider/operations.def"
    /* The result of this create() is not needed any more; the provider may abort it. Its done is
     * called in any case. May be NULL. */
    void (*cancel)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* Reserves what a listed or stopped sandbox holds on this host (its outside_id), before any
     * other operation on it. adopt() includes this. */
    void (*reserve)(struct atoll_provider *p, const struct atoll_spec *spec);
    /* The result of this build() is not needed any more; the provider may abort it. Its done is
     * called in any case. */
    void (*cancel_build)(struct atoll_provider *p, const char *image);
    /* The host name under which a remote service publishes the ports of this sandbox, with
     * "{port}" in place of the number; false if it does not. May be NULL. */
    bool (*public_host)(struct atoll_provider *p, const struct atoll_spec *spec, char *out,
                        size_t cap);
    /* A pidfd, which the caller owns, of the process whose end ends all its sandboxes; -errno. May be
     * NULL. */
    int (*keeper)(struct atoll_provider *p);
    /* Whether an operation is in progress. May be NULL. */
    bool (*is_busy)(struct atoll_provider *p);
    /* Ends the provider's helper programs, after the last sandbox is gone. */
    void (*shutdown)(struct atoll_provider *p);
    struct atoll_provider *(*free)(struct atoll_provider *p);
};

/* First member of every provider's own struct. Operations that its capabilities exclude may be
 * NULL (pause, resume, reclaim, save, stop, set_limits, stats, keep_layer, drop_layer, snapshot_layer, build and
 * the like,
 * reserve, shutdown): provider/checked.h wraps every provider and refuses them with an error
 * text. */
struct atoll_provider {
    const struct atoll_provider_ops *ops;
    const struct atoll_provider_events *events; /* set by the engine before the first call */
    void *events_arg;
};
