#include "store/store.h"

#include <errno.h>
#include "store/sqlite/rows.h"

#define DROP_AT_ONCE 64 /* commands in one transaction, about a millisecond */

int atoll_store_open_sqlite(int dir_fd, struct atoll_store **ret, struct atoll_error *err)
{
    struct atoll_db *db;
    int r = atoll_db_open(dir_fd, "atoll.db", &db, err);

    if (r == 0)
        *ret = (struct atoll_store *)db;
    return r;
}

struct atoll_store *atoll_store_close(struct atoll_store *store)
{
    (void)atoll_db_close(atoll_db_of(store));
    return NULL;
}

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_sandbox, name, type, member)
static const struct atoll_column sandbox_columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("owner", TEXT, owner),
    COLUMN("template", TEXT, template_name),
    COLUMN("cause", TEXT, cause),
    COLUMN("state", I32, state),
    COLUMN("hidden", BOOL, hidden),
    COLUMN("pooled", BOOL, pooled),
    COLUMN("outside_id", U32, outside_id),
    COLUMN("boot_us", I64, boot_us),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("expires_unix_ms", I64, expires_unix_ms),
    COLUMN("paused_unix_ms", I64, paused_unix_ms),
    COLUMN("cpu_spent_us", I64, cpu_spent_us),
    COLUMN("output_spent_bytes", I64, output_spent_bytes),
    COLUMN("layer", TEXT, layer),
    COLUMN("provider", TEXT, provider),
    COLUMN("handle", TEXT, handle),
    COLUMN("image", TEXT, image),
    COLUMN("mounts", TEXT, mounts),
    COLUMN("waived", U32, options.waived),
    COLUMN("memory_bytes", I64, options.limits.memory_bytes),
    COLUMN("disk_bytes", I64, options.limits.disk_bytes),
    COLUMN("inodes", I64, options.limits.inodes),
    COLUMN("cpu_millis", U32, options.limits.cpu_millis),
    COLUMN("pids", U32, options.limits.pids),
    COLUMN("open_files", U32, options.limits.open_files),
    COLUMN("timeout_s", U32, options.limits.timeout_s),
    COLUMN("io_bytes", I64, options.limits.io_bytes),
    COLUMN("persistent", BOOL, options.lifetime.persistent),
    COLUMN("idle_s", U32, options.lifetime.idle_s),
    COLUMN("lease_s", U32, options.lifetime.lease_s),
    COLUMN("cpu_budget_s", U32, options.lifetime.cpu_budget_s),
    COLUMN("at_deadline", I32, options.lifetime.at_deadline),
    COLUMN("output_budget_bytes", I64, options.lifetime.output_budget_bytes),
    COLUMN("connection_lease", BOOL, options.lifetime.connection_lease),
    COLUMN("network", I32, options.network),
    COLUMN("recreate", BOOL, options.recreate),
    COLUMN("name", NTEXT, options.name),
    COLUMN("workdir", NTEXT, options.workdir),
    COLUMN("metadata", NTEXT, options.metadata_json),
    COLUMN("facade", NTEXT, options.facade_json),
};
#undef COLUMN
static struct atoll_rows sandboxes = {.table = "sandboxes",
                                      .rest = "ORDER BY created_unix_ms",
                                      .columns = sandbox_columns,
                                      .count = ATOLL_ARRAY_LEN(sandbox_columns)};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_exec, name, type, member)
static const struct atoll_column exec_columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("id", TEXT, id),
    COLUMN("argv", BYTES, argv),
    COLUMN("argv_left_out", I64, argv_left_out),
    COLUMN("user", TEXT, user),
    COLUMN("cwd", TEXT, cwd),
    COLUMN("pty", BOOL, pty),
    COLUMN("held", BOOL, held),
    COLUMN("pid", U32, pid),
    COLUMN("started_unix_ms", I64, started_unix_ms),
    COLUMN("kind", I32, kind),
    COLUMN("code", I32, code),
    COLUMN("signal", I32, signal),
    COLUMN("reason", TEXT, reason),
    COLUMN("oom_process", TEXT, oom_process),
    COLUMN("user_us", I64, user_us),
    COLUMN("system_us", I64, system_us),
    COLUMN("max_rss_bytes", I64, max_rss_bytes),
    COLUMN("oom_kills", U32, oom_kills),
    COLUMN("oom_pid", U32, oom_pid),
    COLUMN("oom_peak_bytes", I64, oom_peak_bytes),
    COLUMN("oom_limit_bytes", I64, oom_limit_bytes),
    COLUMN("stdout_bytes", I64, stdout_bytes),
    COLUMN("stderr_bytes", I64, stderr_bytes),
    COLUMN("duration_ms", I64, duration_ms),
};
#undef COLUMN
static struct atoll_rows execs = {.table = "execs",
                                  .rest = "ORDER BY started_unix_ms",
                                  .columns = exec_columns,
                                  .count = ATOLL_ARRAY_LEN(exec_columns)};

int atoll_store_put_sandbox(struct atoll_store *store, const struct atoll_store_sandbox *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(store, &sandboxes, row, err);
}

int atoll_store_put_exec(struct atoll_store *store, const struct atoll_store_exec *row,
                         struct atoll_error *err)
{
    return atoll_rows_put(store, &execs, row, err);
}

/* Returns 1 if there may be more. */
static int drop_some_execs(struct atoll_db *db, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM execs WHERE sandbox_id = ?1 AND id IN"
                              " (SELECT id FROM execs WHERE sandbox_id = ?1 LIMIT ?2)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    atoll_db_bind_i64(stmt, 2, DROP_AT_ONCE);
    r = atoll_db_run(db, stmt, err);
    return r < 0 ? r : atoll_db_changes(db) == DROP_AT_ONCE;
}

static int drop_sandbox(struct atoll_db *db, const char *id, struct atoll_error *err)
{
    static const char drop_contexts[] = "DELETE FROM contexts WHERE sandbox_id = ?";
    static const char drop_request[] = "DELETE FROM artifact_wishes WHERE sandbox_id = ?";
    static const char drop_row[] = "DELETE FROM sandboxes WHERE id = ?";
    int more = 0, r = atoll_db_begin(db, "drop_sandbox", err);

    if (r < 0)
        return r;
    more = drop_some_execs(db, id, err);
    r = more < 0 ? more : atoll_db_run_with(db, drop_contexts, id, NULL, err);
    if (r == 0)
        r = atoll_db_run_with(db, drop_request, id, NULL, err);
    if (r == 0)
        r = atoll_db_run_with(db, drop_row, id, NULL, err);
    r = atoll_db_end(db, r, err);
    return r < 0 ? r : more;
}

int atoll_store_drop_sandbox(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = drop_sandbox(db, id, err);

    return r < 0 && atoll_db_use_reserve(db) ? drop_sandbox(db, id, err) : r;
}

int atoll_store_drop_execs(struct atoll_store *store, const char *sandbox_id,
                           struct atoll_error *err)
{
    return drop_some_execs(atoll_db_of(store), sandbox_id, err);
}

int atoll_store_sweep_execs(struct atoll_store *store, struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM execs WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)";
    return atoll_db_run_with(atoll_db_of(store), sql, NULL, NULL, err);
}

int atoll_store_drop_exec(struct atoll_store *store, const char *sandbox_id, const char *id,
                          struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM execs WHERE sandbox_id = ? AND id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, sandbox_id, id, err);
}

int atoll_store_each_sandbox(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_sandbox *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_sandbox row = {0};
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &sandboxes, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}

int atoll_store_each_exec(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_exec *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err)
{
    struct atoll_store_exec row = {0};
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &execs, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
