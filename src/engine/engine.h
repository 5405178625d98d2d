#pragma once
#include "base/error.h"
#include "loop/loop.h"
#include "loop/offload.h"
#include "proto/agent_proto.h"
#include "sandbox/spec.h"

/*
 * The engine: sandboxes, the commands in them and their files. Facades (api/) see this header and
 * nothing below it.
 *
 * Thread: everything on the loop's. Nothing blocks; what takes time has a `done` callback that is
 * called exactly once, possibly before the call returns. Errors in callbacks are borrowed.
 * Ownership: objects are the engine's. A pointer to a sandbox or exec is good until control goes
 * back to the loop; keep the id across callbacks and look it up again.
 */
struct atoll_engine;
struct atoll_provider;
struct atoll_store;
struct atoll_sandbox;
struct atoll_exec;
struct atoll_route_kinds; /* engine/provider/routing.h */

/* What one tenant may have at a time. What goes beyond creates and execs waits in a queue of the
 * tenant, each; what goes beyond that is RESOURCE_EXHAUSTED. */
struct atoll_quota {
    uint32_t sandboxes;   /* 0: no limit of its own */
    uint32_t creates;     /* under way; 0: two for each CPU, at least 4 */
    uint32_t execs;       /* running; 0: 1024 */
    uint32_t queue;       /* 0: 1024 */
    uint32_t all_creates; /* of all tenants on this machine; 0: four for each CPU, at least 8 */
    uint32_t elsewhere;   /* creates of images and at other providers; set from the others */
    uint32_t cpus;        /* of the machine; 0: not known */
    /* Sums of limits, by enum atoll_promise; 0: no bound. */
    uint64_t machine[3];     /* what there is: no sandbox gets more */
    uint64_t tenant_most[3]; /* to the sandboxes of one tenant */
    uint64_t total_most[3];  /* to all */
    bool tenant_derived[3]; /* no operator has set it: it does not bind the operator's own tenant */
};
/* Whose the sandboxes of the unix socket are. */
#define ATOLL_OPERATOR_TENANT "default"

/* Output of commands that is kept on disk. Journals of commands that have ended give way, the oldest
 * first; readers are told of the gap. */
struct atoll_output_quota {
    uint64_t sandbox_bytes; /* 0: an eighth of total_bytes */
    uint64_t tenant_bytes;  /* 0: half of total_bytes */
    uint64_t total_bytes;   /* 0: an eighth of the file system, 16 GiB at most */
    uint32_t days;          /* 0: no end */
};

/* One of those who make sandboxes, and how the operator wants it used. Texts are copied. */
struct atoll_engine_provider {
    struct atoll_provider *provider; /* taken over, also on failure; see provider/checked.h */
    const char *name;                /* PROVIDER NULL (atoll_engine_set_providers): which one */
    const char *kind;                /* what it is, where its name does not say; NULL: its name */
    const char *place; /* where it makes them: another of that name with the same place has the same
                          sandboxes. NULL: like no other */
    const char *const *languages; /* NULL-terminated: what runs there; NULL: no word about it */
    struct atoll_limits most;     /* what a request may ask for; 0 fields: no bound */
    uint32_t max_sandboxes;       /* 0: no limit of its own */
    struct atoll_limits limits;   /* what a request leaves 0; 0 fields: the engine's */
    const char *image;            /* runs where a request names nothing; NULL: none */
    bool named_only;              /* only for requests that name it */
    uint32_t weight;              /* with ATOLL_PLACE_WEIGHT: its part of the sandboxes; 0: 1 */
    uint32_t check_ms;            /* how often its health is looked at; 0: 10 s, or 30 */
};

struct atoll_engine_config {
    const char *state_dir;                         /* exists, ours */
    const struct atoll_engine_provider *providers; /* in the order they are asked; at most 16 */
    size_t provider_count;
    struct atoll_store *store; /* taken over, also on failure */
    uint32_t pool;             /* sandboxes kept ready, of each kind that is (pool.c) */
    uint32_t max_sandboxes;    /* 0: 4096 */
    struct atoll_quota quota;
    uint64_t journal_max_bytes; /* output kept per exec, see atoll_reader; 0: 64 MiB */
    struct atoll_output_quota output;
    uint64_t artifacts_max_bytes; /* kept of sandboxes that are gone, in all; 0: nothing is */
    uint32_t artifacts_days;      /* how long; 0: no end */
    uint32_t waived;              /* limits the operator waives for every sandbox */
    bool offload; /* worker threads read, write and close what comes out of sandboxes; false: the
                     loop's thread, for tests */
    bool no_descriptors; /* pretend that none pass from agents: for tests of what is done then */
    uint32_t reattach_max_ms; /* the longest pause before an agent is dialed again; 0: 10 s */
    uint32_t
        orphans_ms; /* how often providers are asked for sandboxes of nobody; 0: five minutes */
    const char *host_json; /* the doctor's report; copied */
    /* For what to say where nobody makes what is asked for: the kinds of providers there could be
     * (borrowed for good; NULL: nothing is said), and where the operator says so (copied). */
    const struct atoll_route_kinds *kinds;
    const char *providers_file;
};

int atoll_engine_new(struct atoll_loop *loop, const struct atoll_engine_config *config,
                     struct atoll_engine **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes over what an earlier daemon left: living sandboxes are adopted with their commands, the rest
 * is brought to a true end. Once, before anything else is asked of the engine. */
void atoll_engine_recover(struct atoll_engine *engine,
                          void (*done)(void *arg, const struct atoll_error *error), void *arg);
/* Drops memory and handles; sandboxes live on. */
struct atoll_engine *atoll_engine_free(struct atoll_engine *engine);
/* Destroys every sandbox and ends atoll-spawn, then calls done. */
void atoll_engine_shutdown(struct atoll_engine *engine, void (*done)(void *arg), void *arg);

/* Those who make sandboxes from now on, all of them, in the order they are asked; a row without a
 * provider keeps the one of its name, with other settings. One that is not there any more gets no new
 * sandboxes and goes when it has none left. Not for the one that builds templates. */
int atoll_engine_set_providers(struct atoll_engine *engine,
                               const struct atoll_engine_provider *providers, size_t count,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* How sandboxes are divided among providers that can make them: enum atoll_placement. */
void atoll_engine_set_placement(struct atoll_engine *engine, int placement);
/* The operator's file was read again; why it could not be used, NULL: it is. */
void atoll_engine_note_providers(struct atoll_engine *engine, const char *error);

/* The doctor's report as JSON, as of the daemon's start. */
const char *atoll_engine_host_json(const struct atoll_engine *engine);

/* What a tenant, or all together, have and may have. Promises by enum atoll_promise; a most of 0: no
 * bound. */
struct atoll_usage {
    size_t sandboxes, sandboxes_most;
    uint32_t creates, creates_most; /* on this machine */
    uint32_t execs, execs_most;
    size_t waiting;
    uint64_t promised[3], promised_most[3];
};
/* tenant NULL: all together, of which no number of execs is a bound. */
void atoll_engine_usage(const struct atoll_engine *engine, const char *tenant,
                        struct atoll_usage *ret);
/* Of each promise what the tenant with the most of it has. */
void atoll_engine_largest(const struct atoll_engine *engine, uint64_t ret_promised[static 3]);
/* How many requests of all tenants wait for their turn right now. */
void atoll_engine_queue(const struct atoll_engine *engine, size_t *ret_creates, size_t *ret_execs);

/* --- sandboxes --- */

enum atoll_sandbox_state {
    ATOLL_SANDBOX_CREATING,
    ATOLL_SANDBOX_RUNNING,
    ATOLL_SANDBOX_STOPPING,
    ATOLL_SANDBOX_FAILED,  /* its first process died; cause says why */
    ATOLL_SANDBOX_PAUSED,  /* its processes stand still, or were ended to be started anew */
    ATOLL_SANDBOX_STOPPED, /* a persistent one of which only the disk is there */
    /* Its provider has not answered since the daemon started; cause says why. Nobody knows better. */
    ATOLL_SANDBOX_UNREACHABLE,
};
#define ATOLL_SANDBOX_STATES (ATOLL_SANDBOX_UNREACHABLE + 1)
const char *atoll_sandbox_state_name(enum atoll_sandbox_state state);

/* Defaults for what a request leaves 0. */
struct atoll_limits atoll_limits_default(void);
/* "memory" → ATOLL_LIMIT_MEMORY, "all" → all; 0 for a word that is none. */
uint32_t atoll_limit_by_name(const char *name);
const char *atoll_limit_name(uint32_t limit); /* of one bit */

enum atoll_at_deadline {
    ATOLL_DEADLINE_DESTROY, /* a persistent one is stopped */
    ATOLL_DEADLINE_PAUSE,
    ATOLL_DEADLINE_PAUSE_DISK, /* without keeping its processes */
};

/* What ends a sandbox besides its owner, or bounds what it may use in all; 0 fields: no bound.
 * limits.timeout_s is the deadline. */
struct atoll_lifetime {
    uint32_t idle_s;              /* without a running command or a request to it */
    uint32_t lease_s;             /* without atoll_engine_heartbeat() */
    bool connection_lease;        /* until atoll_engine_connection_closed(), or the daemon dies */
    uint32_t cpu_budget_s;        /* CPU time of all its processes; then its commands are ended */
    uint64_t output_budget_bytes; /* stdout and stderr of all its commands; likewise */
    enum atoll_at_deadline at_deadline; /* also when idle */
    bool persistent; /* its disk outlives its processes, the daemon and the host */
};

/* Borrowed for the call; quota.c copies every pointer of this and of atoll_exec_start if it must
 * wait. */
struct atoll_create {
    const char *template_name;  /* NULL: host */
    struct atoll_limits limits; /* 0 fields: default */
    uint32_t waived;
    const char *const *env;    /* NAME=VALUE, NULL-terminated, or NULL; for every exec */
    bool env_is_common;        /* it is all the registry's: nobody's secret */
    const char *metadata_json; /* an object, or NULL; kept and given back */
    const char *owner;         /* tenant it belongs to; NULL: "default" */
    struct atoll_lifetime lifetime;
    /* What a facade wants to know about it later, after a restart too; shown to nobody, so the
     * facade's business alone; NULL: nothing. Not for secrets: it is on disk. */
    const char *facade_json;
    const char *const
        *artifacts;          /* patterns of files to keep (engine/artifact/artifacts.h), or NULL */
    const char *session_id;  /* of the session it is made for, or NULL */
    const char *provider;    /* by name; NULL or "auto": whoever can */
    const char *image;       /* a container image instead of a template, or NULL */
    const char *isolation;   /* "container", "gvisor", …; NULL: any */
    const char *language;    /* that code in it will be in; NULL: nobody says */
    const char *interpreter; /* the language whose interpreter may wait in it; NULL: none */
    enum atoll_network network;
    uint32_t gpus;
    bool
        recreate; /* when its provider loses it, it is made again with the same id, without its files */
    const struct atoll_mount *mounts; /* at most ATOLL_MOUNTS_MAX */
    size_t mount_count;
    const struct atoll_registry_login *login; /* for the image's registry, or NULL; never kept */
    /* Until done: what making it is busy with, in words; or NULL. */
    void (*progress)(void *arg, const char *text);
    void *progress_arg;
};

typedef void atoll_sandbox_fn(void *arg, struct atoll_sandbox *sandbox,
                              const struct atoll_error *error);

void atoll_engine_create(struct atoll_engine *engine, const struct atoll_create *create,
                         atoll_sandbox_fn *done, void *arg);
/* Who starts interpreters (contexts.h): in sandboxes that wait in the pool, too. */
typedef void atoll_done_fn(void *arg, const struct atoll_error *error);
struct atoll_interpreters {
    /* Starts the default one of a language; done when it waits, or cannot. */
    void (*prepare)(void *arg, const char *sandbox_id, const char *language, atoll_done_fn *done,
                    void *done_arg);
    /* The sandbox is somebody's now, and the store knows of it. */
    void (*handed_over)(void *arg, const char *sandbox_id);
    void *arg;
};
void atoll_engine_set_interpreters(struct atoll_engine *engine,
                                   const struct atoll_interpreters *interpreters);
/* Somebody ran code in the default interpreter of this sandbox, for the first time: when that happens
 * again and again, the next ones like it are made ahead, with such an interpreter waiting. */
void atoll_engine_note_interpreter(struct atoll_engine *engine, const char *sandbox_id,
                                   const char *language);

/* NULL when there is none by that id (pooled ones are not there yet). */
struct atoll_sandbox *atoll_engine_find(struct atoll_engine *engine, const char *id);
/* Also one that waits in the pool. */
struct atoll_sandbox *atoll_engine_peek(struct atoll_engine *engine, const char *id);
struct atoll_sandbox *atoll_engine_next(struct atoll_engine *engine, size_t *pos);
/* In the order of lists, by time of creation and then by id: the first after that place, the last before
 * it; NULL when there is none. tenant: whose; NULL: of all. */
struct atoll_sandbox *atoll_engine_after(struct atoll_engine *engine, const char *tenant,
                                         int64_t created_unix_ms, const char *id);
struct atoll_sandbox *atoll_engine_before(struct atoll_engine *engine, const char *tenant,
                                          int64_t created_unix_ms, const char *id);
/* How many there are in each state, and in all. tenant, provider: NULL for any. ret_silent: of those
 * that are counted as unreachable, how many run and have an agent that does not answer; may be NULL. */
size_t atoll_engine_count(const struct atoll_engine *engine, const char *tenant,
                          const char *provider, size_t ret[static ATOLL_SANDBOX_STATES],
                          size_t *ret_silent);
/* What the daemon has on its own disk. */
struct atoll_disk_view {
    uint64_t store_bytes, log_bytes;             /* the database, and its write-ahead log */
    uint64_t journal_bytes, journal_max_bytes;   /* output of commands, and what that may have */
    uint64_t held_bytes, held_max_bytes;         /* the same in memory, for those who follow */
    uint64_t artifact_bytes, artifact_max_bytes; /* files of sandboxes that are gone */
    uint64_t free_bytes;                         /* of the file system; UINT64_MAX: not known */
};
void atoll_engine_disk(const struct atoll_engine *engine, struct atoll_disk_view *ret);
/* Whether the daemon's disk has room for new work, and the store takes writes: it took the last one,
 * else one is tried. */
int atoll_engine_check_store(struct atoll_engine *engine, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether there may be one more sandbox: RESOURCE_EXHAUSTED. */
int atoll_engine_check_room(const struct atoll_engine *engine,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether the provider that builds templates answers now; of the others engine/provider/providers.h tells how
 * they were when they were looked at last. */
void atoll_engine_check(struct atoll_engine *engine, atoll_done_fn *done, void *arg);
/* Idempotent and complete: when done comes nothing of it is left. Running execs end as killed_by
 * `who`. Unknown id: NOT_FOUND. */
void atoll_engine_destroy(struct atoll_engine *engine, const char *id, const char *who,
                          atoll_done_fn *done, void *arg);

struct atoll_sandbox_view {
    const char *id, *template_name, *metadata_json, *owner;
    const char *provider, *isolation, *image; /* image "": it runs a template */
    const char *handle; /* what its provider calls it; "" where that is its id */
    enum atoll_network network;
    bool recreate;
    const struct atoll_mount *mounts;
    size_t mount_count;
    bool own_image;               /* what it runs is an image that the template stands for */
    const char *const *artifacts; /* patterns of files to keep, or NULL */
    const char *facade_json;      /* or NULL */
    const char *const *env;       /* NULL-terminated, or NULL */
    struct atoll_lifetime lifetime;
    uint64_t cpu_spent_s, output_spent_bytes; /* of the budgets */
    enum atoll_sandbox_state state;
    const char *cause; /* FAILED; else "" */
    int64_t silent_ms; /* RUNNING: its agent has not answered for so long; 0: it does */
    int64_t created_unix_ms, expires_unix_ms; /* 0: never */
    int64_t paused_unix_ms;                   /* PAUSED, STOPPED: since when */
    struct atoll_limits limits;
    uint32_t waived;
    double boot_ms;
    bool pooled;
};
void atoll_sandbox_get(const struct atoll_sandbox *sandbox, struct atoll_sandbox_view *ret);

/* What may change while it lives. NOT_FOUND, FAILED_PRECONDITION when it is ending. */
/* The sandbox is destroyed `seconds` from now; 0: never. */
int atoll_engine_set_timeout(struct atoll_engine *engine, const char *id, uint32_t seconds,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* json: an object, copied. */
int atoll_engine_set_metadata(struct atoll_engine *engine, const char *id, const char *json,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_engine_set_facade(struct atoll_engine *engine, const char *id, const char *json,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* The lease runs anew from now. FAILED_PRECONDITION for a sandbox without one. */
int atoll_engine_heartbeat(struct atoll_engine *engine, const char *id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* The connection that its lease is bound to is gone: so is the sandbox. Nothing for others. */
void atoll_engine_connection_closed(struct atoll_engine *engine, const char *id);
/* Somebody uses it, in a way that the engine does not see. */
void atoll_engine_touch(struct atoll_engine *engine, const char *id);

/*
 * A paused sandbox uses no CPU and has no deadline, no lease and no idle time; everything but
 * resume, destroy and what only reads its record is FAILED_PRECONDITION.
 * keep_processes: they stand still and go on where they were; else they are ended (killed_by `who`)
 * and what is started after the resume finds a fresh boot: new boot_id, empty /tmp left as it is,
 * the disk as it was. FAILED_PRECONDITION when it is paused already.
 */
void atoll_engine_pause(struct atoll_engine *engine, const char *id, bool keep_processes,
                        const char *who, atoll_done_fn *done, void *arg);
/* Of a paused or stopped one: it is running when done comes, with the timeout it was made with
 * running anew. Success for one that runs. */
void atoll_engine_resume(struct atoll_engine *engine, const char *id, atoll_done_fn *done,
                         void *arg);
/* Of a persistent one: ends all its processes and keeps its disk. FAILED_PRECONDITION otherwise. */
void atoll_engine_stop(struct atoll_engine *engine, const char *id, const char *who,
                       atoll_done_fn *done, void *arg);

struct atoll_sandbox_stats {
    uint64_t memory_limit_bytes;
    uint64_t memory_bytes, memory_peak_bytes; /* 0: nobody measures it */
    double cpu_percent;                       /* since the last reading, 100 is one CPU */
    double cpu_seconds;
    uint32_t cpu_limit_millis; /* where whoever measures says so; 0: the sandbox's own */
    uint64_t processes, processes_peak;
    uint64_t disk_bytes, disk_limit_bytes, inodes, inodes_limit;
    uint64_t net_rx_bytes, net_tx_bytes;
    double uptime_s;
    bool cpu_unknown; /* whoever measures it does not answer */
    /* The agent did not answer: disk (unless the provider measures it), inodes and network are 0. */
    bool inside_unknown;
};
typedef void atoll_stats_fn(void *arg, const struct atoll_sandbox_stats *stats,
                            const struct atoll_error *error);
void atoll_engine_stats(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                        void *arg);
/* The same; where its agent does not answer, what its provider measures, with inside_unknown. */
void atoll_engine_figures(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                          void *arg);
/* Whether its agent answers, whatever its provider does meanwhile; stats are NULL. */
void atoll_engine_ask_agent(struct atoll_engine *engine, const char *id, atoll_stats_fn *done,
                            void *arg);

/* Figures of the last hour, one sample every five seconds while the sandbox runs. Kept from the first
 * call of atoll_engine_keep_history() on, which takes a sample at once; in memory only, so a facade
 * asks again after a restart. Neither counts as a use of the sandbox. */
#define ATOLL_HISTORY_SAMPLES 720
#define ATOLL_HISTORY_EVERY_MS 5000
struct atoll_history_sample {
    int64_t unix_ms;                  /* on the grid of five seconds, but for the first */
    struct atoll_sandbox_stats stats; /* cpu_percent: since the sample before */
};
void atoll_engine_keep_history(struct atoll_engine *engine, const char *id);
/* Those of from..to (both included; 0 for to: until now), oldest first, at most max; how many. */
size_t atoll_engine_history(struct atoll_engine *engine, const char *id, int64_t from_unix_ms,
                            int64_t to_unix_ms, struct atoll_history_sample *out, size_t max);

/* --- commands --- */

struct atoll_exec_start {
    const char *const *argv; /* NULL-terminated, at least one */
    const char *const *env;  /* over the sandbox's, or NULL */
    const char *user, *cwd;  /* NULL: default */
    uint32_t timeout_ms;     /* 0: none */
    bool stdin_open;         /* keep stdin for atoll_exec_write() */
    /* Output is for one reader that follows, and for nobody later; while there is none, the command
     * waits. */
    bool held;
    bool pty;
    uint32_t cols, rows;
};

typedef void atoll_exec_fn(void *arg, struct atoll_exec *exec, const struct atoll_error *error);
/* A command that cannot start is an error and leaves no exec. */
void atoll_engine_exec(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_exec_start *start, atoll_exec_fn *done, void *arg);
/* exec_id: 16 hex digits. */
struct atoll_exec *atoll_sandbox_find_exec(struct atoll_sandbox *sandbox, const char *exec_id);
struct atoll_exec *atoll_sandbox_next_exec(struct atoll_sandbox *sandbox, size_t *pos);

/* How a command ended: exactly one of these exists per exec, once it has ended. */
struct atoll_exec_result {
    enum atoll_end_kind kind;
    int code;   /* EXITED */
    int signal; /* where one was involved */
    /* KILLED_BY: who; LOST: why; OOM_KILLED with its whole sandbox: how; else "" */
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
    const char *const *argv; /* NULL-terminated; the beginning of a long command line */
    uint64_t argv_left_out;  /* bytes of it that are not kept */
    uint32_t pid;
    bool pty;
    bool held; /* one of our own: the interpreter of a context */
    int64_t started_unix_ms;
    const struct atoll_exec_result *result; /* NULL while it runs */
};
void atoll_exec_get(const struct atoll_exec *exec, struct atoll_exec_view *ret);

/* Whether it only waits for its next input. A command that rests does not keep its sandbox from
 * being idle; they do not rest until somebody says so. */
void atoll_exec_set_resting(struct atoll_exec *exec, bool resting);

/* Sends to stdin; done when the sandbox has taken it. close: end of input after these bytes. */
void atoll_exec_write(struct atoll_exec *exec, const uint8_t *bytes, size_t n, bool close,
                      atoll_done_fn *done, void *arg);
/* All of its input, for which nobody waits: a command that cannot be given it is killed. */
void atoll_exec_feed(struct atoll_exec *exec, const uint8_t *bytes, size_t n);
void atoll_exec_signal(struct atoll_exec *exec, int signo, bool tree, const char *who,
                       atoll_done_fn *done, void *arg);
void atoll_exec_resize(struct atoll_exec *exec, uint32_t cols, uint32_t rows, atoll_done_fn *done,
                       void *arg);

/*
 * Output, from any offset, as often as wanted, during and after the run. A reader pulls: `ready` is
 * called when there is something new to pull (or the end), and atoll_reader_next() gives it piece
 * by piece.
 *
 * The first journal_max_bytes of an exec's output are kept, for whoever comes later; a reader that is
 * slow there costs nothing but its own place. What comes after that is for readers that follow:
 *
 * - While any of them is open nothing is lost that it has not let go of (atoll_reader_forget()): the
 *   command waits for the slowest. Nobody but its owner says how long: it closes the reader of a
 *   client that is gone or does not take anything, and the command goes on at once.
 * - With none of them it is counted and dropped.
 * - A reader that cannot have some of it is told so where it is: GAP comes before what is behind.
 * - A daemon that dies has lost nothing that was not let go of. The next one holds the command for 15
 *   seconds, or two after the first reader that follows, in which they can come back and go on where
 *   they were.
 * - A disk that refuses makes a gap for those that do not follow. For those that do it is held in memory,
 *   64 MiB for all commands together.
 */
struct atoll_reader;
struct atoll_reader_item {
    enum { ATOLL_READ_DATA = 1, ATOLL_READ_GAP, ATOLL_READ_END } kind;
    int stream;      /* DATA, GAP */
    uint64_t offset; /* DATA, GAP: of its first byte in the stream */
    uint64_t length;
    const uint8_t *data;                    /* DATA: good until the next call */
    const struct atoll_exec_result *result; /* END */
};
/* As an offset: what comes from now on. */
#define ATOLL_READ_FROM_END UINT64_MAX
/* `ready` is never called from within atoll_reader_open. */
int atoll_reader_open(struct atoll_exec *exec, uint64_t stdout_offset, uint64_t stderr_offset,
                      void (*ready)(void *arg), void *arg, struct atoll_reader **ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* 1: *ret is the next piece; 0: nothing more right now, `ready` will be called; -errno. After END
 * there is nothing more. */
int atoll_reader_next(struct atoll_reader *reader, struct atoll_reader_item *ret) ATOLL_MUST_CHECK;
struct atoll_reader *atoll_reader_close(struct atoll_reader *reader);
/* This reader follows, from where it is now on. */
void atoll_reader_follow(struct atoll_reader *reader);
/* Of one that follows: what it was given so far is not needed any more, but for the last bytes of each
 * stream, at most ATOLL_READER_LESS_MAX. Not before they are where a daemon that dies cannot lose
 * them. */
#define ATOLL_READER_LESS_MAX 3
void atoll_reader_forget(struct atoll_reader *reader, size_t stdout_less, size_t stderr_less);

/* --- files: paths are looked up inside the sandbox, as the user (NULL: the default one). "+NAME"
 * means that relative paths and new files are NAME's, but access is root's --- */

typedef void atoll_entry_fn(void *arg, const struct atoll_am_entry *entry,
                            const struct atoll_error *error);
void atoll_files_stat(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_entry_fn *done, void *arg);
/* The same with what links lead to and with attributes whose names begin with `attributes`
 * ("user.…"), as atoll_am_entry has them. */
void atoll_files_look(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      const char *attributes, atoll_entry_fn *done, void *arg);
/* Walks an entry's attributes: start with *pos = 0; false at the end. */
bool atoll_entry_attribute(const struct atoll_am_entry *entry, size_t *pos, const char **ret_name,
                           const char **ret_value);
void atoll_files_mkdir(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       atoll_entry_fn *done, void *arg);
void atoll_files_move(struct atoll_engine *e, const char *id, const char *user, const char *from,
                      const char *to, atoll_entry_fn *done, void *arg);
void atoll_files_remove(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        bool recursive, atoll_done_fn *done, void *arg);
void atoll_files_chmod(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       uint32_t mode, atoll_done_fn *done, void *arg);
/* `each` is called per entry, then done once. */
void atoll_files_list(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      uint32_t depth, void (*each)(void *arg, const struct atoll_am_entry *entry),
                      atoll_done_fn *done, void *arg);
/* The same with what atoll_files_look() tells. */
void atoll_files_list_look(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, uint32_t depth, const char *attributes,
                           void (*each)(void *arg, const struct atoll_am_entry *entry),
                           atoll_done_fn *done, void *arg);

void atoll_files_chown(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       const char *owner, const char *group, atoll_done_fn *done, void *arg);
/* Makes the symbolic link `path`; its target is any text. */
void atoll_files_symlink(struct atoll_engine *e, const char *id, const char *user,
                         const char *target, const char *path, atoll_done_fn *done, void *arg);

/* Extended attributes; names with their "user." prefix, nothing else is allowed. */
void atoll_files_xattrs(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        void (*each)(void *arg, const char *name, const uint8_t *value, size_t n),
                        atoll_done_fn *done, void *arg);
void atoll_files_set_xattr(struct atoll_engine *e, const char *id, const char *user,
                           const char *path, const char *name, const uint8_t *value, size_t n,
                           atoll_done_fn *done, void *arg);
/* NOT_FOUND when there is none of that name. */
void atoll_files_remove_xattr(struct atoll_engine *e, const char *id, const char *user,
                              const char *path, const char *name, atoll_done_fn *done, void *arg);

/* Changes in a directory, as they happen, for as long as somebody wants to know. */
struct atoll_file_watch;
struct atoll_file_watch_events {
    /* Called once, possibly before atoll_files_watch() returns; on an error there is no watch. */
    void (*started)(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error);
    /* name: relative to the directory, "" for itself. */
    void (*changed)(void *arg, enum atoll_watch_kind kind, const char *name);
    /* The sandbox is gone: nothing more comes. Still to be unwatched. */
    void (*ended)(void *arg);
};
void atoll_files_watch(struct atoll_engine *e, const char *id, const char *user, const char *path,
                       bool recursive, const struct atoll_file_watch_events *events, void *arg);
/* No callback comes after this. Accepts NULL. */
struct atoll_file_watch *atoll_files_unwatch(struct atoll_file_watch *watch);

/* The opened regular file, which the callback owns, and its size. */
typedef void atoll_opened_fn(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                             const struct atoll_error *error);
void atoll_files_open(struct atoll_engine *e, const char *id, const char *user, const char *path,
                      atoll_opened_fn *done, void *arg);

/* An upload: write to it, then finish (atomic replace) or drop. */
struct atoll_upload;
typedef void atoll_upload_fn(void *arg, struct atoll_upload *upload,
                             const struct atoll_error *error);
void atoll_files_create(struct atoll_engine *e, const char *id, const char *user, const char *path,
                        uint32_t mode, atoll_upload_fn *done, void *arg);
/* The same without the atomic replace: the file is truncated and written where it is, as programs
 * that watch it may expect. Of a dropped upload nothing stays, but an old file stays empty. */
void atoll_files_rewrite(struct atoll_engine *e, const char *id, const char *user, const char *path,
                         uint32_t mode, atoll_upload_fn *done, void *arg);
/* As atoll_files_create() with all of the contents, which are borrowed until its callback. */
void atoll_files_put(struct atoll_engine *e, const char *id, const char *user, const char *path,
                     uint32_t mode, const void *bytes, size_t n, atoll_entry_fn *done, void *arg);
/* Called from the loop after a write that returned 1. */
void atoll_upload_on_ready(struct atoll_upload *upload, void (*fn)(void *arg), void *arg);
/* Takes the bytes; a worker writes them later. 1: on_ready follows, and nothing more should come before.
 * -ENOSPC and what else the file says, also of what was taken before. */
int atoll_upload_write(struct atoll_upload *upload, const uint8_t *bytes,
                       size_t n) ATOLL_MUST_CHECK;
/* What a write returned, in words for the client. */
int atoll_upload_fail(int r, struct atoll_error *err);
/* Errors of writes are told here as well. */
void atoll_upload_finish(struct atoll_upload *upload, atoll_entry_fn *done, void *arg);
void atoll_upload_drop(struct atoll_upload *upload);

/* --- ports: a connection to what listens inside, however the sandbox's network is --- */

/* fd: a connected stream socket the callback owns; closed by atoll_engine_discard(). UNAVAILABLE when
 * nothing listens there. */
typedef void atoll_connected_fn(void *arg, int fd, const struct atoll_error *error);
void atoll_engine_connect(struct atoll_engine *engine, const char *id, uint16_t port,
                          atoll_connected_fn *done, void *arg);
/* Closes a descriptor that came out of that sandbox, which may be gone: never on the loop's thread. */
void atoll_engine_discard(struct atoll_engine *engine, const char *id, int fd);
/* Descriptors of sandboxes and the work on them; all 0 where the loop does it. */
struct atoll_offload_counts atoll_engine_offload(const struct atoll_engine *engine);

/* --- events: every change of state is one --- */

struct atoll_event {
    uint64_t id; /* grows by one with each */
    int64_t unix_ms;
    const char
        *kind; /* "sandbox.created", "sandbox.failed", "sandbox.recreated", "sandbox.destroyed",
                         "sandbox.expired", "sandbox.budget_spent", "sandbox.snapshot",
                         "provider.pull_progress", "exec.started", "exec.ended" */
    const char *sandbox_id, *owner;
    const char *exec_id; /* "" where there is none */
    const char *detail;  /* a few words: the cause, how it ended; "" */
};
struct atoll_subscription;
/* Calls fn for every event after the id `after` (UINT64_MAX: only new ones), first those that are
 * kept (the last 4096, those of earlier daemons included), from the loop and never from inside this call. */
struct atoll_subscription *atoll_events_subscribe(struct atoll_engine *engine, uint64_t after,
                                                  void (*fn)(void *arg,
                                                             const struct atoll_event *event),
                                                  void *arg);
struct atoll_subscription *atoll_events_unsubscribe(struct atoll_subscription *subscription);

/* --- templates --- */

struct atoll_template_view {
    const char *name;
    enum atoll_template_kind kind;
    const char *digest; /* "" for host */
    uint64_t size_bytes;
    int64_t created_unix_ms;
    const char *owner;    /* the only tenant that has it; NULL or "": it is everybody's */
    const char *provider; /* IMAGE: who keeps it; else NULL or "" */
};
/* Walks them, every tenant's: start with *pos = 0; false at the end. */
bool atoll_templates_next(struct atoll_engine *engine, size_t *pos,
                          struct atoll_template_view *ret);
/* What the name means to that tenant: one of its own, else everybody's. False: nothing. */
bool atoll_templates_find(struct atoll_engine *engine, const char *tenant, const char *name,
                          struct atoll_template_view *ret);

/* An import: a tar stream (plain, gzip, xz or zstd) is unpacked inside a sandbox made for it. */
struct atoll_import;
typedef void atoll_import_fn(void *arg, struct atoll_import *import,
                             const struct atoll_error *error);
void atoll_templates_import(struct atoll_engine *engine, const char *name, atoll_import_fn *ready,
                            void *arg);
/* The next bytes of the archive; done when more can be taken. */
void atoll_import_write(struct atoll_import *import, const uint8_t *bytes, size_t n,
                        atoll_done_fn *done, void *arg);
typedef void atoll_template_fn(void *arg, const struct atoll_template_view *view,
                               const struct atoll_error *error);
/* End of the archive; the template exists when done comes without an error. Frees the import. */
void atoll_import_finish(struct atoll_import *import, atoll_template_fn *done, void *arg);
void atoll_import_drop(struct atoll_import *import);
/* owner: as in the view. FAILED_PRECONDITION while sandboxes of it live. */
void atoll_templates_remove(struct atoll_engine *engine, const char *owner, const char *name,
                            atoll_done_fn *done, void *arg);

/* A build: everybody's template from a Dockerfile and the files beside it, made and kept by a provider. */
struct atoll_build;
struct atoll_build_request {
    const char *name;
    const char *provider;       /* NULL: the first that can */
    const char *dockerfile;     /* its path in the archive; NULL: Dockerfile */
    enum atoll_network network; /* of its steps: NONE or BRIDGE */
    uint64_t memory_bytes;      /* for each of them; 0: 2 GiB */
};
/* UNIMPLEMENTED where nobody can, and as for imports. */
int atoll_build_start(struct atoll_engine *engine, const struct atoll_build_request *request,
                      struct atoll_build **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The next bytes of the files as a tar archive; done when more can be taken, with what went wrong if the
 * build has failed already. */
void atoll_build_write(struct atoll_build *build, const uint8_t *bytes, size_t n,
                       atoll_done_fn *done, void *arg);
/* End of the archive. `said` for every line of the build's output, from the loop; then done, once, and
 * the build is gone. */
void atoll_build_finish(struct atoll_build *build, void (*said)(void *arg, const char *line),
                        atoll_template_fn *done, void *arg);
/* Gives it up, before or after atoll_build_finish(); nothing is called any more. */
void atoll_build_drop(struct atoll_build *build);

/* What is on the disk of a running sandbox becomes a template that its owner alone has. */
void atoll_engine_snapshot(struct atoll_engine *engine, const char *sandbox_id, const char *name,
                           atoll_template_fn *done, void *arg);

/* --- volumes: made by the sandbox that first mounts them, and there until they are removed --- */

struct atoll_volume_view {
    const char *name, *provider;
    int64_t created_unix_ms; /* 0: not known */
};
/* provider NULL: the first that has such a thing. UNIMPLEMENTED. */
void atoll_volumes_list(struct atoll_engine *engine, const char *tenant, const char *provider,
                        void (*each)(void *arg, const struct atoll_volume_view *view),
                        atoll_done_fn *done, void *arg);
/* NOT_FOUND, FAILED_PRECONDITION. */
void atoll_volumes_remove(struct atoll_engine *engine, const char *tenant, const char *provider,
                          const char *name, atoll_done_fn *done, void *arg);
