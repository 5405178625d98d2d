#pragma once
#include "base/error.h"
#include "sandbox/options.h"

/*
 * The state that survives a crash of the daemon: one row per sandbox, one per command. Each call is
 * one transaction; when it returns, its effect survives kill -9.
 * Blocking: tens of microseconds. Thread: the loop's.
 * Rows borrow their strings for the call.
 */
struct atoll_seal;
struct atoll_store;

struct atoll_store_sandbox {
    const char *id, *owner, *template_name;
    const char *cause;
    int state; /* enum of the engine, stored as a number */
    bool hidden, pooled;
    uint32_t outside_id;
    uint64_t boot_us;
    int64_t created_unix_ms, expires_unix_ms;
    int64_t paused_unix_ms;        /* 0: not paused */
    const char *provider, *handle; /* provider that made it, and its handle there */
    const char *image;             /* "": made from a template */
    const char *mounts;            /* in the engine's text format; "": none */
    const char *version;   /* id of the template's version; "": host, or made before versions */
    const char *layer;     /* the only layer of a sandbox that an earlier version made; else "" */
    const char *layers;    /* its stack (sandbox/stack.h); "" and no layer: the host's files */
    uint64_t cpu_spent_us; /* CPU time used before its last start */
    uint64_t output_spent_bytes; /* output of commands whose rows were dropped */
    uint64_t history_bytes;      /* what its disk has for checkpoints, on top of its limit */
    /* Stored: metadata_json, facade_json, network, network_json, credential, lifetime,
     * recreate, checkpoints; limits and waived, which are
     * those that hold, defaults included. The other members are 0 when the row is read. */
    struct atoll_options options;
};

struct atoll_store_exec {
    const char *sandbox_id, *id;
    const void *argv; /* NUL-terminated strings, one after the other */
    size_t argv_len;
    uint64_t argv_left_out; /* bytes of the command line that are not in argv */
    const char *user, *cwd;
    bool pty, held;
    uint32_t pid;
    int64_t started_unix_ms;
    int kind; /* how it ended; 0: still running */
    int code, signal;
    const char *reason, *oom_process;
    uint64_t user_us, system_us, max_rss_bytes;
    uint32_t oom_kills, oom_pid;
    uint64_t oom_peak_bytes, oom_limit_bytes, stdout_bytes, stderr_bytes;
    int64_t duration_ms;
};

/* Opens the SQLite database in dir_fd, and the key of its sealed values, which is made with the
 * database. FAILED_PRECONDITION: a newer version of Atoll wrote it, or values are sealed with a key that
 * is not there. */
int atoll_store_open_sqlite(int dir_fd, struct atoll_store **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_store *atoll_store_close(struct atoll_store *store);
/* Deletes everything that is sealed with a key that is not there, so that the store can be opened. */
int atoll_store_renew_key(int dir_fd, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What seals values (store/seal.h); borrowed. */
const struct atoll_seal *atoll_store_seal(struct atoll_store *store);
/* A checkpoint of the write-ahead log starts when the log has half this size, and the log stays
 * below twice this size under load. It grows further only while the disk accepts no checkpoint. */
#define ATOLL_STORE_LOG_BYTES (4 * 1024 * 1024)
/* Sizes of the database file and of its write-ahead log. */
void atoll_store_sizes(struct atoll_store *store, uint64_t *ret_bytes, uint64_t *ret_log_bytes);
/* Whether the database accepts writes. If the last write failed, this tries one. */
int atoll_store_check(struct atoll_store *store, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_sandbox(struct atoll_store *store, const struct atoll_store_sandbox *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* How a sandbox ended, for its record (store/ended.h). */
struct atoll_store_end {
    const char *end;      /* kind of end: a name of the engine */
    const char *ended_by; /* who or what ended it */
    const char *cause;    /* why it had failed; "": it had not */
    int64_t unix_ms;
    const char *facade_json; /* what its facade keeps of it, or NULL */
};
/* Drops the sandbox's row with its contexts, its artifact request and some of its commands. end:
 * the row becomes a record, which keeps the commands that started at execs_from_unix_ms or later;
 * NULL: no record. On a full disk no record is made. Success also if there is no such row. Returns
 * 1 if rows of commands remain, for atoll_store_drop_execs(); else 0. */
int atoll_store_drop_sandbox(struct atoll_store *store, const char *id,
                             const struct atoll_store_end *end, int64_t execs_from_unix_ms,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops a batch of commands of a dropped sandbox, small enough for one turn of the loop. Returns
 * like atoll_store_drop_sandbox(). */
int atoll_store_drop_execs(struct atoll_store *store, const char *sandbox_id,
                           int64_t execs_from_unix_ms, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Drops all commands whose sandbox has neither a row nor a record. A daemon that died between the
 * two calls above left them. */
int atoll_store_sweep_execs(struct atoll_store *store, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_put_exec(struct atoll_store *store, const struct atoll_store_exec *row,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_drop_exec(struct atoll_store *store, const char *sandbox_id, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Calls fn for every row. A negative result of fn stops the walk and is returned. fn must not
 * write to the store. */
int atoll_store_each_sandbox(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_sandbox *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for commands of sandboxes that have a row, in the order they started. */
int atoll_store_each_exec(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_exec *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
