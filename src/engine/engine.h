#pragma once
#include "base/error.h"
#include "engine/template/template.h"
#include "loop/loop.h"
#include "loop/offload.h"
#include "proto/agent_proto.h"
#include "sandbox/options.h"

/*
 * The engine: sandboxes, the commands in them and their files. Facades (api/) see this header and
 * nothing below it.
 *
 * Thread: the loop's. Nothing blocks; a function that takes time has a `done` callback, which is
 * called exactly once, possibly before the function returns. Errors in callbacks are borrowed.
 * Ownership: the engine owns all objects. A pointer to a sandbox or exec is valid until control
 * returns to the loop; keep the id across callbacks and look it up again.
 */
struct atoll_engine;
struct atoll_provider;
struct atoll_store;
struct atoll_sandbox;
struct atoll_exec;
struct atoll_route_kinds; /* engine/provider/routing.h */

/* What one tenant may have at a time. Creates and execs beyond their quota wait in the tenant's
 * queue for each; requests beyond the length of that queue fail with RESOURCE_EXHAUSTED. */
struct atoll_quota {
    uint32_t sandboxes; /* 0: no quota */
    uint32_t creates;   /* in progress; 0: two per CPU, at least 4 */
    uint32_t execs;     /* running; 0: 1024 */
    uint32_t queue;     /* 0: 1024 */
    uint32_t secrets;   /* that a tenant may have */
    /* In progress on this machine for all tenants; 0: four per CPU, at least 8. */
    uint32_t all_creates;
    uint32_t elsewhere; /* creates from images and at remote providers; computed from the others */
    uint32_t cpus;      /* of the machine; 0: unknown */
    /* Sums of limits, by enum atoll_promise; 0: unlimited. */
    uint64_t machine[3];     /* what the machine has: no sandbox may have a higher limit */
    uint64_t tenant_most[3]; /* for the sandboxes of one tenant */
    uint64_t total_most[3];  /* for all sandboxes */
    /* tenant_most is a default, not set by the operator: it does not apply to the operator's own
     * tenant. */
    bool tenant_derived[3];
};
/* The tenant of sandboxes that are created through the unix socket. */
#define ATOLL_OPERATOR_TENANT "default"

/* Output of commands that is kept on disk. Beyond a quota the journals of ended commands are
 * dropped, oldest first; readers see a gap. */
struct atoll_output_quota {
    uint64_t sandbox_bytes; /* 0: an eighth of total_bytes */
    uint64_t tenant_bytes;  /* 0: half of total_bytes */
    uint64_t total_bytes;   /* 0: an eighth of the file system, 16 GiB at most */
    uint32_t days;          /* 0: no expiry */
};

/* A provider and its settings. Strings are copied. */
struct atoll_engine_provider {
    /* Ownership is taken, also on failure; see provider/checked.h. */
    struct atoll_provider *provider;
    /* The existing provider to keep, when provider is NULL (atoll_engine_set_providers). */
    const char *name;
    const char *kind; /* kind of provider; NULL: the same as its name */
    /* Where its sandboxes live: a provider with the same name and place has the same sandboxes.
     * NULL: differs from every other. */
    const char *place;
    const char *const *languages; /* NULL-terminated: languages it runs; NULL: not declared */
    struct atoll_limits most; /* upper bounds of what a request may ask for; 0 fields: unbounded */
    uint32_t max_sandboxes;   /* 0: no limit */
    struct atoll_limits
        limits;        /* defaults for fields that a request leaves 0; 0 fields: the engine's */
    const char *image; /* default image; NULL: none */
    enum atoll_network network; /* of requests that give none */
    bool named_only;            /* used only for requests that name it */
    const char *source;         /* where its settings come from, for views; NULL: unknown */
    uint32_t weight;            /* with ATOLL_PLACE_WEIGHT: its share of the sandboxes; 0: 1 */
    uint32_t check_ms;          /* interval of health checks; 0: 10 s, or 30 */
    uint32_t orphans_ms;  /* interval at which it is asked for orphaned sandboxes; 0: 5 minutes */
    uint32_t reattach_ms; /* maximum backoff before an agent is dialed again; 0: 10 s */
};

/* Images of registries (engine/template/pull.h). Copied. */
struct atoll_images_config {
    const char *mirrors;  /* "HOST=URL", separated by commas or blanks; NULL: none */
    const char *insecure; /* hosts that may be spoken to with http; likewise */
    const char *logins;   /* a config.json of Docker with logins for all tenants; NULL: none */
    uint64_t max_bytes;   /* of the blobs of one image; 0: 32 GiB */
};

struct atoll_engine_config {
    const char *state_dir;                         /* must exist, and is used by this engine only */
    const struct atoll_engine_provider *providers; /* in order of preference; at most 16 */
    size_t provider_count;
    struct atoll_store *store;  /* ownership is taken, also on failure */
    uint32_t pool_max;          /* sandboxes of all environments that are kept ready */
    uint64_t pool_memory_bytes; /* what they may use together */
    uint32_t pool;              /* number of sandboxes kept ready per pool class (pool.c) */
    uint32_t max_sandboxes;     /* 0: 4096 */
    struct atoll_quota quota;
    uint64_t journal_max_bytes; /* output kept per exec, see atoll_reader; 0: 64 MiB */
    struct atoll_output_quota output;
    uint64_t artifacts_max_bytes; /* for artifacts of all destroyed sandboxes; 0: none are kept */
    uint32_t artifacts_days;      /* how long artifacts are kept; 0: no expiry */
    uint32_t ended_max;           /* number of records of ended sandboxes; 0: none are kept */
    uint32_t ended_days;          /* how long they are kept; 0: no expiry */
    uint64_t ended_output_bytes;  /* output of their commands; 0: none is kept */
    uint32_t waived;              /* limits the operator waives for every sandbox */
    uint64_t io_bytes;            /* default of limits.io_bytes; 0: no limit */
    uint64_t template_cache_max_bytes; /* of layers that only cached steps of builds use */
    uint64_t build_step_max_bytes;     /* that a step of a build may write; 0: unlimited */
    uint64_t build_caches_max_bytes;   /* of all cache mounts of builds together */
    uint32_t template_history;         /* versions without a tag that a template keeps */
    uint32_t snapshots_max;            /* of one tenant; 0: no limit */
    uint64_t snapshots_max_bytes;      /* of their layers; 0: no limit */
    /* How long, and how many, snapshots are kept, as engine/state/retention.h reads it; NULL: no bound.
     * Borrowed for the life of the engine. */
    const char *snapshot_days, *snapshot_keep;
    const char *egress_program; /* atoll-egress; NULL: sandboxes that need it cannot be made */
    /* The operator's bound on networks, as in the options of the daemon: --network-max,
     * --network-deny, --network-internal. Copied; NULL: none. */
    const char *network_most, *network_deny, *network_internal;
    /* Downloads that atoll-egress keeps for all sandboxes: their size, and the table as JSON
     * (egress/cache_table.h), copied. NULL: it keeps none. */
    uint64_t cache_max_bytes;
    const char *cache_table;
    /* Worker threads read, write and close descriptors from sandboxes; false: the loop's thread
     * does, for tests. */
    bool offload;
    struct atoll_images_config images;
    const char *host_json; /* the doctor's report; copied */
    /* For the error text when no provider can make what a request asks for: the kinds of providers
     * that could be configured (borrowed, must outlive the engine; NULL: no hint) and the name of
     * the operator's file (copied). */
    const struct atoll_route_kinds *kinds;
    const char *providers_file;
};

int atoll_engine_new(struct atoll_loop *loop, const struct atoll_engine_config *config,
                     struct atoll_engine **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes over the state of an earlier daemon: living sandboxes are adopted with their commands; for
 * the others, the recorded end is completed. Call once, before any other request to the engine. */
void atoll_engine_recover(struct atoll_engine *engine,
                          void (*done)(void *arg, const struct atoll_error *error), void *arg);
/* Waits for reads and writes of files that are under way; their callbacks are called. Later ones fail. To
 * be called at the end, while what the callbacks belong to is still there. Accepts NULL. */
void atoll_engine_stop_files(struct atoll_engine *engine);
/* Frees memory and handles; sandboxes keep running. */
struct atoll_engine *atoll_engine_free(struct atoll_engine *engine);
/* Destroys every sandbox and ends atoll-spawn, then calls done. */
void atoll_engine_shutdown(struct atoll_engine *engine, void (*done)(void *arg), void *arg);

/* Replaces the list of providers, in order of preference. A row without a provider keeps the
 * provider of its name, with new settings. A provider that is missing in the new list gets no new
 * sandboxes and is freed when it has none left. The provider that builds templates cannot be
 * replaced. */
int atoll_engine_set_providers(struct atoll_engine *engine,
                               const struct atoll_engine_provider *providers, size_t count,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* How sandboxes are distributed over the providers that can make them: enum atoll_placement. */
void atoll_engine_set_placement(struct atoll_engine *engine, int placement);
/* Records that the operator's file was read again. error: why it could not be used; NULL: it is in
 * use. */
void atoll_engine_note_providers(struct atoll_engine *engine, const char *error);

/* The secrets of all tenants (engine/network/secrets.h); borrowed. */
struct atoll_secrets *atoll_engine_secrets(struct atoll_engine *engine);

/* The doctor's report as JSON, as of the daemon's start. */
const char *atoll_engine_host_json(const struct atoll_engine *engine);

/* Usage and quotas of one tenant or of all. Promises are indexed by enum atoll_promise; a quota
 * (_most) of 0: unlimited. */
struct atoll_usage {
    size_t sandboxes, sandboxes_most;
    uint32_t creates, creates_most; /* on this machine */
    uint32_t execs, execs_most;
    size_t waiting;
    uint64_t promised[3], promised_most[3];
};
/* tenant NULL: all tenants together, for which execs have no quota. */
void atoll_engine_usage(const struct atoll_engine *engine, const char *tenant,
                        struct atoll_usage *ret);
/* For each promise, the largest sum that a tenant has. */
void atoll_engine_largest(const struct atoll_engine *engine, uint64_t ret_promised[static 3]);
/* The number of queued requests of all tenants. */
void atoll_engine_queue(const struct atoll_engine *engine, size_t *ret_creates, size_t *ret_execs);

/* The widest network mode that sandboxes of the tenant may have (NULL: the operator's tenant). */
enum atoll_network atoll_engine_network_most(const struct atoll_engine *engine, const char *tenant);

/* --- sandboxes --- */

enum atoll_sandbox_state {
    ATOLL_SANDBOX_CREATING,
    ATOLL_SANDBOX_RUNNING,
    ATOLL_SANDBOX_STOPPING,
    ATOLL_SANDBOX_FAILED, /* its first process died; cause says why */
    /* Its processes are frozen, or were ended and are started anew on resume. */
    ATOLL_SANDBOX_PAUSED,
    ATOLL_SANDBOX_STOPPED, /* persistent, and only its disk exists */
    /* Its provider has not answered since the daemon started, so that its real state is unknown;
     * cause says why. */
    ATOLL_SANDBOX_UNREACHABLE,
};
#define ATOLL_SANDBOX_STATES (ATOLL_SANDBOX_UNREACHABLE + 1)
const char *atoll_sandbox_state_name(enum atoll_sandbox_state state);

/* Defaults for fields that a request leaves 0. */
struct atoll_limits atoll_limits_default(void);
/* "memory" → ATOLL_LIMIT_MEMORY, "all" → all of them; 0 when it is not a known limit name. */
uint32_t atoll_limit_by_name(const char *name);
const char *atoll_limit_name(uint32_t limit); /* name of one bit */

typedef void atoll_sandbox_fn(void *arg, struct atoll_sandbox *sandbox,
                              const struct atoll_error *error);

/* Copies the options and everything that they point to. */
int atoll_options_dup(struct atoll_options *ret, const struct atoll_options *options,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_options_free(struct atoll_options *options); /* of a copy; clears the struct */
/* Replaces a member of a copy, and takes ownership of the new value. */
void atoll_options_set_text(const char **member, char *text);

/* Copies the options. */
void atoll_engine_create(struct atoll_engine *engine, const struct atoll_options *options,
                         atoll_sandbox_fn *done, void *arg);
/* The module that starts interpreters (contexts.h), also in pooled sandboxes. */
typedef void atoll_done_fn(void *arg, const struct atoll_error *error);
struct atoll_interpreters {
    /* Starts the default interpreter of a language. done is called when it is ready or has
     * failed. */
    void (*prepare)(void *arg, const char *sandbox_id, const char *language, atoll_done_fn *done,
                    void *done_arg);
    /* A pooled sandbox was given to a tenant, and is stored. */
    void (*handed_over)(void *arg, const char *sandbox_id);
    void *arg;
};
void atoll_engine_set_interpreters(struct atoll_engine *engine,
                                   const struct atoll_interpreters *interpreters);
/* --- the pool (engine/sandbox/pool.c) --- */

#define ATOLL_POOL_DECLARED 32 /* environments with a pool */
/* Sandboxes that an environment wants to be kept ready. */
struct atoll_pool_declared {
    const char *environment;
    uint32_t count;
    struct atoll_options options; /* of a create that names the environment only; borrowed */
    const char *problem;          /* why none can be made now; NULL: nothing is known */
};
/* Replaces the list. What did not change is kept. */
void atoll_pool_declare(struct atoll_engine *engine, const struct atoll_pool_declared *list,
                        size_t n);
/* Called when the list may have changed, as the version of a template has: it calls
 * atoll_pool_declare(). */
struct atoll_pool_source {
    void (*declare)(void *arg);
    void *arg;
};
void atoll_engine_set_pool_source(struct atoll_engine *engine,
                                  const struct atoll_pool_source *source);
struct atoll_pool_view {
    const char *environment;              /* "": learned from requests */
    const char *template_name, *language; /* "": not known yet; no interpreter */
    const char *const *warm;              /* NULL: none */
    uint32_t target, ready, making;
    uint64_t memory_bytes; /* of those that are ready; 0 for learned ones */
    const char *problem;   /* why no more are made; "": none */
};
/* Iterates over the pool classes in use: start with *pos = 0; false at the end. */
bool atoll_pool_next(const struct atoll_engine *engine, size_t *pos, struct atoll_pool_view *ret);

/* The modules to import in the default interpreter of this language in the sandbox; NULL: none. */
const char *const *atoll_engine_warm(struct atoll_engine *engine, const char *sandbox_id,
                                     const char *language);
/* Records that code ran in the default interpreter of this sandbox for the first time. If that
 * happens repeatedly, the pool keeps sandboxes of the same kind with a started interpreter. */
void atoll_engine_note_interpreter(struct atoll_engine *engine, const char *sandbox_id,
                                   const char *language);

/* NULL when no sandbox has that id. Does not find pooled sandboxes. */
struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id);
/* Finds pooled sandboxes too. */
struct atoll_sandbox *atoll_engine_peek(struct atoll_engine *engine, const char *id);
struct atoll_sandbox *atoll_engine_next(struct atoll_engine *engine, size_t *pos);
/* Paging through sandboxes in order of creation time, then id: the first after that position, the
 * last before it; NULL at the end. tenant NULL: of all tenants. */
struct atoll_sandbox *atoll_engine_after(struct atoll_engine *engine, const char *tenant,
                                         int64_t created_unix_ms, const char *id);
struct atoll_sandbox *atoll_engine_before(struct atoll_engine *engine, const char *tenant,
                                          int64_t created_unix_ms, const char *id);
/* Counts sandboxes by state; returns the total. tenant, provider: NULL for any. ret_silent (may be
 * NULL): of those counted as unreachable, the running ones whose agent does not answer. */
size_t atoll_engine_count(const struct atoll_engine *engine, const char *tenant,
                          const char *provider, size_t ret[static ATOLL_SANDBOX_STATES],
                          size_t *ret_silent);
/* Use of the daemon's own disk. */
struct atoll_disk_view {
    uint64_t store_bytes, log_bytes;           /* the database, and its write-ahead log */
    uint64_t journal_bytes, journal_max_bytes; /* output of commands, and its quota */
    /* Output held in memory for following readers, and its limit. */
    uint64_t held_bytes, held_max_bytes;
    /* Artifacts of destroyed sandboxes, and their quota. */
    uint64_t artifact_bytes, artifact_max_bytes;
    /* Records of ended sandboxes in the database: their number and size, and its limit. */
    uint64_t ended_count, ended_bytes, ended_max_bytes;
    uint64_t ended_output_bytes, ended_output_max_bytes; /* output of their commands */
    uint64_t pool_bytes, pool_max_bytes; /* the image of the disk pool; 0: no image */
    uint64_t free_bytes;                 /* of the file system; UINT64_MAX: unknown */
};
void atoll_engine_disk(const struct atoll_engine *engine, struct atoll_disk_view *ret);
/* Whether the daemon's disk has room for new work and the store accepts writes: the last write
 * succeeded, or else a test write does. */
int atoll_engine_check_store(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether one more sandbox may be created: RESOURCE_EXHAUSTED. */
int atoll_engine_check_room(const struct atoll_engine *engine,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the provider that builds templates answers now. For the others,
 * engine/provider/providers.h has the result of the last health check. */
void atoll_engine_check(struct atoll_engine *engine, atoll_done_fn *done, void *arg);
/* Idempotent. done is called when nothing of the sandbox is left. Running execs end as killed_by
 * `who`. NOT_FOUND: unknown id. */
void atoll_engine_destroy(struct atoll_engine *engine, const char *id, const char *who,
                          atoll_done_fn *done, void *arg);

/* Borrowed; valid as long as the sandbox. */
struct atoll_sandbox_view {
    const char *id, *template_name, *owner;
    const char *provider, *isolation, *image; /* image "": made from a template */
    const char *handle;                       /* the provider's name for it; "" if that is its id */
    bool own_image;                           /* its template is an image kept by the provider */
    /* As requested, but limits and waived are those that hold. After a restart, provider, image,
     * template_name and what else is not stored are NULL: use the members above. */
    struct atoll_options options;
    uint64_t cpu_spent_s, output_spent_bytes; /* used part of the budgets */
    uint64_t history_bytes; /* what its disk has for checkpoints, on top of its limit */
    enum atoll_sandbox_state state;
    bool snapshotting;   /* a snapshot of it is being made */
    const char *cause;   /* why it failed or is unreachable; else "" */
    const char *warning; /* what its provider wants the client to know; else "" */
    int64_t silent_ms;   /* RUNNING: how long its agent has not answered; 0: it answers */
    int64_t created_unix_ms, expires_unix_ms; /* 0: never */
    int64_t paused_unix_ms;                   /* PAUSED, STOPPED: since when */
    /* PAUSED: its memory when it was paused, before and after what could be freed; 0: not known. */
    uint64_t memory_before, memory_after;
    double boot_ms;
    bool pooled;
};
void atoll_sandbox_get(const struct atoll_sandbox *sandbox, struct atoll_sandbox_view *ret);

/* Changes to a living sandbox. NOT_FOUND; FAILED_PRECONDITION when it is being destroyed. */
/* Sets the deadline to `seconds` from now; 0: none. */
int atoll_engine_set_timeout(struct atoll_engine *engine, const char *id, uint32_t seconds,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Changes lifetime.idle_s and lifetime.at_deadline; the idle time begins anew. */
int atoll_engine_set_idle(struct atoll_engine *engine, const char *id, uint32_t seconds,
                          enum atoll_at_deadline then, struct atoll_error *err) ATOLL_MUST_CHECK;
/* json: an object, copied. */
/* Names of sandboxes are unique per tenant. INVALID_ARGUMENT. */
int atoll_name_check(const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
/* name "": none. INVALID_ARGUMENT, ALREADY_EXISTS. */
int atoll_engine_set_name(struct atoll_engine *engine, const char *id, const char *name,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* NULL when no sandbox of the tenant has this name. owner NULL: "default". */
struct atoll_sandbox *atoll_engine_find_name(const struct atoll_engine *engine, const char *owner,
                                             const char *name);
/* NOT_FOUND: there is no such sandbox; the same text for one that the caller must not see. */
int atoll_engine_no_sandbox(const char *text, struct atoll_error *err);
/* Finds the sandbox that a client means: by its id, by its name, or by the beginning of its id, at
 * least four characters; names and beginnings among the sandboxes of the tenant, with `all`
 * beginnings among all. The caller checks whether the client may see it. NOT_FOUND;
 * INVALID_ARGUMENT if several ids begin like that. */
int atoll_engine_resolve(struct atoll_engine *engine, const char *owner, bool all, const char *text,
                         struct atoll_sandbox **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_engine_set_tool_policy(struct atoll_engine *engine, const char *id, const char *json,
                                 struct atoll_error *err) ATOLL_MUST_CHECK; /* NULL: none */
int atoll_engine_set_metadata(struct atoll_engine *engine, const char *id, const char *json,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_engine_set_facade(struct atoll_engine *engine, const char *id, const char *json,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Changes the environment of commands that start later: `set` are NAME=VALUE, `unset` names; either may
 * be NULL. RESOURCE_EXHAUSTED: it would be too large. */
int atoll_engine_change_env(struct atoll_engine *engine, const char *id, const char *const *set,
                            const char *const *unset, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Changes memory_bytes and cpu_millis, where they are not 0, of a sandbox that runs or is stopped. The
 * quotas hold as for a new sandbox. FAILED_PRECONDITION: another state, or less memory while it runs;
 * UNIMPLEMENTED: the provider cannot do it. (resize.c) */
void atoll_engine_resize(struct atoll_engine *engine, const char *id,
                         const struct atoll_limits *limits, atoll_done_fn *done, void *arg);
/* Replaces the policy of its network: canonical JSON (network/policy.h), copied; NULL: all that the mode
 * permits. When done is called without an error, the policy is stored, holds, and connections that it
 * denies are closed. UNAVAILABLE: it is stored, and holds as soon as atoll-egress answers again.
 * FAILED_PRECONDITION: the sandbox has no network. UNIMPLEMENTED: its provider does not enforce it. */
void atoll_engine_set_network(struct atoll_engine *engine, const char *id, const char *policy,
                              atoll_done_fn *done, void *arg);
/* Why sandboxes have no network at present, for operators; NULL: they have, or can have. */
const char *atoll_engine_network_problem(const struct atoll_engine *engine);
/* Renews the lease. FAILED_PRECONDITION for a sandbox without a lease. */
int atoll_engine_heartbeat(struct atoll_engine *engine, const char *id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Destroys the sandbox if its lease is bound to the connection; else does nothing. */
void atoll_engine_connection_closed(struct atoll_engine *engine, const char *id);
/* Records a use of the sandbox that the engine does not see itself, such as a preview. */
void atoll_engine_touch(struct atoll_engine *engine, const char *id);
/* Likewise one that lasts: 1 when it begins, -1 when it ends. Until then the sandbox is not idle. */
void atoll_engine_use(struct atoll_engine *engine, const char *id, int by);

/*
 * A paused sandbox uses no CPU; its deadline, lease and idle time do not run. Every request except
 * resume, destroy and reading its record fails with FAILED_PRECONDITION. keep_processes: the
 * processes are frozen and continue after the resume. Otherwise they are ended (killed_by `who`),
 * and commands after the resume see a fresh boot (new boot_id) on the unchanged disk, /tmp
 * included. FAILED_PRECONDITION when it is paused already. It waits for a capture in progress
 * (state/capture_queue.h). who: static.
 */
void atoll_engine_pause(struct atoll_engine *engine, const char *id, bool keep_processes,
                        const char *who, atoll_done_fn *done, void *arg);
/* The same with keep_processes, and their memory is written to disk. UNIMPLEMENTED where the provider cannot;
 * FAILED_PRECONDITION if something in the sandbox cannot be saved. */
void atoll_engine_pause_to_disk(struct atoll_engine *engine, const char *id, const char *who,
                                atoll_done_fn *done, void *arg);
/* Resumes a paused sandbox or starts a stopped one. It is running when done is called, and its
 * original timeout starts again. Succeeds for a running sandbox. */
void atoll_engine_resume(struct atoll_engine *engine, const char *id, atoll_done_fn *done,
                         void *arg);
/* What a stop does with the disk before it is answered. */
enum atoll_stop_disk {
    ATOLL_STOP_WRITTEN, /* what it has is on stable storage */
    ATOLL_STOP_UNWRITTEN, /* nothing: the caller discards it, or makes a snapshot of it, which writes it */
};
/* Ends all processes of a persistent sandbox and keeps its disk. FAILED_PRECONDITION if it is not
 * persistent. */
void atoll_engine_stop(struct atoll_engine *engine, const char *id, const char *who,
                       enum atoll_stop_disk disk, atoll_done_fn *done, void *arg);

struct atoll_sandbox_stats {
    uint64_t memory_limit_bytes;
    uint64_t memory_bytes, memory_peak_bytes; /* 0: not measured */
    double cpu_percent;                       /* since the last reading; 100 is one CPU */
    double cpu_seconds;
    uint32_t cpu_limit_millis; /* if the provider reports it; 0: as in the sandbox's limits */
    uint64_t processes, processes_peak;
    uint64_t disk_bytes, disk_limit_bytes, inodes, inodes_limit;
    uint64_t net_rx_bytes, net_tx_bytes;
    double uptime_s;
    bool cpu_unknown; /* the provider did not answer */
    /* The agent did not answer: disk (unless the provider measures it), inodes and network are
     * 0. */
    bool inside_unknown;
};
typedef void atoll_stats_fn(void *arg, const struct atoll_sandbox_stats *stats,
                            const struct atoll_error *error);
void atoll_engine_stats(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                        void *arg);
/* The same; if the agent does not answer, only what the provider measures, with inside_unknown. */
void atoll_engine_figures(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                          void *arg);
/* Asks the agent whether it answers, independent of the provider; stats are NULL. */
void atoll_engine_ask_agent(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                            void *arg);

/* Statistics of the last hour, one sample every five seconds while the sandbox runs. They are kept
 * from the first call of atoll_engine_keep_history(), which takes a sample at once. They are in
 * memory only: a facade calls it again after a restart. Neither function counts as a use of the
 * sandbox. */
#define ATOLL_HISTORY_SAMPLES 720
#define ATOLL_HISTORY_EVERY_MS 5000
struct atoll_history_sample {
    int64_t unix_ms;                  /* multiple of five seconds, except for the first sample */
    struct atoll_sandbox_stats stats; /* cpu_percent: since the previous sample */
};
void atoll_engine_keep_history(struct atoll_engine *engine, const char *id);
/* Copies at most max samples of from..to (inclusive; to = 0: until now), oldest first; returns how
 * many. */
size_t atoll_engine_history(struct atoll_engine *engine, const char *id, int64_t from_unix_ms,
                            int64_t to_unix_ms, struct atoll_history_sample *out, size_t max);

/* --- commands --- */

struct atoll_exec_start {
    /* NULL-terminated, at least one; NULL: Entrypoint and Cmd of the sandbox's image. */
    const char *const *argv;
    const char *const *env; /* overrides the sandbox's; or NULL */
    const char *user, *cwd; /* NULL: default */
    uint32_t timeout_ms;    /* 0: no limit */
    bool stdin_open;        /* keep stdin open for atoll_exec_write() */
    /* Output is for one following reader and is not kept for later ones; without a reader the
     * command blocks when its output is full. */
    bool held;
    bool pty;
    uint32_t cols, rows;
    /* A command of a client, not of a facade itself: it gets checkpoints if the sandbox has them. */
    bool is_command;
    /* The history shows argv from this one on: what is before it is a wrapper. */
    uint32_t shown_from;
    uint64_t number; /* of its checkpoint; set by the engine */
};

typedef void atoll_exec_fn(void *arg, struct atoll_exec *exec, const struct atoll_error *error);
/* If the command cannot be started, done gets an error and no exec exists. */
void atoll_engine_exec(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg);
/* INVALID_ARGUMENT: the request names no command, and there is no image that does. */
int atoll_exec_refuse_empty(struct atoll_error *err);
/* exec_id: 16 hex digits. */
struct atoll_exec *atoll_sandbox_find_exec(struct atoll_sandbox *sandbox, const char *exec_id);
struct atoll_exec *atoll_sandbox_next_exec(struct atoll_sandbox *sandbox, size_t *pos);

/* How a command ended; set exactly once per exec. */
struct atoll_exec_result {
    enum atoll_end_kind kind;
    int code;   /* EXITED */
    int signal; /* if a signal was involved */
    /* KILLED_BY: who; LOST: why; OOM_KILLED together with its sandbox: how; else "" */
    char reason[200];
    uint64_t user_us, system_us, max_rss_bytes;
    uint32_t oom_kills, oom_pid;
    char oom_process[32];
    uint64_t oom_peak_bytes, oom_limit_bytes;
    uint64_t stdout_bytes, stderr_bytes;
    int64_t duration_ms;
};
/* "exited", "signaled", … */
const char *atoll_end_kind_name(enum atoll_end_kind kind);

struct atoll_exec_view {
    const char *id, *sandbox_id, *user, *cwd;
    const char *const *argv; /* NULL-terminated; a long command line is cut */
    uint64_t argv_left_out;  /* bytes that were cut */
    uint32_t pid;
    bool pty;
    bool held; /* started by the daemon: the interpreter of a context */
    int64_t started_unix_ms;
    const struct atoll_exec_result *result; /* NULL while it runs */
};
void atoll_exec_get(const struct atoll_exec *exec, struct atoll_exec_view *ret);

/* Marks a command that only waits for its next input. A resting command does not keep its sandbox
 * from being idle. The default is false. */
void atoll_exec_set_resting(struct atoll_exec *exec, bool resting);

/* Writes to stdin; done is called when the sandbox has taken the bytes. close: end of input after
 * them. Writes to one command are made one after the other. */
void atoll_exec_write(struct atoll_exec *exec, const uint8_t *bytes, size_t n, bool close,
                      atoll_done_fn *done, void *arg);
/* The same without a deadline, for a command that will read, if late. The caller bounds how many wait. */
void atoll_exec_write_patiently(struct atoll_exec *exec, const uint8_t *bytes, size_t n,
                                atoll_done_fn *done, void *arg);
/* Writes all of its input and closes it, without a callback. If that fails, the command is
 * killed. */
void atoll_exec_feed(struct atoll_exec *exec, const uint8_t *bytes, size_t n);
void atoll_exec_signal(struct atoll_exec *exec, int signo, bool tree, const char *who,
                       atoll_done_fn *done, void *arg);
void atoll_exec_resize(struct atoll_exec *exec, uint32_t cols, uint32_t rows, atoll_done_fn *done,
                       void *arg);

/*
 * Output, from any offset, any number of times, during and after the run. A reader pulls: `ready`
 * is called when there is new output (or the end), and atoll_reader_next() returns it piece by
 * piece.
 *
 * The first journal_max_bytes of an exec's output are kept for later readers; a slow reader of
 * these does not affect others. Output beyond that is for readers that follow:
 *
 * - While a following reader is open, nothing is lost that it has not released
 * (atoll_reader_forget()): the command blocks until the slowest reader has released it. There is no
 * timeout: the owner closes the reader of a client that is gone or stalls, and the command
 * continues at once.
 *
 * - Without following readers, the output is counted and dropped.
 *
 * - A reader that cannot get some bytes gets a GAP item in their place.
 *
 * - If the daemon dies, no unreleased output is lost. The next daemon blocks the command for 15
 * seconds, or for two seconds after the first following reader, so that readers can come back and
 * continue.
 *
 * - If the disk refuses writes, readers that do not follow get a gap. For those that follow, the
 * output is held in memory, 64 MiB for all commands together.
 */
struct atoll_reader;
struct atoll_reader_item {
    enum { ATOLL_READ_DATA = 1, ATOLL_READ_GAP, ATOLL_READ_END } kind;
    int stream;      /* DATA, GAP */
    uint64_t offset; /* DATA, GAP: of its first byte in the stream */
    uint64_t length;
    const uint8_t *data;                    /* DATA: valid until the next call */
    const struct atoll_exec_result *result; /* END */
};
/* Offset: only output from now on. */
#define ATOLL_READ_FROM_END UINT64_MAX
/* `ready` is never called from within atoll_reader_open. */
int atoll_reader_open(struct atoll_exec *exec, uint64_t stdout_offset, uint64_t stderr_offset,
                      void (*ready)(void *arg), void *arg, struct atoll_reader **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* 1: *ret is the next item; 0: nothing more now, `ready` will be called; -errno. END is the last
 * item. */
int atoll_reader_next(struct atoll_reader *reader, struct atoll_reader_item *ret) ATOLL_MUST_CHECK;
struct atoll_reader *atoll_reader_close(struct atoll_reader *reader);
/* Makes this a following reader, from its current position. */
void atoll_reader_follow(struct atoll_reader *reader);
/* For a following reader: releases all output it was given, except for the last bytes of each
 * stream, at most ATOLL_READER_LESS_MAX. Call it only when the output is where a crash of the
 * daemon cannot lose it. */
#define ATOLL_READER_LESS_MAX 3
void atoll_reader_forget(struct atoll_reader *reader, size_t stdout_less, size_t stderr_less);

/* --- files: paths are resolved inside the sandbox, as the user (NULL: the default user). With
 * "+NAME", relative paths and new files are NAME's, but access is checked as root --- */

typedef void atoll_entry_fn(void *arg, const struct atoll_am_entry *entry,
                            const struct atoll_error *error);
void atoll_files_stat(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_entry_fn *done, void *arg);
/* The same, with the targets of links and the attributes whose names begin with `attributes`
 * ("user.…"), see atoll_am_entry. */
void atoll_files_look(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      const char *attributes, atoll_entry_fn *done, void *arg);
/* Iterates over an entry's attributes: start with *pos = 0; false at the end. */
bool atoll_entry_attribute(const struct atoll_am_entry *entry, size_t *pos, const char **ret_name,
                           const char **ret_value);
void atoll_files_mkdir(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       atoll_entry_fn *done, void *arg);
/* Without `parents`, the directory above must exist, and the directory itself must not: ALREADY_EXISTS. mode 0: 0755. */
void atoll_files_mkdir_as(struct atoll_engine *e, const char *id, const char *user,
                          const char *path, uint32_t mode, bool parents, atoll_entry_fn *done,
                          void *arg);
void atoll_files_move(struct atoll_engine *e, const char *id, const char *user, const char *from,
                      const char *to, atoll_entry_fn *done, void *arg);
void atoll_files_remove(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        bool recursive, atoll_done_fn *done, void *arg);
void atoll_files_chmod(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       uint32_t mode, atoll_done_fn *done, void *arg);
/* Calls `each` per entry, then done once. */
void atoll_files_list(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      uint32_t depth, void (*each)(void *arg, const struct atoll_am_entry *entry),
                      atoll_done_fn *done, void *arg);
/* The same, with the fields that atoll_files_look() adds. */
void atoll_files_list_look(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, uint32_t depth, const char *attributes,
                           void (*each)(void *arg, const struct atoll_am_entry *entry),
                           atoll_done_fn *done, void *arg);

void atoll_files_chown(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       const char *owner, const char *group, atoll_done_fn *done, void *arg);
/* Makes the symbolic link `path`; the target may be any text. */
void atoll_files_symlink(struct atoll_engine *e, const char *id, const char *user,
                         const char *target, const char *path, atoll_done_fn *done, void *arg);

/* Extended attributes. Names include the prefix "user."; others are refused. */
void atoll_files_xattrs(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        void (*each)(void *arg, const char *name, const uint8_t *value, size_t n),
                        atoll_done_fn *done, void *arg);
void atoll_files_set_xattr(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, const char *name, const uint8_t *value, size_t n,
                           atoll_done_fn *done, void *arg);
/* NOT_FOUND when the file has no attribute of that name. */
void atoll_files_remove_xattr(struct atoll_engine *e, const char *id, const char *user,
                              const char *path, const char *name, atoll_done_fn *done, void *arg);

/* Reports changes in a directory until it is unwatched. */
struct atoll_file_watch;
struct atoll_file_watch_events {
    /* Called once, possibly before atoll_files_watch() returns; with an error there is no watch. */
    void (*started)(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error);
    /* name: relative to the directory, "" for the directory itself. */
    void (*changed)(void *arg, enum atoll_watch_kind kind, const char *name);
    /* The sandbox is gone; this is the last callback. The caller still has to unwatch. */
    void (*ended)(void *arg);
};
void atoll_files_watch(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       bool recursive, const struct atoll_file_watch_events *events, void *arg);
/* No callback is called after this. Accepts NULL. */
struct atoll_file_watch *atoll_files_unwatch(struct atoll_file_watch *watch);

/* The opened regular file, which the callback owns, and its size. */
typedef void atoll_opened_fn(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                             const struct atoll_error *error);
void atoll_files_open(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_opened_fn *done, void *arg);
/* A regular file of the daemon's own, whose descriptor is taken: workers read it, in a lane of its own, and it
 * counts for the tenant. INTERNAL. */
int atoll_engine_file(struct atoll_engine *e, const char *tenant, int fd,
                      struct atoll_tenant_file **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* An upload: write to it, then finish it (atomic replace) or drop it. */
struct atoll_upload;
typedef void atoll_upload_fn(void *arg, struct atoll_upload *upload,
                             const struct atoll_error *error);
void atoll_files_create(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        uint32_t mode, atoll_upload_fn *done, void *arg);
/* The same without the atomic replace: the existing file is truncated and written in place, for
 * programs that watch it. If the upload is dropped, a new file is removed and an existing one stays
 * empty. */
void atoll_files_rewrite(struct atoll_engine *e, const char *id, const char *user, const char *path,
                         uint32_t mode, atoll_upload_fn *done, void *arg);
/* As atoll_files_create() with the whole content, which is borrowed until done. */
void atoll_files_put(struct atoll_engine *e, const char *id, const char *user, const char *path,
                     uint32_t mode, const void *bytes, size_t n, atoll_entry_fn *done, void *arg);
/* Called from the loop after a write that returned 1. */
void atoll_upload_on_ready(struct atoll_upload *upload, void (*fn)(void *arg), void *arg);
/* Takes the bytes; a worker writes them later. 1: do not write more until on_ready is called.
 * -ENOSPC or another error of the file, also for bytes of earlier calls. */
int atoll_upload_write(struct atoll_upload *upload, const uint8_t *bytes,
                       size_t n) ATOLL_MUST_CHECK;
/* Makes the client's error from the result of a write. */
int atoll_upload_fail(int r, struct atoll_error *err);
/* Also reports errors of earlier writes. */
void atoll_upload_finish(struct atoll_upload *upload, atoll_entry_fn *done, void *arg);
void atoll_upload_drop(struct atoll_upload *upload);

/* --- ports: connections to servers inside, independent of the sandbox's network --- */

/* fd: a connected stream socket, owned by the callback; close it with atoll_engine_discard().
 * UNAVAILABLE when no server listens. */
typedef void atoll_connected_fn(void *arg, int fd, const struct atoll_error *error);
void atoll_engine_connect(struct atoll_engine *engine, const char *id, uint16_t port,
                          atoll_connected_fn *done, void *arg);
/* Whether a socket that listens at this port in the sandbox belongs to its network (sys/netspace.h): then no program
 * of the sandbox can listen there. */
bool atoll_engine_is_network_port(struct atoll_engine *engine, const char *id, unsigned port);
/* Closes a descriptor that came from that sandbox, which may be gone. A worker thread closes it,
 * since close may block. */
void atoll_engine_discard(struct atoll_engine *engine, const char *id, int fd);
/* Counters of descriptors from sandboxes and of the workers' tasks; all 0 without workers. */
struct atoll_offload_counts atoll_engine_offload(const struct atoll_engine *engine);

/* --- events: one for every change of state --- */

struct atoll_event {
    uint64_t id; /* increases by one with each event */
    int64_t unix_ms;
    const char
        *kind; /* "sandbox.created", "sandbox.failed", "sandbox.recreated", "sandbox.destroyed",
                         "sandbox.expired", "sandbox.budget_spent", "sandbox.snapshot",
                         "sandbox.forked", "sandbox.restored", "approval.requested",
                         "approval.answered",
                         "provider.pull_progress", "exec.started", "exec.ended" */
    const char *sandbox_id, *owner;
    const char *exec_id; /* "" if it concerns no exec */
    const char *detail;  /* short text such as the cause; or "" */
};
/* An event of a layer above: about a sandbox; nothing if there is no such sandbox. */
void atoll_engine_emit(struct atoll_engine *engine, const char *sandbox_id, const char *kind,
                       const char *detail);
struct atoll_subscription;
/* Calls fn for every event after the id `after` (UINT64_MAX: only new ones), beginning with stored
 * ones (the last 4096, also from earlier daemons). fn is called from the loop, never from inside
 * this function. */
struct atoll_subscription *atoll_events_subscribe(struct atoll_engine *engine, uint64_t after,
                                                  void (*fn)(void *arg,
                                                             const struct atoll_event *event),
                                                  void *arg);
struct atoll_subscription *atoll_events_unsubscribe(struct atoll_subscription *subscription);

/* --- templates --- */

/* engine/template/template.h has the versions, tags and layers. */

/* An import: a tar stream (plain, gzip, xz or zstd) is unpacked inside a sandbox made for it. */
struct atoll_import;
typedef void atoll_import_fn(void *arg, struct atoll_import *import,
                             const struct atoll_error *error);
void atoll_templates_import(struct atoll_engine *engine, const char *name, atoll_import_fn *ready,
                            void *arg);
/* The next bytes of the archive; done is called when more can be written. */
void atoll_import_write(struct atoll_import *import, const uint8_t *bytes, size_t n,
                        atoll_done_fn *done, void *arg);
typedef void atoll_template_fn(void *arg, const struct atoll_template_view *view,
                               const struct atoll_error *error);
/* End of the archive. When done is called without an error, the template exists. Frees the
 * import. */
void atoll_import_finish(struct atoll_import *import, atoll_template_fn *done, void *arg);
void atoll_import_drop(struct atoll_import *import);
/* A build: makes a shared template from a Dockerfile and its context; a provider builds and keeps
 * it. */
struct atoll_build;
struct atoll_build_request {
    const char *name;
    const char *provider;       /* NULL: the first that can build */
    const char *dockerfile;     /* its path in the archive; NULL: Dockerfile */
    enum atoll_network network; /* of the build steps: NONE or BRIDGE */
    uint64_t memory_bytes;      /* per build step; 0: 2 GiB */
};
/* UNIMPLEMENTED when no provider can build; other errors as for imports. */
int atoll_build_start(struct atoll_engine *engine, const struct atoll_build_request *request,
                      struct atoll_build **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The next bytes of the context as a tar archive; done is called when more can be written, with the
 * error if the build has failed already. */
void atoll_build_write(struct atoll_build *build, const uint8_t *bytes, size_t n,
                       atoll_done_fn *done, void *arg);
/* End of the archive. `said` is called for each line of the build's output, from the loop; then
 * done once. Frees the build. */
void atoll_build_finish(struct atoll_build *build, void (*said)(void *arg, const char *line),
                        atoll_template_fn *done, void *arg);
/* Cancels the build, before or after atoll_build_finish(); no callback is called any more. */
void atoll_build_drop(struct atoll_build *build);

/* engine/state/state.h has snapshots, forks and restores. */

/* --- volumes: created when a sandbox first mounts them, and kept until they are removed --- */

struct atoll_volume_view {
    const char *name, *provider;
    int64_t created_unix_ms;         /* 0: unknown */
    uint64_t size_bytes, used_bytes; /* size_bytes 0: no limit is known, nor what is used */
};
/* provider NULL: the first that has volumes. UNIMPLEMENTED. */
void atoll_volumes_list(struct atoll_engine *engine, const char *tenant, const char *provider,
                        void (*each)(void *arg, const struct atoll_volume_view *view),
                        atoll_done_fn *done, void *arg);
/* NOT_FOUND, FAILED_PRECONDITION. */
/* Makes volume `to` with the files that `from` has at one moment. NOT_FOUND, ALREADY_EXISTS, UNIMPLEMENTED. */
void atoll_volumes_copy(struct atoll_engine *engine, const char *tenant, const char *provider,
                        const char *from, const char *to, atoll_done_fn *done, void *arg);
void atoll_volumes_remove(struct atoll_engine *engine, const char *tenant, const char *provider,
                          const char *name, atoll_done_fn *done, void *arg);

/* file/mount_check.c: checks a mount of a request: the name of its volume or its directory of the host, its path, and that
 * the path does not overlap with one of the mounts before it. INVALID_ARGUMENT. */
int atoll_mount_check(const struct atoll_mount *mount, const struct atoll_mount *before,
                      size_t count, struct atoll_error *err) ATOLL_MUST_CHECK;
/* mode: "ro", "rw" or "cow". INVALID_ARGUMENT. */
int atoll_mount_set_mode(struct atoll_mount *mount, const char *mode,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
