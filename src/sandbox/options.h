#pragma once
#include "sandbox/spec.h"

/*
 * The options of a sandbox: what a request to create one can ask for. Facades fill in the struct,
 * the queue of creates and the sandbox keep copies of it (engine/sandbox/options.c), and the store
 * keeps the part that survives the daemon (store/sqlite/sandboxes.c).
 */
enum atoll_at_deadline {
    ATOLL_DEADLINE_DESTROY, /* a persistent sandbox is stopped instead */
    ATOLL_DEADLINE_PAUSE,
    ATOLL_DEADLINE_PAUSE_DISK, /* its processes are ended */
};

/* What ends a sandbox besides its owner, and its budgets; 0 fields: unlimited. The deadline is
 * limits.timeout_s. */
struct atoll_lifetime {
    uint32_t idle_s;       /* time without a running command or a request */
    uint32_t lease_s;      /* time without atoll_engine_heartbeat() */
    bool connection_lease; /* ends with atoll_engine_connection_closed(), or when the daemon dies */
    uint32_t cpu_budget_s; /* CPU time of all its processes; beyond it, its commands are killed */
    uint64_t output_budget_bytes;       /* stdout and stderr of all its commands; likewise */
    enum atoll_at_deadline at_deadline; /* what to do at the deadline or when idle */
    bool persistent; /* its disk survives its processes, the daemon and the host */
};

/* Pointers are borrowed, except in a copy that atoll_options_dup() made. */
struct atoll_options {
    struct atoll_limits limits; /* 0 fields: defaults */
    uint32_t waived;            /* ATOLL_LIMIT_* that need not be enforced */
    struct atoll_lifetime lifetime;
    enum atoll_network network;
    uint32_t gpus;
    bool read_only; /* its root file system: see struct atoll_spec */
    /* Where there is no `user`, or one user only, it is the default user that there is. */
    bool user_is_optional;
    /* When its provider loses it, make it again with the same id, without its files. */
    bool recreate;
    bool checkpoints; /* before and after every command */
    enum atoll_disk_choice disk_choice;
    const char *id;    /* that a facade has sent already, by atoll_rand_id(); NULL: a new one */
    const char *owner; /* tenant; NULL: "default" */
    const char *name;  /* unique among the sandboxes of the tenant; NULL: none */
    const char *template_name; /* NULL: host */
    const char *workdir;       /* working directory of its commands; NULL: the user's home */
    const char *user;          /* default user of its commands and files; NULL: the template's */
    const char *image;         /* a container image instead of a template, or NULL */
    const char *provider;      /* name; NULL or "auto": any that can */
    const char *isolation;     /* "container", "gvisor", …; NULL: any */
    const char *service;       /* kind of the provider that the following are for; NULL: any */
    const char *region;        /* at a service; NULL: that of its settings */
    const char *credential;    /* the client's own key at a service; NULL: that of its settings */
    const char *language;      /* language of the code that will run; NULL: unknown */
    const char *interpreter;   /* language whose interpreter may be started already; NULL: none */
    /* Modules that the default interpreter of that language imports when it starts; or NULL. Not
     * stored: a later daemon starts interpreters without them. */
    const char *const *warm;
    const char *session_id; /* of the session it belongs to, or NULL */
    /* The canonical policy of its network (network/policy.h); NULL: all that the mode permits. May
     * contain secrets. */
    const char *network_json;
    /* Rules about calls of tools (guard/policy.h); NULL: none. May contain secrets. */
    const char *tool_policy_json;
    const char *metadata_json; /* an object whose values are strings, or NULL; shown to clients */
    /* Private data of the facade, which survives a restart and is not shown to clients; NULL: none.
     * Not for secrets: it is stored on disk. */
    const char *facade_json;
    const char *const *env; /* NAME=VALUE, NULL-terminated, or NULL; for all execs */
    /* The request or its environment names a network: the default of a provider does not apply. */
    bool network_is_given;
    bool env_is_common;               /* env comes from the registry only and contains no secret */
    const char *const *artifacts;     /* patterns of files to keep (engine/artifact/artifacts.h) */
    const struct atoll_mount *mounts; /* at most ATOLL_MOUNTS_MAX */
    size_t mount_count;
    const struct atoll_registry_login *login; /* for the image's registry, or NULL; never stored */
    bool without_start;                       /* the start command of its template is not run */
    /* Called until the create is done with a description of the current step; or NULL. */
    void (*progress)(void *arg, const char *text);
    void *progress_arg;
};

/* Checkpoints are cheap where disks can be copied at once. */
static inline enum atoll_disk_choice atoll_options_disk(const struct atoll_options *options)
{
    return options->disk_choice == ATOLL_DISK_ANY && options->checkpoints
               ? ATOLL_DISK_POOLED_IF_POSSIBLE
               : options->disk_choice;
}

/* In the disk pool, blocks that only checkpoints have still count for the disk. So it gets as much again for them,
 * within this bound. */
#define ATOLL_HISTORY_BYTES (UINT64_C(4) << 30)
static inline uint64_t atoll_options_history(const struct atoll_options *options,
                                             const struct atoll_limits *limits)
{
    enum atoll_disk_choice disk = atoll_options_disk(options);
    bool in_pool = disk == ATOLL_DISK_IN_POOL || disk == ATOLL_DISK_POOLED_IF_POSSIBLE;

    return options->checkpoints && in_pool && limits->io_bytes == 0
               ? ATOLL_MIN(limits->disk_bytes, ATOLL_HISTORY_BYTES)
               : 0;
}
