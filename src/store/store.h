#pragma once
#include "base/error.h"

/*
 * What must survive the death of the daemon: one row per sandbox, one per command. Each call is one
 * transaction and is safe against kill -9 when it returns.
 * Blocking: tens of microseconds. Thread: the loop's.
 * Rows borrow their strings for the call.
 */
struct atoll_store;

struct atoll_store_sandbox {
    const char *id, *owner, *template_name;
    const char *metadata_json; /* NULL: none */
    const char *facade_json;   /* NULL: none */
    const char *cause;
    int state; /* the engine's number */
    bool hidden, pooled, persistent;
    uint32_t outside_id, waived;
    uint64_t memory_bytes, disk_bytes, inodes;
    uint32_t cpu_millis, pids, open_files, timeout_s;
    uint64_t boot_us;
    int64_t created_unix_ms, expires_unix_ms;
    uint32_t idle_s, lease_s, cpu_budget_s;
    int at_deadline; /* the engine's number */
    uint64_t output_budget_bytes;
    bool connection_lease;
    int64_t paused_unix_ms;        /* 0: it runs */
    const char *provider, *handle; /* who made it, and what it is called there */
    const char *image;             /* "": it runs a template */
    int network;                   /* the engine's number */
    bool recreate;
    const char *mounts;          /* the engine's text; NULL or "": none */
    const char *layer;           /* of its root, as it was made; "" for the host's */
    uint64_t cpu_spent_us;       /* before its last start */
    uint64_t output_spent_bytes; /* of commands that have no row any more */
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
    int kind; /* how it ended; 0: it runs */
    int code, signal;
    const char *reason, *oom_process;
    uint64_t user_us, system_us, max_rss_bytes;
    uint32_t oom_kills, oom_pid;
    uint64_t oom_peak_bytes, oom_limit_bytes, stdout_bytes, stderr_bytes;
    int64_t duration_ms;
};

/* SQLite in dir_fd. FAILED_PRECONDITION when a newer version wrote it. */
int atoll_store_open_sqlite(int dir_fd, struct atoll_store **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_store *atoll_store_close(struct atoll_store *store);
/* The write-ahead log is emptied into the database when it has half of this, and stays below twice
 * this much under load. It grows further only while the disk takes no checkpoint. */
#define ATOLL_STORE_LOG_BYTES (4 * 1024 * 1024)
/* Bytes of the database's file and of its write-ahead log. */
void atoll_store_sizes(struct atoll_store *store, uint64_t *ret_bytes, uint64_t *ret_log_bytes);
/* Whether it takes a write: it took the last one, else one is tried. */
int atoll_store_check(struct atoll_store *store, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds the row, or replaces the one of the same id. */
int atoll_store_put_sandbox(struct atoll_store *store, const struct atoll_store_sandbox *row,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Its contexts, what was to be kept of it and the first of its commands go with it. Absent is success.
 * 1: commands of it are left, for atoll_store_drop_execs(); 0: none is. */
int atoll_store_drop_sandbox(struct atoll_store *store, const char *id,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Some commands of a sandbox that was dropped, few enough for one turn of the loop; returns as above. */
int atoll_store_drop_execs(struct atoll_store *store, const char *sandbox_id,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* All commands of sandboxes that are not there: left by a daemon that died between the two. */
int atoll_store_sweep_execs(struct atoll_store *store, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_put_exec(struct atoll_store *store, const struct atoll_store_exec *row,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_store_drop_exec(struct atoll_store *store, const char *sandbox_id, const char *id,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Every row; fn returns < 0 to stop, which is returned. fn must not write. */
int atoll_store_each_sandbox(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_sandbox *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
/* In the order they started. */
int atoll_store_each_exec(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_exec *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
