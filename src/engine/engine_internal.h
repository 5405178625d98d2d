#pragma once
#include "base/list.h"
#include "base/map.h"
#include "base/shares.h"
#include "engine/engine.h"
#include "engine/exec/journal.h"
#include "engine/provider/providers.h"
#include "engine/provider/routing.h"
#include "engine/sandbox/tenants.h"
#include "engine/waiters.h"
#include "provider/provider.h"
#include "provider/rpc.h"
#include "store/store.h"

/*
 * What the files of the engine share. All of it belongs to the loop's thread.
 */

struct atoll_template {
    char name[65];
    enum atoll_template_kind kind;
    char owner[65];               /* the only tenant that has it; "": everybody */
    char key[131];                /* in the map: the name, after "OWNER@" where there is one */
    char provider[65], image[64]; /* IMAGE: who keeps it, and under what name */
    char digest[72]; /* SHA-256 of the archive in hex, also the name of its layer; "" for host */
    uint32_t layer_base;
    uint64_t size_bytes;
    int64_t created_unix_ms;
};

/* One provider; providers.c. Times are atoll_clock_ms(). */
struct atoll_provider_entry {
    struct atoll_engine *engine;
    uint32_t serial; /* no other ever has it */
    bool retired;    /* gets nothing new; provider_set.c. One that rows name alone, too */
    struct atoll_provider_entry
        *successor;        /* RETIRED: who takes its sandboxes over; NULL: it keeps them */
    char kind[33], *place; /* place: owned, or NULL */
    char **languages;      /* owned, or NULL */
    struct atoll_engine_provider config;
    struct atoll_provider *provider; /* owned */
    char image[256];
    bool listed;        /* it has said what there is of an earlier daemon; recovery.c */
    bool listing;       /* it is being asked that */
    int64_t list_at_ms; /* when it is asked again: a create given up may have been done later */
    struct recovering *recovering; /* that; recovery.c */
    bool checking;                 /* a check is under way */
    bool checked;                  /* one has ended */
    bool complained;               /* the log says that it is not well */
    enum atoll_health health;
    unsigned failures, create_failures; /* in a row */
    unsigned rests;                     /* since a create succeeded */
    int64_t rest_until_ms, forgive_ms;  /* after creates that failed */
    int64_t asked_us, since_unix_ms;
    double latency_ms;
    char reason[200], detail[200];
    char full[400]; /* why it has no room for another sandbox, as of the last check; "": it has */
    struct atoll_timer check;
};

/* What its owner asked for, as far as another provider would need to know. */
struct atoll_create_request {
    struct atoll_limits limits;           /* 0 fields: default */
    uint32_t may_waive;                   /* ATOLL_LIMIT_* */
    bool named;                           /* a template or an image: no default stands in */
    uint32_t routes[ATOLL_PROVIDERS_MAX]; /* serials of entries that can make it, best first */
    int route_count, route_next;
    bool recreate;
    int recreated; /* how often since recreated_ms */
    int64_t recreated_ms;
};

/* Sandboxes of one kind that are made ahead; pool.c. */
#define ATOLL_POOL_CLASSES 4
struct atoll_pool_class {
    struct atoll_engine *engine;
    struct atoll_spec spec;  /* what they are made to */
    char template_key[131];  /* "": the pool_class is not in use */
    char language[33];       /* whose interpreter waits in them; "": of none */
    char **env;              /* that they have; owned, or NULL */
    unsigned asked;          /* how often somebody could have used one */
    int64_t asked_ms;        /* when last */
    struct atoll_list ready; /* of struct atoll_sandbox.pool_node */
    uint32_t size, making, failures;
};

/* Journals of all commands; journals.c. */
struct atoll_journals {
    uint64_t bytes;        /* on disk */
    size_t memory;         /* of tails that the disk did not take */
    uint64_t floor_bytes;  /* with less than this the disk is low */
    uint64_t unseen_bytes; /* since the disk was looked at */
    bool low;
    struct atoll_map owners; /* by tenant, of struct atoll_journal_owner, owned */
    struct atoll_timer expiry;
};

struct atoll_engine {
    struct atoll_loop *loop;
    struct atoll_offload *offload; /* owned; NULL: what is for workers is done at once */
    struct atoll_engine_config config;
    char *state_dir, *host_json, *providers_file; /* owned */
    int state_fd;
    int journal_fd;             /* state/journal: a file <sandbox>-<exec> for each with output */
    struct atoll_map sandboxes; /* by id, owned, pooled ones included */
    size_t public_count;        /* of those, not waiting in the pool */
    struct atoll_pool_class pool_classes[ATOLL_POOL_CLASSES]; /* of the pool; pool.c */
    struct atoll_interpreters interpreters;
    struct atoll_provider_entry
        *entries[ATOLL_PROVIDERS_MAX]; /* owned, in the order they are asked */
    size_t entry_count;
    uint32_t entry_serial; /* of the last one */
    struct atoll_timer entry_sweep;
    int64_t providers_unix_ms; /* when they were set again; 0: never */
    char providers_error[400];
    int placement;                        /* enum atoll_placement */
    struct atoll_provider_entry *builder; /* of those, who builds templates and fills the pool */
    struct atoll_timer pool_refill;       /* pool.c */
    bool pool_hurry;                      /* it is set for a pool that is low */
    struct atoll_timer pool_tidy;         /* pool.c */
    struct atoll_shares transfers;        /* of contents of files, by tenant; inband.c */
    struct atoll_map tenants;             /* those that have something; tenants.c */
    struct atoll_ordered ordered;         /* the sandboxes of all of them */
    uint64_t promised[ATOLL_PROMISES];    /* to all of those */
    struct atoll_list turns;              /* of tenants that wait; quota.c */
    struct atoll_timer turning;           /* something has become free */
    uint32_t creating;                    /* sandboxes, on this machine, of all tenants */
    struct atoll_list builds;             /* of struct atoll_build; build.c */
    struct atoll_map templates;           /* by key, of struct atoll_template, owned */
    struct atoll_journals journals;
    struct atoll_artifacts *artifacts; /* owned */
    struct atoll_events *events;       /* owned */
    struct atoll_timer reaper;         /* lifetime.c: the next time something may be over */
    struct atoll_timer sampler;        /* history.c */
    struct atoll_timer unsaved;        /* persist.c: rows to be written again */
    struct recovery *recovery;         /* of the start, while it lasts; recovery.c */
    bool recovering; /* no sandbox is added while those there were are looked at */
    bool ending;
    void (*ended)(void *arg);
    void *ended_arg;
};

/* What lifetime.c keeps about a sandbox. Times are atoll_clock_ms(). */
struct atoll_life {
    int64_t used_ms;       /* the last request to it, or the end of its last command */
    int64_t heartbeat_ms;  /* the last, or when the lease began */
    int64_t looked_ms;     /* at its CPU time */
    uint64_t cpu_us;       /* since its last start, as of then */
    uint64_t killed_us;    /* cpu_us when its processes were killed for it */
    uint64_t output_bytes; /* of all its commands */
    bool spent;            /* a budget: its commands were ended */
    bool looking;          /* the provider is being asked for its CPU time */
    bool counted;          /* its end */
    const char *cause;     /* of its end; NULL: somebody asked for it */
};

/* What is being done to a sandbox that goes on living; pause.c and stop.c. */
enum atoll_change {
    ATOLL_CHANGE_NONE,
    ATOLL_CHANGE_PAUSING,    /* RUNNING until its agent is ready for it, then PAUSED */
    ATOLL_CHANGE_RESUMING,   /* PAUSED */
    ATOLL_CHANGE_STOPPING,   /* STOPPING, and stored as STOPPED */
    ATOLL_CHANGE_STARTING,   /* CREATING, and stored as STOPPED */
    ATOLL_CHANGE_RECREATING, /* CREATING, and stored as RUNNING; recreate.c */
};

struct atoll_sandbox {
    struct atoll_engine *engine;
    struct atoll_spec spec;
    struct atoll_provider_entry *entry; /* borrowed: who makes it */
    struct atoll_provider *provider;    /* the same */
    struct atoll_create_request request;
    enum atoll_sandbox_state was; /* UNREACHABLE: what the row says */
    bool was_loaded;              /* from an earlier daemon, and nothing is decided about it yet */
    enum atoll_sandbox_state state;
    enum atoll_change change;
    int64_t paused_unix_ms;              /* PAUSED, STOPPED: since when; else 0 */
    struct atoll_list resumers;          /* told when it runs; see atoll_waiters_add() */
    struct atoll_list stoppers;          /* told when it is stopped */
    struct atoll_template *template_ref; /* borrowed; cannot be removed while we live */
    char *metadata_json, *facade_json;   /* owned, or NULL */
    struct atoll_lifetime lifetime;
    uint64_t cpu_spent_us;             /* before its last start */
    uint64_t output_spent_bytes;       /* of commands that are not remembered any more */
    struct atoll_life life;            /* lifetime.c */
    struct atoll_history *history;     /* owned, or NULL; history.c */
    char owner[65];                    /* tenant */
    struct atoll_tenant *tenant;       /* NULL: it is in no list; tenants.c */
    uint64_t promised[ATOLL_PROMISES]; /* as the tenant's account has it */
    char **env;                        /* owned, NULL-terminated, or NULL */
    bool env_is_common;                /* as in atoll_create */
    char interpreter[33];              /* the same; "": none */
    char **artifacts;                  /* owned: patterns of files to keep, or NULL */
    char session_id[ATOLL_ID_LEN + 1]; /* "": it belongs to none */
    struct atoll_mount *mounts;        /* owned, or NULL */
    size_t mount_count;
    struct atoll_registry_login *login;            /* owned; NULL once it is made, or not at all */
    void (*progress)(void *arg, const char *text); /* while it is made, or NULL */
    void *progress_arg;
    int64_t progress_ms, progress_since_ms; /* when that was last an event, and first */
    bool snapping;                          /* a snapshot of it is being made */
    char cause[200];
    struct atoll_provider_exit oom; /* what it dies of, where oom_kills says so: see exec.c */
    int64_t created_unix_ms, expires_unix_ms;
    int64_t created_ms;
    double boot_ms;
    bool remains;               /* the provider has something of it */
    bool removing;              /* the provider is removing it */
    struct atoll_timer removal; /* the next try, after one that failed */
    unsigned removals;          /* that failed */
    bool destroying;            /* it is to be destroyed, whatever came of that so far */
    bool hidden;                /* in the pool, or for the engine's own use */
    bool unsaved;               /* the store has not taken its row yet */
    bool stored;                /* the store has a row of it */
    bool undropped;             /* nothing but that row is left of it, which could not be dropped */
    bool departs;               /* the row is dropped; depart.c */
    bool rows_left;             /* DEPARTS: of its commands */
    struct atoll_timer departure;
    bool pooled;
    struct atoll_list pool_node;
    struct atoll_pool_class *pool_class; /* that it is made for, or waits on; NULL: none */
    struct atoll_rpc *agent;             /* owned; NULL while there is none */
    struct atoll_timer deadline;
    uint32_t features; /* of the agent, ATOLL_AGENT_FEATURE_*; 0 until it has answered */
    bool greeted;      /* it has */
    struct atoll_reattach *reattach; /* the agent is out of reach; reattach.c. owned, or NULL */
    uint64_t journal_bytes;          /* on disk, of its commands; journals.c */
    struct atoll_map execs;          /* by id, referenced */
    struct atoll_list exec_list;     /* in the order they started */
    struct atoll_list watches;       /* of struct atoll_file_watch */
    struct atoll_list destroyers;    /* of struct waiter: told when it is gone */
    atoll_sandbox_fn *created;       /* waits for the creation, or NULL */
    void *created_arg;
    uint64_t last_cpu_us; /* for the percentage */
    int64_t last_cpu_ms;
};

struct atoll_exec {
    unsigned refs;
    struct atoll_engine *engine;
    struct atoll_sandbox *sandbox; /* NULL once it is gone */
    char sandbox_id[ATOLL_ID_LEN + 1];
    uint64_t number;
    char id[17];
    char **argv;            /* owned; for those who look, its beginning alone */
    uint64_t argv_left_out; /* bytes of it that are not there */
    char *user, *cwd;
    bool pty;
    uint32_t pid;
    int64_t started_unix_ms, started_ms;
    int64_t asked_us; /* when its start was asked for */
    struct atoll_journal journal;
    struct {
        struct atoll_journal_owner *owner; /* NULL: it has nothing on disk */
        uint64_t bytes;                    /* on disk */
        size_t memory;
        bool listed;            /* among those of its owner that have ended */
        struct atoll_list node; /* there */
    } charge;                   /* journals.c */
    uint64_t acked[3];
    uint64_t stdin_offset;
    bool held;        /* as in atoll_exec_start */
    bool awaited;     /* taken up by a new daemon: its followers may come back */
    bool counted;     /* among those its tenant has running */
    bool kept;        /* its output stays on disk when it leaves memory: the daemon ends */
    bool resting;     /* waits for input, and so does not count as running */
    bool agent_knows; /* the agent knows it too */
    bool ended;
    bool unsaved;                    /* the store has not taken its end yet */
    struct atoll_exec_result result; /* once ended */
    struct atoll_list readers;       /* of struct atoll_reader.node */
    unsigned followers;              /* among the readers */
    unsigned round;                  /* of waking readers */
    struct atoll_timer awaiting;     /* the end of `awaited` */
    struct atoll_list node;          /* in sandbox->exec_list */
    atoll_exec_fn *started;          /* waits for the start, or NULL */
    void *started_arg;
};

/* providers.c */
int atoll_provider_entries_open(struct atoll_engine *engine,
                                const struct atoll_engine_config *config,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Who builds templates: the first that can, else the first. */
void atoll_provider_entries_choose_builder(struct atoll_engine *engine);
/* Begins to look after their health. */
void atoll_provider_entries_start(struct atoll_engine *engine);
void atoll_provider_entries_shutdown(struct atoll_engine *engine);
void atoll_provider_entries_close(struct atoll_engine *engine);
struct atoll_provider_entry *atoll_provider_entry_by_name(struct atoll_engine *engine,
                                                          const char *name);
/* NULL when it is gone, or gets nothing new. */
struct atoll_provider_entry *atoll_provider_entry_by_serial(struct atoll_engine *engine,
                                                            uint32_t serial);
int atoll_provider_entry_add(struct atoll_engine *engine,
                             const struct atoll_engine_provider *config,
                             struct atoll_provider_entry **ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Its settings, and no other than that. */
int atoll_provider_entry_configure(struct atoll_provider_entry *entry,
                                   const struct atoll_engine_provider *config,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_provider_entry *atoll_provider_entry_free(struct atoll_provider_entry *entry);
void atoll_provider_entry_check(struct atoll_provider_entry *entry); /* its health, now */
bool atoll_provider_entry_runs(const struct atoll_provider_entry *entry, const char *language);
/* provider_set.c: whether another of its name still has sandboxes that will be its own. */
bool atoll_provider_entry_awaits(const struct atoll_provider_entry *entry);
/* For one that rows name and nobody has configured; NULL on failure. */
struct atoll_provider_entry *atoll_provider_entry_absent(struct atoll_engine *engine,
                                                         const char *name, struct atoll_error *err);
bool atoll_provider_entry_is_down(const struct atoll_provider_entry *entry);
/* One that is down: how long until it is tried again; 0: that is under way. */
int64_t atoll_provider_entry_retry_ms(const struct atoll_provider_entry *entry);
/* UNAVAILABLE, with what brings it back. */
int atoll_provider_entry_refuse_unreachable(const struct atoll_sandbox *s,
                                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Where the operator has tried already what the hint says. */
void atoll_advise_reload(const struct atoll_engine *engine, struct atoll_error *err);
/* What could be set up; never NULL. */
const struct atoll_route_kinds *atoll_engine_kinds(const struct atoll_engine *engine);
/* How a create ended there. */
void atoll_provider_entry_note_create(struct atoll_provider_entry *entry,
                                      const struct atoll_error *error);
/* UNIMPLEMENTED, with who can. */
int atoll_provider_entry_refuse_pause(const struct atoll_provider_entry *entry,
                                      struct atoll_error *err);
size_t atoll_provider_entry_count_sandboxes(const struct atoll_provider_entry *entry);
extern const struct atoll_provider_events
    atoll_provider_entry_events; /* engine.c; arg: the entry */
/* create.c: after it could not be made where it was, the next provider of its routes is asked; false
 * when there is none, or that would not help. */
bool atoll_create_elsewhere(struct atoll_sandbox *sandbox, const struct atoll_error *error,
                            atoll_provider_created_fn *done);
/* recreate.c: instead of failing. The first counts how often. */
bool atoll_sandbox_may_recreate(struct atoll_sandbox *sandbox);
void atoll_sandbox_recreate(struct atoll_sandbox *sandbox, const char *why, bool remains);
/* recovery.c: asks the provider what there is of an earlier daemon. */
void atoll_recover_provider_entry(struct atoll_provider_entry *entry);

/* sandbox.c */
extern const struct atoll_rpc_protocol atoll_agent_protocol;
/* A record with a fresh id, in the engine but not in the world yet; NULL out of memory. */
struct atoll_sandbox *atoll_sandbox_prepare(struct atoll_engine *engine,
                                            const struct atoll_spec *spec,
                                            struct atoll_template *tmpl);
/* The same for one that exists already. */
struct atoll_sandbox *atoll_sandbox_prepare_as(struct atoll_engine *engine,
                                               const struct atoll_spec *spec,
                                               struct atoll_template *tmpl, const char *id);
/* Drops a record that was never launched. */
void atoll_sandbox_discard(struct atoll_sandbox *sandbox);
/* Drops the record of one that goes on without us, or is stopped. */
void atoll_sandbox_forget(struct atoll_sandbox *sandbox);
/* Makes it real; `created` is called once. */
void atoll_sandbox_launch(struct atoll_sandbox *sandbox, atoll_sandbox_fn *created, void *arg);
/* Asks its provider for it, with what only create() may look at; done gets the sandbox. */
void atoll_sandbox_make(struct atoll_sandbox *sandbox, atoll_provider_created_fn *done);
void atoll_limits_fill(struct atoll_limits *limits); /* defaults for what is 0 */
/* Gives the agent to keep what a later daemon needs and must not be on disk. */
void atoll_sandbox_leave_note(struct atoll_sandbox *sandbox);
/* Takes the agent's connection and greets it. fd is taken over in every case. */
int atoll_sandbox_open_agent(struct atoll_sandbox *sandbox, int fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_arm_deadline(struct atoll_sandbox *sandbox); /* from its limits */
void atoll_sandbox_arm_deadline_in(struct atoll_sandbox *sandbox, int64_t after_ms);
/* The running sandbox of that id, or an error for the client. This is a use of it. */
int atoll_engine_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for what only looks, and is no use of it. */
int atoll_engine_look(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_sandbox_ask(struct atoll_sandbox *sandbox, uint16_t type,
                      const struct atoll_msg_desc *desc, const void *msg, atoll_answer_fn *fn,
                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Without a deadline: for what the engine itself takes up again when a silent agent goes on. */
int atoll_sandbox_ask_patiently(struct atoll_sandbox *sandbox, uint16_t type,
                                const struct atoll_msg_desc *desc, const void *msg,
                                atoll_answer_fn *fn, void *arg,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_destroy(struct atoll_sandbox *sandbox, const char *who, atoll_done_fn *done,
                           void *arg);
/* It died by itself. remains: the provider still holds something of it to be removed. */
void atoll_sandbox_fail(struct atoll_sandbox *sandbox, const char *why, bool remains);

/* The provider removes what it has of it, then it leaves the engine. */
void atoll_sandbox_remove_remains(struct atoll_sandbox *sandbox);
/* depart.c: nothing is left of it but its record. */
void atoll_sandbox_depart(struct atoll_sandbox *sandbox);
/* Whoever waits for an answer of the agent is told that none will come. */
void atoll_sandbox_drop_agent(struct atoll_sandbox *sandbox, const char *why);

/* silence.c: what atoll_agent_protocol and the events of its connections need; arg is the sandbox */
#define ATOLL_AGENT_SILENCE_MS 10000
int64_t atoll_agent_limit_ms(uint16_t type);
bool atoll_sandbox_expects(const void *arg);
bool atoll_sandbox_heartbeat(const void *arg);
void atoll_sandbox_silence(void *arg, bool silent);
void atoll_sandbox_late(void *arg, uint16_t type, const struct atoll_frame *frame);

/* pause.c */
/* What was under way is over, because of `why`. */
void atoll_sandbox_drop_change(struct atoll_sandbox *sandbox, const char *why);
/* Of one that is paused or stopped, and no change under way. */
void atoll_sandbox_begin_resume(struct atoll_sandbox *sandbox);
void atoll_sandbox_runs_again(struct atoll_sandbox *sandbox, const char *event);

/* stop.c: of persistent ones */
/* Ends its commands like this; it is stopped when its processes are gone. cause: "" when somebody
 * asked for it. */
void atoll_sandbox_halt(struct atoll_sandbox *sandbox, enum atoll_end_kind kind, const char *who,
                        const char *cause);
/* The same with somebody to tell; also of one that is stopped already, or being changed. */
void atoll_sandbox_stop(struct atoll_sandbox *sandbox, const char *who, atoll_done_fn *done,
                        void *arg);
void atoll_sandbox_start_again(struct atoll_sandbox *sandbox);

/* env_file.c: the environment of a persistent one, in a file of its own; nothing for others */
int atoll_env_save(const struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_env_load(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_env_drop(const struct atoll_sandbox *sandbox);
void atoll_env_sweep(struct atoll_engine *engine); /* of sandboxes that are not there */

/* reattach.c: the connection to the agent of one that runs was lost. */
void atoll_sandbox_reattach(struct atoll_sandbox *sandbox);
bool atoll_sandbox_reattach_is_busy(const struct atoll_sandbox *sandbox);
void atoll_sandbox_end_reattach(struct atoll_sandbox *sandbox);
/* Over a new connection: takes up each command where it is, ends those that the agent does not know as
 * lost because of `unknown`, and kills those that we do not. done is called with the answer's error. */
void atoll_sandbox_meet_execs(struct atoll_sandbox *sandbox, const char *unknown,
                              atoll_done_fn *done, void *arg);

/* recovery.c: takes up the connection to a living sandbox, and its commands where they are; done
 * when that is so, or it has failed. */
void atoll_sandbox_adopt(struct atoll_sandbox *sandbox, void (*done)(void *arg), void *arg);

/* pool.c */
void atoll_pool_init(struct atoll_engine *engine);
void atoll_pool_done(struct atoll_engine *engine);
/* One that is ready and can become what is asked for, or NULL. */
struct atoll_sandbox *atoll_pool_take(struct atoll_engine *engine, const struct atoll_spec *spec,
                                      const struct atoll_create *create);
/* The template goes, and what waits on it; that is in nobody's way. */
void atoll_pool_leave_template(struct atoll_engine *engine, const struct atoll_template *tmpl);
void atoll_pool_refill(struct atoll_engine *engine);
void atoll_pool_refill_soon(struct atoll_engine *engine);
void atoll_pool_forget(struct atoll_sandbox *sandbox);

/* quota.c: what the public functions come to once the tenant's turn has come */
void atoll_engine_create_now(struct atoll_engine *engine, const struct atoll_create *create,
                             atoll_sandbox_fn *done, void *arg);
void atoll_engine_exec_now(struct atoll_engine *engine, const char *sandbox_id,
                           const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg);
void atoll_quota_fill(struct atoll_quota *quota); /* defaults for what is 0 */
void atoll_quota_done(struct atoll_engine *engine);
/* A command that runs; both may be called again. */
void atoll_quota_exec_enter(struct atoll_exec *exec);
void atoll_quota_exec_leave(struct atoll_exec *exec);

/* lifetime.c: what ends a sandbox besides its owner, and what it may use in all */
enum atoll_over {
    ATOLL_OVER_DEADLINE,
    ATOLL_OVER_IDLE,
    ATOLL_OVER_LEASE,
    ATOLL_OVER_CONNECTION,
};
/* Destroys it, or stops or pauses it where that was asked for. */
void atoll_lifetime_over(struct atoll_sandbox *sandbox, enum atoll_over why);
/* It runs from now on, for the first time or again: idle time and lease begin anew. */
void atoll_lifetime_begin(struct atoll_sandbox *sandbox);
/* Counts the output of its commands once more. */
void atoll_lifetime_recount(struct atoll_sandbox *sandbox);
/* Its processes are about to be ended for a later start: their CPU time is put down as spent. */
void atoll_lifetime_settle(struct atoll_sandbox *sandbox);
/* Before a command is started: RESOURCE_EXHAUSTED when a budget is spent. */
int atoll_lifetime_admit(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* So many bytes more of output. */
void atoll_lifetime_output(struct atoll_sandbox *sandbox, uint64_t bytes);
/* A command that is remembered no longer. */
void atoll_lifetime_forget(struct atoll_sandbox *sandbox, const struct atoll_exec *exec);
/* It has failed, or nothing is left of it: counted once, by its cause. */
void atoll_lifetime_ended(struct atoll_sandbox *sandbox, bool failed);
uint64_t atoll_lifetime_cpu_us(const struct atoll_sandbox *sandbox);

/* history.c */
struct atoll_history *atoll_history_free(struct atoll_history *history);

/* exec.c */
int atoll_exec_on_event(struct atoll_sandbox *sandbox, struct atoll_frame *frame);
/* The agent may forget output before that offset. */
void atoll_exec_acknowledge(struct atoll_exec *exec, int stream, uint64_t offset);
/* Every exec of it that still runs ends like this. */
void atoll_exec_end_all(struct atoll_sandbox *sandbox, enum atoll_end_kind kind,
                        const char *reason);
void atoll_exec_drop_all(struct atoll_sandbox *sandbox);
bool atoll_exec_drop_some(struct atoll_sandbox *sandbox, size_t most); /* whether there are more */
/* Those of a sandbox that waited in the pool are its tenant's and the store's from now on. */
int atoll_exec_enlist_all(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_exec_unref(struct atoll_exec *exec);
/* The one place where an exec ends, and the record is stored. */
void atoll_exec_finish(struct atoll_exec *exec, const struct atoll_exec_result *result);
/* An exec of an earlier daemon, from its row. */
int atoll_exec_restore(struct atoll_sandbox *sandbox, const struct atoll_store_exec *row,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_exec *atoll_exec_by_number(struct atoll_sandbox *sandbox, uint64_t number);

/* persist.c: rows of the store. Hidden sandboxes have none: nobody would miss them. */
int atoll_persist_sandbox(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same where nobody can be told: it is tried again until it is stored. */
void atoll_persist_sandbox_later(struct atoll_sandbox *sandbox);
/* *ret_more: rows of its commands are left. A failure is tried again: see atoll_sandbox.undropped. */
int atoll_persist_drop(struct atoll_sandbox *sandbox, bool *ret_more,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_persist_drop_execs(struct atoll_sandbox *sandbox); /* some; whether there are more */
int atoll_persist_exec(struct atoll_engine *engine, struct atoll_exec *exec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_persist_drop_exec(struct atoll_engine *engine, const struct atoll_exec *exec);

/* journals.c: what the output of all commands may take on disk */
void atoll_journals_open(struct atoll_engine *engine);
void atoll_journals_done(struct atoll_engine *engine);
void atoll_journals_view(const struct atoll_engine *engine, struct atoll_disk_view *ret);
void atoll_journals_expire(struct atoll_engine *engine); /* now, and from now on */
/* Before n bytes are added to its journal: others give way, or it is told to take no more. */
void atoll_journals_make_room(struct atoll_exec *exec, size_t n);
/* Its journal, or that it has ended, has changed. */
void atoll_journals_charge(struct atoll_exec *exec);
void atoll_journals_move(struct atoll_exec *exec);          /* its sandbox has another owner */
void atoll_journals_leave_sandbox(struct atoll_exec *exec); /* readers may still hold it */
void atoll_journals_release(struct atoll_exec *exec);

/* room.c: room on the daemon's own disk */
/* Bytes of the file system that fd is on; UINT64_MAX: not known. */
uint64_t atoll_room_free(int fd);
uint64_t atoll_room_size(int fd);
/* UNAVAILABLE when so little is left that no new sandbox or command may be taken. */
int atoll_room_admit(const struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;

/* events.c; told to nobody before it is stored */
/* store: borrowed. */
int atoll_events_new(struct atoll_loop *loop, struct atoll_store *store, struct atoll_events **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Stores what is left. */
struct atoll_events *atoll_events_free(struct atoll_events *events);
/* Nothing for hidden sandboxes. kind lives for ever; exec_id and detail may be "". */
void atoll_events_emit(struct atoll_engine *engine, const char *kind,
                       const struct atoll_sandbox *sandbox, const char *exec_id,
                       const char *detail);

/* artifacts.c */
int atoll_artifacts_new(struct atoll_engine *engine, struct atoll_artifacts **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_artifacts *atoll_artifacts_free(struct atoll_artifacts *artifacts);
void atoll_artifacts_sizes(const struct atoll_artifacts *artifacts, uint64_t *ret_bytes,
                           uint64_t *ret_max_bytes);
/* artifacts_request.c: whether it can be had; into the new sandbox; of those an earlier daemon
 * had */
int atoll_artifacts_accept(const struct atoll_engine *engine, const char *const *patterns,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_artifacts_apply_request(struct atoll_sandbox *sandbox, const struct atoll_create *create,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_artifacts_load_requests(struct atoll_engine *engine,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
/* artifacts_collect.c: copies what is to be kept of one that is being destroyed and then calls done,
 * from the loop. False when there is nothing to wait for. was: its state before. */
bool atoll_artifacts_collect(struct atoll_sandbox *sandbox, enum atoll_sandbox_state was,
                             void (*done)(struct atoll_sandbox *sandbox));

/* files.c: a request whose answer is an entry */
void atoll_files_ask_entry(struct atoll_engine *e, const char *id, uint16_t type,
                           const struct atoll_msg_desc *desc, const void *msg, atoll_entry_fn *done,
                           void *arg);

/* connect.c: which descriptors are this sandbox's */
struct atoll_lane atoll_sandbox_lane(const struct atoll_sandbox *sandbox);

/* watch.c */
int atoll_file_watch_on_event(struct atoll_sandbox *sandbox, const struct atoll_frame *frame);
/* The agent is gone, and waiting requests have been failed. */
void atoll_file_watch_end_all(struct atoll_sandbox *sandbox);

/* reader.c */
void atoll_readers_notify(struct atoll_exec *exec);
/* Whether output for which the journal has no room is held for somebody. */
bool atoll_readers_hold(const struct atoll_exec *exec);
/* What all that follow have used of a stream, or is kept without them: the agent may forget it. */
uint64_t atoll_readers_used(const struct atoll_exec *exec, int stream);
/* Tells the agent so, and makes room in the journal. */
void atoll_readers_settle(struct atoll_exec *exec);
/* The agent of one that was restored was reached: from now on its followers have time to come back. */
void atoll_readers_await(struct atoll_exec *exec);

/* templates.c */
int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_templates_done(struct atoll_engine *engine);
/* Whether one of that kind may be made under that name. owner: "" for everybody's. */
int atoll_template_check(struct atoll_engine *engine, const char *owner, const char *name,
                         enum atoll_template_kind kind, struct atoll_error *err) ATOLL_MUST_CHECK;
/* As atoll_templates_find(); NULL. */
struct atoll_template *atoll_template_find(struct atoll_engine *engine, const char *tenant,
                                           const char *name);
struct atoll_template_view atoll_template_get(const struct atoll_template *t);
/* One of an image that the provider keeps now; the one it had before is dropped there. When it cannot be
 * saved, everything is as before, and the new image is dropped. */
int atoll_template_keep_image(struct atoll_engine *engine, const char *owner, const char *name,
                              const struct atoll_provider_entry *entry, const char *image,
                              const struct atoll_provider_image *made, struct atoll_template **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
size_t atoll_templates_count(struct atoll_engine *engine, const char *owner);
/* Adds it, or changes the one of that name; NULL out of memory. */
struct atoll_template *atoll_template_put(struct atoll_engine *engine, const char *name,
                                          const char *digest, uint64_t size_bytes,
                                          uint32_t layer_base);
bool atoll_template_in_use(struct atoll_engine *engine, const struct atoll_template *t);
int atoll_template_save(struct atoll_engine *engine, const struct atoll_template *t,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* One that could not be saved is what it was before (no name: it was not there); its layer goes. */
void atoll_template_undo(struct atoll_engine *engine, struct atoll_template *t,
                         const struct atoll_template *was);
/* It goes, unless a template or a sandbox has it. */
void atoll_layer_release(struct atoll_engine *engine, const char *digest);
/* Layers that nobody has, of a daemon that died in between. Once, when the rows are loaded. */
void atoll_templates_sweep(struct atoll_engine *engine);

/* build.c */
void atoll_image_name(char out[64]); /* a new one, that nobody can guess */
/* Of those under way nobody will be told anything any more. */
void atoll_builds_done(struct atoll_engine *engine);
/* The one of that name, or the first that can; UNIMPLEMENTED: "cannot WHAT". INVALID_ARGUMENT. */
struct atoll_provider_entry *atoll_provider_entry_for(
    struct atoll_engine *engine, const char *provider,
    bool (*can)(const struct atoll_provider_caps *caps), const char *what, struct atoll_error *err);
/* snapshot.c */
void atoll_done_ignore(void *arg, const struct atoll_error *error);

/* mounts.c */
/* An array as text for the store, malloc'd; NULL for none. Aborts without memory. */
char *atoll_mounts_write(const struct atoll_mount *mounts, size_t count);
/* And back; what is no such text is none. The result is malloc'd, or NULL. */
struct atoll_mount *atoll_mounts_read(const char *text, size_t *ret_count);
struct atoll_mount *atoll_mounts_dup(const struct atoll_mount *mounts, size_t count);
struct atoll_registry_login *atoll_login_dup(const struct atoll_registry_login *login);
struct atoll_registry_login *atoll_login_free(struct atoll_registry_login *login);

/* strings.c */
char **atoll_strings_dup(const char *const *strings);
/* The first `count` and at most `bytes` of text; the last of them is cut where it does not fit, which
 * "…" shows. *ret_left_out: bytes that are not in the copy, 0: it is whole. */
char **atoll_strings_dup_some(const char *const *strings, size_t bytes, size_t count,
                              uint64_t *ret_left_out);
char **atoll_strings_free(char **strings);
size_t atoll_strings_count(const char *const *strings);
/* As one run of bytes, each string with its NUL; and back (NULL when that is not what it is). */
int atoll_strings_join(struct atoll_buf *out, char **strings) ATOLL_MUST_CHECK;
char **atoll_strings_split(const void *bytes, size_t n);
