#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/shares.h"
#include "engine/engine.h"
#include "engine/exec/journal.h"
#include "engine/network/bound.h"
#include "engine/network/secrets.h"
#include "engine/provider/providers.h"
#include "engine/provider/routing.h"
#include "engine/sandbox/state.h"
#include "engine/sandbox/tenants.h"
#include "engine/template/versions.h"
#include "engine/waiters.h"
#include "provider/provider.h"
#include "provider/rpc.h"
#include "store/store.h"

/*
 * Internal to the engine. Thread: the loop's.
 */

/* One provider; providers.c. Times are atoll_clock_ms(). */
struct atoll_provider_entry {
    struct atoll_engine *engine;
    uint32_t serial; /* unique, never reused */
    /* Gets no new sandboxes; also set for providers that only stored rows name; provider_set.c. */
    bool retired;
    /* RETIRED: the entry that takes over its sandboxes; NULL: it keeps them. */
    struct atoll_provider_entry *successor;
    char kind[33], *place; /* place: owned, or NULL */
    char **languages;      /* owned, or NULL */
    struct atoll_engine_provider config;
    struct atoll_provider *provider; /* owned */
    char image[256], source[65];
    bool listed;  /* has reported the sandboxes of an earlier daemon; recovery.c */
    bool listing; /* that request is in progress */
    /* When to ask again for orphans: an abandoned create may have succeeded later. */
    int64_t list_at_ms;
    struct recovering *recovering; /* state of the listing; recovery.c */
    bool checking;                 /* a health check is in progress */
    bool checked;                  /* at least one has finished */
    bool complained;               /* its failure was logged */
    enum atoll_health health;
    unsigned failures, create_failures; /* consecutive */
    unsigned rests;                     /* backoff periods since the last successful create */
    int64_t rest_until_ms, forgive_ms;  /* backoff after failed creates */
    int64_t asked_us, since_unix_ms;
    double latency_ms;
    char reason[200], detail[200];
    /* Why it has no room for another sandbox, from the last check; "": it has room. */
    char full[400];
    struct atoll_timer check;
};

/* The provider entries that can make a sandbox, best first, by serial; placement.c. */
struct atoll_candidates {
    uint32_t serials[ATOLL_PROVIDERS_MAX];
    int count, next;
};

/* Sandboxes of one kind that are created ahead of requests; pool.c. */
#define ATOLL_POOL_LEARNED 6 /* the first class, and those for what is requested repeatedly */
#define ATOLL_POOL_CLASSES (ATOLL_POOL_LEARNED + ATOLL_POOL_DECLARED)
struct atoll_pool_class {
    struct atoll_engine *engine;
    struct atoll_spec spec;                    /* they are made from this */
    char version_id[ATOLL_VERSION_ID_LEN + 1]; /* "": the pool class is unused */
    char language[33];                         /* whose interpreter is started in them; "": none */
    char **env;                                /* their environment; owned, or NULL */
    char **warm;                               /* modules that are imported; owned, or NULL */
    unsigned asked;                            /* number of requests that could have used one */
    int64_t asked_ms;                          /* time of the last such request */
    struct atoll_list ready;                   /* of struct atoll_sandbox.pool_node */
    uint32_t size, making, failures;
    uint64_t memory_bytes;        /* of those that are ready, when each was made */
    char problem[400];            /* why no more are made; "": none */
    char environment[65];         /* that declares it; "": learned, and the next two are unused */
    uint32_t target;              /* how many it declares */
    struct atoll_options options; /* owned: of a create that names the environment only */
};

/* Journals of all commands; journals.c. */
struct atoll_journals {
    uint64_t bytes;        /* on disk */
    size_t memory;         /* of output that the disk did not take */
    uint64_t floor_bytes;  /* below this much free space the disk is low */
    uint64_t unseen_bytes; /* written since free space was last checked */
    bool low;
    struct atoll_map owners; /* by tenant, of struct atoll_journal_owner, owned */
    struct atoll_timer expiry;
};

/* Output of ended sandboxes; ended_output.c. */
struct atoll_ended_output {
    int fd; /* state/ended: files as in state/journal */
    uint64_t bytes, max_bytes;
    struct atoll_map boxes;   /* by sandbox id, of struct box, owned */
    struct atoll_map tenants; /* by name, of struct tenant, owned */
};

struct atoll_engine {
    struct atoll_loop *loop;
    struct atoll_offload *offload; /* owned; NULL: the loop's thread does the work of workers */
    struct atoll_engine_config config;
    char *state_dir, *host_json, *providers_file; /* owned */
    int state_fd;
    int journal_fd; /* state/journal: a file <sandbox>-<exec> for each exec with output */
    struct atoll_map sandboxes; /* by id, owned, pooled ones included */
    size_t public_count;        /* without pooled ones */
    struct atoll_pool_class pool_classes[ATOLL_POOL_CLASSES]; /* pool.c */
    struct atoll_pool_source pool_source;                     /* pool_declared.c */
    struct atoll_interpreters interpreters;
    struct atoll_provider_entry *entries[ATOLL_PROVIDERS_MAX]; /* owned, in order of preference */
    size_t entry_count;
    uint32_t entry_serial; /* the last serial used */
    struct atoll_timer entry_sweep;
    int64_t providers_unix_ms; /* when the list was last replaced; 0: never */
    char providers_error[400];
    int placement;                        /* enum atoll_placement */
    struct atoll_provider_entry *builder; /* the entry that builds templates and fills the pool */
    struct atoll_timer pool_refill;       /* pool.c */
    bool pool_hurry;               /* pool_refill is set to a short time because the pool is low */
    struct atoll_timer pool_tidy;  /* pool.c */
    struct atoll_shares transfers; /* bytes of file contents in transfer, by tenant; inband.c */
    struct atoll_map tenants;      /* tenants that have sandboxes or requests; tenants.c */
    struct atoll_ordered ordered;  /* sandboxes of all tenants */
    uint64_t promised[ATOLL_PROMISES]; /* sums over those */
    struct atoll_list turns;           /* tenants with queued requests; admission.c */
    struct atoll_timer turning;        /* set when a queued request may run */
    uint32_t creating;                 /* creates in progress on this machine, of all tenants */
    struct atoll_list builds;          /* of struct atoll_build; build.c */
    struct atoll_list captures;        /* of struct capture; state/capture.c */
    struct atoll_list capture_waits;   /* those that count; state/capture_queue.c */
    struct atoll_list volumes;         /* of struct opened; volume/opened.c */
    struct atoll_list compares, diffs, histories, merges, tries,
        undos;                 /* requests in progress; state/ */
    struct atoll_makes *makes; /* owned, or NULL; build/ */
    struct atoll_template_tables template_tables;
    struct atoll_list unpacks;      /* of struct atoll_unpack; unpack.c */
    struct atoll_list unpack_queue; /* those that wait */
    unsigned unpacking;             /* those that do not */
    struct atoll_map unpack_files;  /* by layer, owned; unpack_file.c */
    struct atoll_images *images;    /* owned; images.c */
    struct atoll_journals journals;
    struct atoll_networks *network; /* owned; network/ */
    struct atoll_ended_output ended_output;
    struct atoll_operator_networks operator_networks;
    struct atoll_artifacts *artifacts; /* owned */
    struct atoll_secrets *secrets;     /* owned */
    struct atoll_events *events;       /* owned */
    struct atoll_timer reaper;  /* lifetime.c: the earliest time at which something may expire */
    struct atoll_timer sampler; /* history.c */
    struct atoll_timer unsaved; /* persist.c: retries failed writes of rows */
    struct atoll_timer ended_prune;     /* ended.c */
    struct atoll_timer snapshot_expiry; /* state/snapshot.c */
    unsigned ended_added;               /* records since it fired */
    struct recovery *recovery;          /* the recovery at start, while it lasts; recovery.c */
    bool recovering;                    /* no sandbox is added while recovery iterates over them */
    bool ending;
    void (*ended)(void *arg);
    void *ended_arg;
};

/* State of lifetime.c per sandbox. Times are atoll_clock_ms(). */
struct atoll_life {
    int64_t used_ms;      /* time of the last request to it, or of the end of its last command */
    int64_t heartbeat_ms; /* time of the last heartbeat, or when the lease began */
    int64_t looked_ms;    /* when its CPU time was last read */
    uint64_t cpu_us;      /* CPU time since its last start, as of looked_ms */
    /* Value of cpu_us when its processes were killed for exceeding the budget. */
    uint64_t killed_us;
    uint64_t output_bytes; /* of all its commands */
    unsigned uses;         /* requests and connections to its ports that are in progress */
    bool spent;            /* a budget is used up: its commands were killed */
    bool looking;          /* a request for its CPU time is in progress */
    bool counted;          /* its end was counted in the metrics */
    const char *cause;     /* of its end, for the metrics; NULL: requested by a client */
    /* For its record; ended.c. */
    char ended_by[100];         /* who began its destroy; "": no destroy has begun */
    char failure[200];          /* why it had failed before; "": it had not */
    int64_t execs_from_unix_ms; /* start of the first command that is kept */
    bool recorded;              /* the record was stored */
};

struct atoll_sandbox {
    struct atoll_engine *engine;
    struct atoll_spec spec;
    struct atoll_provider_entry *entry; /* borrowed: where it is made */
    struct atoll_provider *provider;    /* entry->provider */
    struct atoll_options options;       /* as requested, owned; spec has the limits that hold */
    struct atoll_candidates candidates;
    atoll_provider_created_fn *made; /* of a create from an image of its template; launch.c */
    unsigned recreated;              /* how often it was recreated since recreated_ms */
    int64_t recreated_ms;
    enum atoll_phase phase; /* only enter.c changes it */
    bool was_loaded;        /* from the store, and recovery has not decided about it yet */
    int64_t paused_unix_ms; /* since when it is stored as PAUSED or STOPPED; 0: it runs */
    uint64_t memory_before, memory_after;   /* PAUSED, in bytes, when it was paused; 0: not known */
    struct atoll_list resumers;             /* called when it runs; see atoll_waiters_add() */
    struct atoll_list stoppers;             /* called when it is stopped */
    struct atoll_version *version;          /* borrowed; not removed while the sandbox exists */
    uint64_t cpu_spent_us;                  /* before its last start */
    uint64_t output_spent_bytes;            /* of execs that were dropped from memory */
    struct atoll_life life;                 /* lifetime.c */
    struct atoll_history *history;          /* owned, or NULL; history.c */
    struct atoll_attachment *attachment;    /* owned, or NULL: not in atoll-egress; network/ */
    struct atoll_tenant *tenant;            /* NULL: not counted for a tenant; tenants.c */
    uint64_t promised[ATOLL_PROMISES];      /* what is counted in the tenant's sums */
    int64_t progress_ms, progress_since_ms; /* time of the last and of the first progress event */
    bool resizing;                          /* its limits are being changed; resize.c */
    bool policing;                          /* its provider changes its network policy */
    bool snapping;                          /* a snapshot is in progress */
    struct atoll_list capture_waits;        /* what comes after it; state/capture_queue.c */
    bool overdue; /* what waits does so until its deadline has been looked at again */
    struct atoll_timer capture_turn;       /* state/capture_queue.c */
    struct atoll_checkpoints *checkpoints; /* owned; NULL: it has none; state/checkpoint.c */
    bool keeps_env;                        /* its environment is in a file; env_file.c */
    char cause[200];
    struct atoll_provider_exit oom; /* its cause of death, if oom_kills is set; see exec.c */
    int64_t created_unix_ms, expires_unix_ms;
    int64_t created_ms;
    double boot_ms;
    enum atoll_stop_disk stop_disk; /* the most that those who wait for its stop need */
    bool remains;                   /* the provider holds resources of it */
    bool removing;                  /* the provider is removing them */
    bool keeping;                   /* the provider makes a layer of it, which ends its agent */
    struct atoll_timer removal;     /* retry after a failed removal */
    unsigned removals;              /* number of failed removals */
    bool hidden;                    /* pooled, or used by the engine itself */
    bool unsaved;                   /* the last write of its row failed */
    bool stored;                    /* it has rows in the store */
    bool rows_left;                 /* departing: rows of its execs are left in the store */
    struct atoll_timer departure;
    bool pooled;
    struct atoll_list pool_node;
    struct atoll_pool_class *pool_class; /* that it was made for; NULL: none */
    uint64_t pool_bytes;                 /* its memory, as counted in its class */
    struct atoll_rpc *agent;             /* owned; NULL while not connected */
    struct atoll_timer deadline;
    /* The agent's ATOLL_AGENT_FEATURE_*; 0 until it has answered the greeting. */
    uint32_t features;
    bool greeted; /* the agent has answered the greeting */
    struct atoll_reattach
        *reattach;          /* set while the agent is being redialed; reattach.c. Owned, or NULL */
    uint64_t journal_bytes; /* of its execs on disk; journals.c */
    struct atoll_map execs; /* by id, referenced */
    struct atoll_list exec_list;  /* in the order they started */
    struct atoll_list watches;    /* of struct atoll_file_watch */
    struct atoll_list destroyers; /* of struct waiter: called when it is gone */
    char **command;               /* owned: of its image, for an exec that names none; or NULL */
    atoll_sandbox_fn *created;    /* callback of the create, or NULL */
    void *created_arg;
    uint64_t last_cpu_us; /* for cpu_percent */
    int64_t last_cpu_ms;
};

struct atoll_exec {
    unsigned refs;
    struct atoll_engine *engine;
    struct atoll_sandbox *sandbox; /* NULL once it is gone */
    char sandbox_id[ATOLL_ID_LEN + 1];
    uint64_t number;
    char id[17];
    char **argv;            /* owned; for display, a long one is cut */
    uint64_t argv_left_out; /* bytes that were cut */
    char *user, *cwd;
    bool pty;
    uint32_t pid;
    int64_t started_unix_ms, started_ms;
    int64_t asked_us; /* time of the request */
    struct atoll_journal journal;
    struct {
        struct atoll_journal_owner *owner; /* NULL: nothing on disk */
        uint64_t bytes;                    /* on disk */
        size_t memory;
        bool listed;            /* in the owner's list of ended execs */
        struct atoll_list node; /* in that list */
    } charge;                   /* journals.c */
    uint64_t acked[3];
    uint64_t stdin_offset;
    struct {
        struct telling *first, *last; /* not ended yet; last is valid if there is a first one */
        bool running;
    } writes;     /* exec_control.c */
    bool held;    /* as in atoll_exec_start */
    bool awaited; /* recovered: its following readers may come back */
    bool counted; /* counted as running for its tenant */
    /* Its journal stays when this is freed: the daemon exits, or it is that of an ended sandbox. */
    bool kept;
    bool resting;        /* waits for input and does not count as running */
    bool agent_knows;    /* the agent has a record of it */
    uint64_t checkpoint; /* number of its command; 0: it has none */
    bool ending;         /* it has ended, and its end waits for the checkpoint */
    bool ended;
    bool unsaved;                    /* the last write of its end failed */
    struct atoll_exec_result result; /* valid once ended */
    struct atoll_list readers;       /* of struct atoll_reader.node */
    unsigned followers;              /* number of readers that follow */
    unsigned round;                  /* counter of notifications to readers */
    struct atoll_timer awaiting;     /* ends `awaited` */
    struct atoll_list node;          /* in sandbox->exec_list */
    atoll_exec_fn *started;          /* callback of the start, or NULL */
    void *started_arg;
};

/* providers.c */
int atoll_provider_entries_open(struct atoll_engine *engine,
                                const struct atoll_engine_config *config,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Chooses the entry that builds templates: the first that can, or else the first. */
void atoll_provider_entries_choose_builder(struct atoll_engine *engine);
/* Starts the health checks. */
void atoll_provider_entries_start(struct atoll_engine *engine);
void atoll_provider_entries_shutdown(struct atoll_engine *engine);
void atoll_provider_entries_close(struct atoll_engine *engine);
struct atoll_provider_entry *atoll_provider_entry_by_name(struct atoll_engine *engine,
                                                          const char *name);
/* NULL when the entry is freed or retired. */
struct atoll_provider_entry *atoll_provider_entry_by_serial(struct atoll_engine *engine,
                                                            uint32_t serial);
int atoll_provider_entry_add(struct atoll_engine *engine,
                             const struct atoll_engine_provider *config,
                             struct atoll_provider_entry **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Replaces its settings. */
int atoll_provider_entry_configure(struct atoll_provider_entry *entry,
                                   const struct atoll_engine_provider *config,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_provider_entry *atoll_provider_entry_free(struct atoll_provider_entry *entry);
void atoll_provider_entry_check(struct atoll_provider_entry *entry); /* starts a health check now */
bool atoll_provider_entry_runs(const struct atoll_provider_entry *entry, const char *language);
/* provider_set.c: whether a retired entry of the same name still has sandboxes that this one takes
 * over. */
bool atoll_provider_entry_awaits(const struct atoll_provider_entry *entry);
/* Makes an entry for a provider that stored rows name but the operator has not configured; NULL on
 * failure. */
struct atoll_provider_entry *atoll_provider_entry_absent(struct atoll_engine *engine,
                                                         const char *name, struct atoll_error *err);
bool atoll_provider_entry_is_down(const struct atoll_provider_entry *entry);
/* For an entry that is down: time until the next check; 0: one is in progress. */
int64_t atoll_provider_entry_retry_ms(const struct atoll_provider_entry *entry);
/* UNAVAILABLE, with a hint how to make the sandbox reachable. */
int atoll_provider_entry_refuse_unreachable(const struct atoll_sandbox *s,
                                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds to the hint when the operator's file was changed but could not be used. */
void atoll_advise_reload(const struct atoll_engine *engine, struct atoll_error *err);
/* The kinds of providers that could be configured; never NULL. */
const struct atoll_route_kinds *atoll_engine_kinds(const struct atoll_engine *engine);
/* Records the result of a create, for the backoff. */
void atoll_provider_entry_note_create(struct atoll_provider_entry *entry,
                                      const struct atoll_error *error);
/* UNIMPLEMENTED, naming the providers that can pause. */
int atoll_provider_entry_refuse_pause(const struct atoll_provider_entry *entry,
                                      struct atoll_error *err);
size_t atoll_provider_entry_count_sandboxes(const struct atoll_provider_entry *entry);
extern const struct atoll_provider_events
    atoll_provider_entry_events; /* engine.c; arg: the entry */
/* recreate.c: makes a lost sandbox again instead of failing it. The first function counts the
 * attempts. */
bool atoll_sandbox_may_recreate(struct atoll_sandbox *sandbox);
void atoll_sandbox_recreate(struct atoll_sandbox *sandbox, const char *why, bool remains);
/* Removes what its provider has of it, and makes it again from its spec. Its phase is RECREATING or
 * RESTORING. */
void atoll_sandbox_make_again(struct atoll_sandbox *sandbox, const char *why, bool remains);
/* recovery.c: asks the provider for the sandboxes of an earlier daemon. */
void atoll_recover_provider_entry(struct atoll_provider_entry *entry);

/* sandbox.c */
extern const struct atoll_rpc_protocol atoll_agent_protocol;
/* Makes a record with a new id, which the provider does not know yet; NULL: out of memory. */
struct atoll_sandbox *atoll_sandbox_prepare(struct atoll_engine *engine,
                                            const struct atoll_spec *spec,
                                            struct atoll_version *version);
/* The same with an existing id. */
struct atoll_sandbox *atoll_sandbox_prepare_as(struct atoll_engine *engine,
                                               const struct atoll_spec *spec,
                                               struct atoll_version *version, const char *id);
/* Frees a record that was never launched. */
void atoll_sandbox_discard(struct atoll_sandbox *sandbox);
/* Frees the record only; the sandbox keeps running or stays stopped. */
void atoll_sandbox_forget(struct atoll_sandbox *sandbox);
/* Opens the agent's protocol on the connection and sends the greeting. Takes ownership of fd, also
 * on failure. */
int atoll_sandbox_open_agent(struct atoll_sandbox *sandbox, int fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_arm_deadline(struct atoll_sandbox *sandbox); /* from its limits */
/* pause.c: a pause by the daemon, which does not wait for what clients have asked for. No capture is in progress. */
void atoll_sandbox_pause_now(struct atoll_sandbox *sandbox, bool keep_processes, const char *who,
                             atoll_done_fn *done, void *arg);
void atoll_sandbox_arm_deadline_in(struct atoll_sandbox *sandbox, int64_t after_ms);
/* lookup.c: finds a running sandbox, or returns the error for the client. Counts as a use of the
 * sandbox. */
int atoll_engine_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, but does not count as a use. */
int atoll_engine_look(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_sandbox_ask(struct atoll_sandbox *sandbox, uint16_t type,
                      const struct atoll_msg_desc *desc, const void *msg, atoll_answer_fn *fn,
                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Without a deadline: for requests that the engine repeats itself after the agent was silent. */
int atoll_sandbox_ask_patiently(struct atoll_sandbox *sandbox, uint16_t type,
                                const struct atoll_msg_desc *desc, const void *msg,
                                atoll_answer_fn *fn, void *arg,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_destroy(struct atoll_sandbox *sandbox, const char *who, atoll_done_fn *done,
                           void *arg);
/* After a restart: destroys it, as a dead daemon had begun to do. */
void atoll_sandbox_continue_destroy(struct atoll_sandbox *sandbox);
/* Records that it died. remains: the provider still holds resources of it. */
void atoll_sandbox_fail(struct atoll_sandbox *sandbox, const char *why, bool remains);
/* Ends it as FAILED by one of the events that lead there. */
void atoll_sandbox_end_failed(struct atoll_sandbox *sandbox, enum atoll_phase_event event,
                              const char *why);

/* Removes its resources at the provider, then its record. */
void atoll_sandbox_remove_remains(struct atoll_sandbox *sandbox);
/* depart.c: removes the record of a sandbox whose resources are gone. */
void atoll_sandbox_depart(struct atoll_sandbox *sandbox);
/* Closes the connection to the agent and fails pending requests. */
void atoll_sandbox_drop_agent(struct atoll_sandbox *sandbox, const char *why);

/* silence.c: callbacks of atoll_agent_protocol and of its connections; arg is the sandbox */
#define ATOLL_AGENT_SILENCE_MS 10000
int64_t atoll_agent_limit_ms(uint16_t type);
bool atoll_sandbox_expects(const void *arg);
bool atoll_sandbox_heartbeat(const void *arg);
void atoll_sandbox_silence(void *arg, bool silent);
void atoll_sandbox_late(void *arg, uint16_t type, const struct atoll_frame *frame);

/* pause.c */
/* Fails pending resume requests because of `why`. */
void atoll_sandbox_abort_resumes(struct atoll_sandbox *sandbox, const char *why);
/* For a paused or stopped sandbox without an operation in progress. */
void atoll_sandbox_begin_resume(struct atoll_sandbox *sandbox);
/* Call when its agent is connected again: it runs, and pending resume requests are answered. */
void atoll_sandbox_runs_again(struct atoll_sandbox *sandbox, const char *detail);

/* stop.c: for persistent sandboxes */
/* Ends its commands with that kind and its processes; the sandbox is then stopped. cause: "" when a
 * client requested it. */
void atoll_sandbox_halt(struct atoll_sandbox *sandbox, enum atoll_end_kind kind, const char *who,
                        const char *cause);
/* The same with a callback; also for a sandbox that is stopped already or being changed. */
void atoll_sandbox_stop(struct atoll_sandbox *sandbox, const char *who, enum atoll_stop_disk disk,
                        atoll_done_fn *done, void *arg);
void atoll_sandbox_start_again(struct atoll_sandbox *sandbox);

/* env_file.c: stores the environment of a persistent sandbox in a file of its own; no effect for
 * others */
int atoll_env_save(const struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_env_load(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores it again after a change. */
int atoll_env_replace(const struct atoll_sandbox *sandbox,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_env_drop(const struct atoll_sandbox *sandbox);
/* Stores it for a while, also if the sandbox is not persistent: during a restore. */
int atoll_env_keep(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_env_unkeep(struct atoll_sandbox *sandbox);
/* Removes files of sandboxes that do not exist, and seals those of an earlier version. */
void atoll_env_sweep(struct atoll_engine *engine);

/* reattach.c: redials the agent of a running sandbox whose connection was lost. */
void atoll_sandbox_reattach(struct atoll_sandbox *sandbox);
bool atoll_sandbox_reattach_is_busy(const struct atoll_sandbox *sandbox);
void atoll_sandbox_end_reattach(struct atoll_sandbox *sandbox);
/* After a new connection: continues each command at its offset, ends commands that the agent does
 * not know as LOST with the reason `unknown`, and kills commands that the engine does not know.
 * done gets the error of the agent's answer. */
void atoll_sandbox_continue_execs(struct atoll_sandbox *sandbox, const char *unknown,
                                  atoll_done_fn *done, void *arg);

/* recovery.c: connects to a living sandbox and continues its commands; done is called on success
 * and on failure. */
void atoll_sandbox_adopt(struct atoll_sandbox *sandbox, void (*done)(void *arg), void *arg);

/* pool.c */
void atoll_pool_init(struct atoll_engine *engine);
void atoll_pool_done(struct atoll_engine *engine);
/* Takes a ready sandbox that fits the request; NULL: none fits. */
struct atoll_sandbox *atoll_pool_take(struct atoll_engine *engine, const struct atoll_spec *spec,
                                      const struct atoll_options *create);
/* A client got this sandbox: more of its kind may be asked for. */
void atoll_pool_note(const struct atoll_sandbox *sandbox);
/* Drops the pooled sandboxes of a version that is being removed. */
void atoll_pool_leave_version(struct atoll_engine *engine, const struct atoll_version *version);
void atoll_pool_refill(struct atoll_engine *engine);
void atoll_pool_refill_soon(struct atoll_engine *engine);
void atoll_pool_forget(struct atoll_sandbox *sandbox);

/*
 * A create passes through three files: admission.c (quotas, queue), placement.c (which provider),
 * launch.c (pooled or new).
 */

/* admission.c. The first function carries out atoll_engine_exec() once the quota admits it. */
void atoll_engine_exec_now(struct atoll_engine *engine, const char *sandbox_id,
                           const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg);
void atoll_quota_fill(struct atoll_quota *quota); /* defaults for fields that are 0 */
void atoll_quota_done(struct atoll_engine *engine);
/* Counts a running command for its tenant; both may be called repeatedly. */
void atoll_quota_exec_enter(struct atoll_exec *exec);
void atoll_quota_exec_leave(struct atoll_exec *exec);

/* placement.c */
/* Where a sandbox is made, and what it will be there. */
struct atoll_place {
    struct atoll_spec spec;
    struct atoll_version *version;      /* borrowed */
    struct atoll_provider_entry *entry; /* borrowed: the first candidate */
    struct atoll_candidates candidates;
};
/* NOT_FOUND: no such template. Other errors say of each provider why it cannot make it. 1: the image must be
 * pulled first (engine/template/pull.h). */
int atoll_place(struct atoll_engine *engine, const struct atoll_options *options,
                struct atoll_place *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* After a failed create, assigns the next candidate to the sandbox. False when there is none, or
 * when another provider would fail as well. */
bool atoll_place_elsewhere(struct atoll_sandbox *sandbox, const struct atoll_error *error);
/* What a disk that the provider makes or starts now has for checkpoints, if it is in the disk pool. */
uint64_t atoll_place_history(struct atoll_provider *provider, const struct atoll_options *options,
                             const struct atoll_limits *limits);
/* Limits of the spec (ATOLL_LIMIT_*) that the provider cannot enforce. */
uint32_t atoll_place_missing_limits(struct atoll_provider *provider,
                                    const struct atoll_spec *spec) ATOLL_MUST_CHECK;

/* launch.c */
/* Hands over a pooled sandbox or makes a new one; done is called when it runs. */
void atoll_launch(struct atoll_engine *engine, const struct atoll_options *options,
                  const struct atoll_place *place, atoll_sandbox_fn *done, void *arg);
/* Creates a prepared sandbox at its provider; `created` is called once. */
void atoll_sandbox_launch(struct atoll_sandbox *sandbox, atoll_sandbox_fn *created, void *arg);
/* Calls the provider's create() with the fields that only it needs; done gets the sandbox. */
void atoll_sandbox_make(struct atoll_sandbox *sandbox, atoll_provider_created_fn *done);
/* Tells a new agent the working directory, and gives it the data that a later daemon needs and that
 * must not be stored on disk. */
void atoll_sandbox_tell_agent(struct atoll_sandbox *sandbox);
/* Gives the agent the environment again after a change. */
void atoll_sandbox_tell_env(struct atoll_sandbox *sandbox);

/* limits.c */
void atoll_limits_fill(struct atoll_limits *limits); /* defaults for fields that are 0 */

/* lifetime.c: deadlines, leases, idle time and budgets */
enum atoll_over {
    ATOLL_OVER_DEADLINE,
    ATOLL_OVER_IDLE,
    ATOLL_OVER_LEASE,
    ATOLL_OVER_CONNECTION,
};
/* Destroys, stops or pauses the sandbox, as its settings say. */
void atoll_lifetime_over(struct atoll_sandbox *sandbox, enum atoll_over why);
/* Call when the sandbox starts to run, for the first time or again: restarts idle time and
 * lease. */
void atoll_lifetime_begin(struct atoll_sandbox *sandbox);
/* Computes the output of its commands anew. */
void atoll_lifetime_recount(struct atoll_sandbox *sandbox);
/* Call before its processes are ended for a later start: adds their CPU time to what is spent. */
void atoll_lifetime_settle(struct atoll_sandbox *sandbox);
/* Call before a command is started: RESOURCE_EXHAUSTED when a budget is spent. */
int atoll_lifetime_admit(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Counts new output. */
void atoll_lifetime_output(struct atoll_sandbox *sandbox, uint64_t bytes);
/* Call when an ended exec is dropped from memory. */
void atoll_lifetime_forget(struct atoll_sandbox *sandbox, const struct atoll_exec *exec);
/* Counts the end of a sandbox in the metrics, once, by its cause. */
void atoll_lifetime_ended(struct atoll_sandbox *sandbox, bool failed);
uint64_t atoll_lifetime_cpu_us(const struct atoll_sandbox *sandbox);

/* history.c */
struct atoll_history *atoll_history_free(struct atoll_history *history);

/* exec.c */
int atoll_exec_on_event(struct atoll_sandbox *sandbox, struct atoll_frame *frame);
/* Tells the agent that it may drop output before that offset. */
void atoll_exec_acknowledge(struct atoll_exec *exec, int stream, uint64_t offset);
/* Ends all running execs with this kind and reason. */
void atoll_exec_end_all(struct atoll_sandbox *sandbox, enum atoll_end_kind kind,
                        const char *reason);
void atoll_exec_drop_all(struct atoll_sandbox *sandbox);
/* For a sandbox that departs: moves the output that belongs to its record. True: more are left. */
bool atoll_exec_drop_some(struct atoll_sandbox *sandbox, size_t most);
/* Stores the execs of a pooled sandbox and counts them for the tenant who gets it. */
int atoll_exec_enlist_all(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_exec_unref(struct atoll_exec *exec);
/* Ends an exec and stores its record. All ends of execs come through here. */
void atoll_exec_finish(struct atoll_exec *exec, const struct atoll_exec_result *result);
/* The result in a row of the store. */
void atoll_exec_read_result(const struct atoll_store_exec *row, struct atoll_exec_result *ret);
/* Restores an exec of an earlier daemon from its row. */
int atoll_exec_restore(struct atoll_sandbox *sandbox, const struct atoll_store_exec *row,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_exec *atoll_exec_by_number(struct atoll_sandbox *sandbox, uint64_t number);

/* options.c: copies of the options of a sandbox (atoll_options_dup() is in engine.h) */
/* Bytes of all that the options point to. */
size_t atoll_options_size(const struct atoll_options *options);
/* Replaces a member of a copy, and takes ownership of the new value. */
void atoll_options_set_strings(const char *const **member, char **strings);
/* Drops what only a create needs: the login and the progress callback. */
void atoll_options_end_create(struct atoll_options *options);
/* Whether they name a template or an image, so that a provider's default is not used. */
bool atoll_options_name_root(const struct atoll_options *options);

/* names.c: adds its name, if any, to those of its tenant, or removes it. */
void atoll_name_enter(struct atoll_sandbox *sandbox);
void atoll_name_leave(struct atoll_sandbox *sandbox);

/* ended.c: records of ended sandboxes */
/* Call once, after recovery: removes records that are too old or too many, now and later. */
void atoll_ended_start(struct atoll_engine *engine);
void atoll_ended_sum(const struct atoll_engine *engine, struct atoll_disk_view *ret);
/* Call when a destroy begins. was, cause: its state before, and why it failed. */
void atoll_ended_note(struct atoll_sandbox *sandbox, const char *who, enum atoll_sandbox_state was,
                      const char *cause);
/* How it ended, as noted, borrowed from the sandbox; sets life.execs_from_unix_ms. False: no record
 * is to be made. */
bool atoll_ended_describe(struct atoll_sandbox *sandbox, struct atoll_store_end *ret);
/* Call when a record was made. */
void atoll_ended_added(struct atoll_engine *engine);

/* persist.c: rows of the store. Hidden sandboxes have no rows. */
int atoll_persist_sandbox(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same without an error for the caller: retried until it succeeds. */
void atoll_persist_sandbox_later(struct atoll_sandbox *sandbox);
/* *ret_more: rows of its execs are left. A failure is retried. */
int atoll_persist_drop(struct atoll_sandbox *sandbox, bool *ret_more,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_persist_drop_execs(struct atoll_sandbox *sandbox); /* drops some; true: more are left */
int atoll_persist_exec(struct atoll_engine *engine, struct atoll_exec *exec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_persist_drop_exec(struct atoll_engine *engine, const struct atoll_exec *exec);

/* journals.c: quotas of the output of all commands on disk */
void atoll_journals_open(struct atoll_engine *engine);
void atoll_journals_done(struct atoll_engine *engine);
void atoll_journals_view(const struct atoll_engine *engine, struct atoll_disk_view *ret);
void atoll_journals_expire(
    struct atoll_engine *engine); /* drops expired ones now and periodically */
/* Call before n bytes are added to its journal: drops other journals, or else stops this one. */
void atoll_journals_make_room(struct atoll_exec *exec, size_t n);
/* Call when its journal has grown or shrunk, or when it has ended. */
void atoll_journals_charge(struct atoll_exec *exec);
void atoll_journals_move(struct atoll_exec *exec); /* its sandbox has a new owner */
void atoll_journals_leave_sandbox(
    struct atoll_exec *exec); /* its sandbox is gone; readers may still hold it */
void atoll_journals_release(struct atoll_exec *exec);

/* ended_output.c: output of ended sandboxes on disk */
int atoll_ended_output_open(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_ended_output_done(struct atoll_engine *engine);
void atoll_ended_output_view(const struct atoll_engine *engine, struct atoll_disk_view *ret);
/* Call for a command of a record before it leaves its sandbox: keeps its journal, if there is room
 * for it. */
void atoll_ended_output_keep(struct atoll_exec *exec);
void atoll_ended_output_drop(struct atoll_engine *engine, const char *sandbox_id);
void atoll_ended_output_expire(struct atoll_engine *engine);
/* At the start: moves a journal that belongs to no living command here; then, after all of them,
 * removes what belongs to no record. */
void atoll_ended_output_rescue(struct atoll_engine *engine, const char *name);
void atoll_ended_output_load(struct atoll_engine *engine);

/* room.c: free space on the daemon's own disk */
/* Free bytes of the file system of fd; UINT64_MAX: unknown. */
uint64_t atoll_room_free(int fd);
uint64_t atoll_room_size(int fd);
/* UNAVAILABLE when free space is too low for a new sandbox or command. */
int atoll_room_admit(const struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What steps of builds leave free: they write to plain directories, which have no limit. */
uint64_t atoll_room_reserve(const struct atoll_engine *engine);
/* RESOURCE_EXHAUSTED if less than that is free. */
int atoll_room_check(const struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;

/* events.c: events are delivered after they are stored */
/* store: borrowed. */
int atoll_events_new(struct atoll_loop *loop, struct atoll_store *store, struct atoll_events **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores pending events. */
struct atoll_events *atoll_events_free(struct atoll_events *events);
/* Ignored for hidden sandboxes. kind must be a static string; exec_id and detail may be "". */
void atoll_events_emit(struct atoll_engine *engine, const char *kind,
                       const struct atoll_sandbox *sandbox, const char *exec_id,
                       const char *detail);

/* artifacts.c */
int atoll_artifacts_new(struct atoll_engine *engine, struct atoll_artifacts **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_artifacts *atoll_artifacts_free(struct atoll_artifacts *artifacts);
void atoll_artifacts_sizes(const struct atoll_artifacts *artifacts, uint64_t *ret_bytes,
                           uint64_t *ret_max_bytes);
/* artifacts_request.c: checks the patterns of a request; stores those of a new sandbox; restores
 * those from the store */
int atoll_artifacts_accept(const struct atoll_engine *engine, const char *const *patterns,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_artifacts_apply_request(struct atoll_sandbox *sandbox,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_artifacts_load_requests(struct atoll_engine *engine,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* artifacts_collect.c: copies the artifacts of a sandbox that is being destroyed, then calls done
 * from the loop. False when there is nothing to copy. was: its state before. */
bool atoll_artifacts_collect(struct atoll_sandbox *sandbox, enum atoll_sandbox_state was,
                             void (*done)(struct atoll_sandbox *sandbox));
/* Drops captures that are under way, without an answer. */
void atoll_artifacts_end_captures(struct atoll_artifacts *artifacts);

/* files.c: sends a request whose answer is an entry */
void atoll_files_ask_entry(struct atoll_engine *e, const char *id, uint16_t type,
                           const struct atoll_msg_desc *desc, const void *msg, atoll_entry_fn *done,
                           void *arg);

/* connect.c: the worker lane for descriptors of this sandbox */
struct atoll_lane atoll_sandbox_lane(const struct atoll_sandbox *sandbox);

/* watch.c */
int atoll_file_watch_on_event(struct atoll_sandbox *sandbox, const struct atoll_frame *frame);
/* Ends all watches after the agent is gone and pending requests have failed. */
void atoll_file_watch_end_all(struct atoll_sandbox *sandbox);

/* reader.c */
void atoll_readers_notify(struct atoll_exec *exec);
/* Whether output beyond the journal is held for a reader. */
bool atoll_readers_hold(const struct atoll_exec *exec);
/* The offset up to which the agent may drop a stream: all following readers have released it, or it
 * is kept without them. */
uint64_t atoll_readers_used(const struct atoll_exec *exec, int stream);
/* Sends that offset to the agent, and frees room in the journal. */
void atoll_readers_settle(struct atoll_exec *exec);
/* Call when the agent of a restored exec was reached: starts the time in which following readers
 * can come back. */
void atoll_readers_await(struct atoll_exec *exec);

/* build.c */
void atoll_image_name(char out[64]); /* a new random name */
/* Frees the builds in progress without calling their callbacks. */
void atoll_builds_done(struct atoll_engine *engine);
/* The entry of that name; without a name, the first that can and is not named_only. UNIMPLEMENTED: "cannot WHAT". INVALID_ARGUMENT. */
struct atoll_provider_entry *atoll_provider_entry_for(
    struct atoll_engine *engine, const char *provider,
    bool (*can)(const struct atoll_provider_caps *caps), const char *what, struct atoll_error *err);
/* waiters.c */
void atoll_done_ignore(void *arg, const struct atoll_error *error);

/* mounts.c */
/* Encodes an array for the store, malloced; NULL for an empty one. Aborts when there is no
 * memory. */
char *atoll_mounts_write(const struct atoll_mount *mounts, size_t count);
/* Decodes it; malloced. NULL when the text is invalid or the array is empty. */
struct atoll_mount *atoll_mounts_read(const char *text, size_t *ret_count);

/* strings.c */
char **atoll_strings_dup(const char *const *strings);
/* Copies the first `count` strings and at most `bytes` of text; the last string is cut if it does
 * not fit, which "…" shows. *ret_left_out: bytes that are not in the copy. */
char **atoll_strings_dup_some(const char *const *strings, size_t bytes, size_t count,
                              uint64_t *ret_left_out);
char **atoll_strings_free(char **strings);
size_t atoll_strings_count(const char *const *strings);
/* Encodes strings, each with its NUL, as one run of bytes; and decodes it (NULL when malformed). */
int atoll_strings_join(struct atoll_buf *out, const char *const *strings) ATOLL_MUST_CHECK;
char **atoll_strings_split(const void *bytes, size_t n);
