#include "store/store.h"

#include <errno.h>
#include "store/ended.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sealed.h"

#define DROP_AT_ONCE 64 /* commands in one transaction, about a millisecond */

int atoll_store_open_sqlite(int dir_fd, struct atoll_store **ret, struct atoll_error *err)
{
    struct atoll_db *db;
    int r = atoll_db_open(dir_fd, "atoll.db", &db, err);

    if (r < 0)
        return r;
    r = atoll_sealed_open(db, dir_fd, err);
    if (r == 0)
        *ret = (struct atoll_store *)db;
    else
        (void)atoll_db_close(db);
    return r;
}

int atoll_store_renew_key(int dir_fd, struct atoll_error *err)
{
    struct atoll_db *db;
    int r = atoll_db_open(dir_fd, "atoll.db", &db, err);

    if (r < 0)
        return r;
    r = atoll_sealed_renew(db, dir_fd, err);
    (void)atoll_db_close(db);
    return r;
}

const struct atoll_seal *atoll_store_seal(struct atoll_store *store)
{
    return atoll_db_seal(atoll_db_of(store));
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
    COLUMN("history_bytes", I64, history_bytes),
    COLUMN("layer", TEXT, layer),
    COLUMN("layers", TEXT, layers),
    COLUMN("version", TEXT, version),
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
    COLUMN("network_policy", SEALED, options.network_json),
    COLUMN("tool_policy", SEALED, options.tool_policy_json),
    COLUMN("credential", SEALED, options.credential),
    COLUMN("recreate", BOOL, options.recreate),
    COLUMN("checkpoints", BOOL, options.checkpoints),
    COLUMN("disk_choice", I32, options.disk_choice),
    COLUMN("name", NTEXT, options.name),
    COLUMN("workdir", NTEXT, options.workdir),
    COLUMN("user", NTEXT, options.user),
    COLUMN("read_only", BOOL, options.read_only),
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
                                  .rest = "WHERE sandbox_id IN (SELECT id FROM sandboxes)"
                                          " ORDER BY started_unix_ms",
                                  .columns = exec_columns,
                                  .count = ATOLL_ARRAY_LEN(exec_columns)};
static struct atoll_rows ended_execs = {.table = "execs",
                                        .rest = "WHERE sandbox_id = ? ORDER BY started_unix_ms, id",
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
static int drop_some_execs(struct atoll_db *db, const char *id, int64_t from_unix_ms,
                           struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM execs WHERE sandbox_id = ?1 AND id IN"
        " (SELECT id FROM execs WHERE sandbox_id = ?1 AND started_unix_ms < ?3 LIMIT ?2)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    atoll_db_bind_i64(stmt, 2, DROP_AT_ONCE);
    atoll_db_bind_i64(stmt, 3, from_unix_ms);
    r = atoll_db_run(db, stmt, err);
    return r < 0 ? r : atoll_db_changes(db) == DROP_AT_ONCE;
}

/* About the size of a row beside its long texts. */
#define ROW_BYTES "400"

static int put_ended(struct atoll_db *db, const char *id, const struct atoll_store_end *end,
                     int64_t execs_from_unix_ms, struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO ended (id, owner, ended_unix_ms, size_bytes, created_unix_ms,"
        " session_id, environment, name, template, image, provider, how, ended_by, cause, boot_us,"
        " persistent, network, waived, memory_bytes, disk_bytes, inodes, cpu_millis, pids,"
        " open_files, timeout_s, io_bytes, metadata, agent_config, facade)"
        " SELECT s.id, s.owner, ?2, " ROW_BYTES " + coalesce(length(s.metadata), 0)"
        " + coalesce(length(x.agent_config), 0) + coalesce(length(?7), 0)"
        " + (SELECT coalesce(sum(" ROW_BYTES " + length(argv)), 0) FROM execs"
        "    WHERE sandbox_id = ?1 AND started_unix_ms >= ?3),"
        " s.created_unix_ms, coalesce(x.id, ''), coalesce(x.environment, ''), s.name, s.template,"
        " s.image, s.provider, ?4, ?5, ?6, s.boot_us, s.persistent, s.network, s.waived,"
        " s.memory_bytes, s.disk_bytes, s.inodes, s.cpu_millis, s.pids, s.open_files, s.timeout_s,"
        " s.io_bytes, s.metadata, x.agent_config, ?7"
        " FROM sandboxes s LEFT JOIN sessions x ON x.sandbox_id = s.id WHERE s.id = ?1";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    atoll_db_bind_i64(stmt, 2, end->unix_ms);
    atoll_db_bind_i64(stmt, 3, execs_from_unix_ms);
    atoll_db_bind_text(stmt, 4, end->end);
    atoll_db_bind_text(stmt, 5, end->ended_by);
    atoll_db_bind_text(stmt, 6, end->cause);
    atoll_db_bind_text(stmt, 7, end->facade_json);
    return atoll_db_run(db, stmt, err);
}

/* end NULL: without a record. */
static int drop_sandbox(struct atoll_db *db, const char *id, const struct atoll_store_end *end,
                        int64_t execs_from_unix_ms, struct atoll_error *err)
{
    static const char drop_contexts[] = "DELETE FROM contexts WHERE sandbox_id = ?";
    static const char drop_request[] = "DELETE FROM artifact_wishes WHERE sandbox_id = ?";
    static const char drop_checkpoints[] = "DELETE FROM checkpoints WHERE sandbox_id = ?";
    static const char drop_tool_calls[] = "DELETE FROM tool_calls WHERE sandbox_id = ?";
    static const char drop_row[] = "DELETE FROM sandboxes WHERE id = ?";
    int more = 0, r = atoll_db_begin(db, "drop_sandbox", err);

    if (r < 0)
        return r;
    if (end)
        r = put_ended(db, id, end, execs_from_unix_ms, err);
    if (r == 0)
        more = drop_some_execs(db, id, end ? execs_from_unix_ms : INT64_MAX, err);
    if (r == 0)
        r = more < 0 ? more : atoll_db_run_with(db, drop_contexts, id, NULL, err);
    if (r == 0)
        r = atoll_db_run_with(db, drop_request, id, NULL, err);
    if (r == 0)
        r = atoll_db_run_with(db, drop_checkpoints, id, NULL, err);
    if (r == 0 && !end)
        r = atoll_db_run_with(db, drop_tool_calls, id, NULL, err);
    if (r == 0)
        r = atoll_db_run_with(db, drop_row, id, NULL, err);
    r = atoll_db_end(db, r, err);
    return r < 0 ? r : more;
}

int atoll_store_drop_sandbox(struct atoll_store *store, const char *id,
                             const struct atoll_store_end *end, int64_t execs_from_unix_ms,
                             struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = drop_sandbox(db, id, end, execs_from_unix_ms, err);

    return r < 0 && atoll_db_use_reserve(db) ? drop_sandbox(db, id, NULL, 0, err) : r;
}

int atoll_store_drop_execs(struct atoll_store *store, const char *sandbox_id,
                           int64_t execs_from_unix_ms, struct atoll_error *err)
{
    return drop_some_execs(atoll_db_of(store), sandbox_id, execs_from_unix_ms, err);
}

int atoll_store_sweep_execs(struct atoll_store *store, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM execs WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)"
                              " AND sandbox_id NOT IN (SELECT id FROM ended)";
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

static int each_exec(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt *stmt,
                     int (*fn)(void *arg, const struct atoll_store_exec *row,
                               struct atoll_error *err),
                     void *arg, struct atoll_error *err)
{
    struct atoll_store_exec row = {0};
    int r = 0;

    while ((r = atoll_rows_next(store, rows, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}

int atoll_store_each_exec(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_exec *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err)
{
    return each_exec(store, &execs, NULL, fn, arg, err);
}

int atoll_store_each_ended_exec(struct atoll_store *store, const char *sandbox_id,
                                int (*fn)(void *arg, const struct atoll_store_exec *row,
                                          struct atoll_error *err),
                                void *arg, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(store, &ended_execs, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    return each_exec(store, &ended_execs, stmt, fn, arg, err);
}
