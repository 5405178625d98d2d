#pragma once
#include "base/list.h"
#include "base/map.h"
#include "engine/engine.h"
#include "engine/journal.h"
#include "provider/provider.h"
#include "provider/rpc.h"
#include "store/store.h"

/*
 * What the files of the engine share. All of it belongs to the loop's thread.
 */

struct atoll_template {
    char name[65];
    enum atoll_template_kind kind;
    char digest[72]; /* SHA-256 of the archive in hex, also the name of its layer; "" for host */
    uint32_t layer_base;
    uint64_t size_bytes;
    int64_t created_unix_ms;
};

struct atoll_engine {
    struct atoll_loop *loop;
    struct atoll_engine_config config;
    char *state_dir, *host_json; /* owned */
    int state_fd;
    int journal_fd;             /* state/journal: a file <sandbox>-<exec> for each with output */
    struct atoll_map sandboxes; /* by id, owned, pooled ones included */
    size_t public_count;        /* of those, not waiting in the pool */
    struct atoll_list pool;     /* ready, of struct atoll_sandbox.pool_node */
    uint32_t pool_size, pool_making, pool_failures;
    struct atoll_map tenants;    /* those that use something; quota.c */
    struct atoll_map templates;  /* by name, of struct atoll_template, owned */
    struct atoll_events *events; /* owned */
    bool ending;
    void (*ended)(void *arg);
    void *ended_arg;
};

struct atoll_sandbox {
    struct atoll_engine *engine;
    struct atoll_spec spec;
    enum atoll_sandbox_state state;
    struct atoll_template *template_ref; /* borrowed; cannot be removed while we live */
    char *metadata_json, *facade_json;   /* owned, or NULL */
    struct atoll_lifetime lifetime;
    uint64_t cpu_spent_us, output_spent_bytes; /* before its last start */
    char owner[65];                            /* tenant */
    char **env;                                /* owned, NULL-terminated, or NULL */
    char cause[200];
    int64_t created_unix_ms, expires_unix_ms;
    int64_t created_ms;
    double boot_ms;
    bool remains;  /* the provider has something of it */
    bool removing; /* the provider is removing it */
    bool hidden;   /* in the pool, or for the engine's own use */
    bool pooled;
    struct atoll_list pool_node;
    struct atoll_rpc *agent; /* owned; NULL while there is none */
    struct atoll_timer deadline;
    struct atoll_timer mourning;  /* the agent is gone, the provider has not said why yet */
    struct atoll_map execs;       /* by id, referenced */
    struct atoll_list exec_list;  /* in the order they started */
    struct atoll_list watches;    /* of struct atoll_file_watch */
    struct atoll_list destroyers; /* of struct waiter: told when it is gone */
    atoll_sandbox_fn *created;    /* waits for the creation, or NULL */
    void *created_arg;
    uint64_t last_cpu_us; /* for the percentage */
    int64_t last_cpu_ms;
};

struct atoll_exec {
    unsigned refs;
    struct atoll_sandbox *sandbox; /* NULL once it is gone */
    char sandbox_id[ATOLL_ID_LEN + 1];
    uint64_t number;
    char id[17];
    char **argv; /* owned */
    char *user, *cwd;
    bool pty;
    uint32_t pid;
    int64_t started_unix_ms, started_ms;
    int64_t asked_us; /* when its start was asked for */
    struct atoll_journal journal;
    uint64_t acked[3];
    uint64_t stdin_offset;
    bool counted; /* among those its tenant has running */
    bool met;     /* recovery: the agent knows it too */
    bool ended;
    struct atoll_exec_result result; /* once ended */
    struct atoll_list readers;       /* of struct atoll_reader.node */
    struct atoll_list node;          /* in sandbox->exec_list */
    atoll_exec_fn *started;          /* waits for the start, or NULL */
    void *started_arg;
};

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
/* Makes it real; `created` is called once. */
void atoll_sandbox_launch(struct atoll_sandbox *sandbox, atoll_sandbox_fn *created, void *arg);
void atoll_limits_fill(struct atoll_limits *limits); /* defaults for what is 0 */
/* Gives the agent to keep what a later daemon needs and must not be on disk. */
void atoll_sandbox_leave_note(struct atoll_sandbox *sandbox);
/* Takes the agent's connection and greets it. fd is taken over in every case. */
int atoll_sandbox_open_agent(struct atoll_sandbox *sandbox, int fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_arm_deadline(struct atoll_sandbox *sandbox); /* from its limits */
void atoll_sandbox_arm_deadline_in(struct atoll_sandbox *sandbox, int64_t after_ms);
/* The running sandbox of that id, or an error for the client. */
int atoll_engine_running(struct atoll_engine *engine, const char *id, struct atoll_sandbox **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_sandbox_ask(struct atoll_sandbox *sandbox, uint16_t type,
                      const struct atoll_msg_desc *desc, const void *msg, atoll_answer_fn *fn,
                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_sandbox_destroy(struct atoll_sandbox *sandbox, const char *who, atoll_done_fn *done,
                           void *arg);
/* It died by itself. remains: the provider still holds something of it to be removed. */
void atoll_sandbox_fail(struct atoll_sandbox *sandbox, const char *why, bool remains);

/* pool.c */
struct atoll_sandbox *atoll_pool_take(struct atoll_engine *engine, const struct atoll_spec *spec);
void atoll_pool_refill(struct atoll_engine *engine);
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

/* exec.c */
int atoll_exec_on_event(struct atoll_sandbox *sandbox, struct atoll_frame *frame);
/* Every exec of it that still runs ends like this. */
void atoll_exec_end_all(struct atoll_sandbox *sandbox, enum atoll_end_kind kind,
                        const char *reason);
void atoll_exec_drop_all(struct atoll_sandbox *sandbox);
void atoll_exec_unref(struct atoll_exec *exec);
/* The one place where an exec ends, and the record is stored. */
void atoll_exec_finish(struct atoll_exec *exec, const struct atoll_exec_result *result);
/* An exec of an earlier daemon, from its row. */
int atoll_exec_restore(struct atoll_sandbox *sandbox, const struct atoll_store_exec *row,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_exec *atoll_exec_by_number(struct atoll_sandbox *sandbox, uint64_t number);

/* persist.c: rows of the store. Hidden sandboxes have none: nobody would miss them. */
void atoll_persist_sandbox(const struct atoll_sandbox *sandbox);
void atoll_persist_drop(const struct atoll_sandbox *sandbox);
int atoll_persist_exec(struct atoll_engine *engine, const struct atoll_exec *exec,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_persist_drop_exec(struct atoll_engine *engine, const struct atoll_exec *exec);

/* events.c */
int atoll_events_new(struct atoll_events **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_events *atoll_events_free(struct atoll_events *events);
/* Nothing for hidden sandboxes. kind lives for ever; exec_id and detail may be "". */
void atoll_events_emit(struct atoll_engine *engine, const char *kind,
                       const struct atoll_sandbox *sandbox, const char *exec_id,
                       const char *detail);

/* watch.c */
int atoll_file_watch_on_event(struct atoll_sandbox *sandbox, const struct atoll_frame *frame);
/* The agent is gone, and waiting requests have been failed. */
void atoll_file_watch_end_all(struct atoll_sandbox *sandbox);

/* reader.c */
void atoll_readers_notify(struct atoll_exec *exec);

/* templates.c */
int atoll_templates_load(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_templates_done(struct atoll_engine *engine);
/* Adds it, or changes the one of that name; NULL out of memory. */
struct atoll_template *atoll_template_put(struct atoll_engine *engine, const char *name,
                                          const char *digest, uint64_t size_bytes,
                                          uint32_t layer_base);
bool atoll_template_in_use(struct atoll_engine *engine, const struct atoll_template *t);
int atoll_template_save(struct atoll_engine *engine, const struct atoll_template *t,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* strings.c */
char **atoll_strings_dup(const char *const *strings);
char **atoll_strings_free(char **strings);
size_t atoll_strings_count(const char *const *strings);
/* As one run of bytes, each string with its NUL; and back (NULL when that is not what it is). */
int atoll_strings_join(struct atoll_buf *out, char **strings) ATOLL_MUST_CHECK;
char **atoll_strings_split(const void *bytes, size_t n);
