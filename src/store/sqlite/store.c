#include "store/store.h"

#include <errno.h>
#include "store/sqlite/db.h"

#define DROP_AT_ONCE 64 /* commands in one transaction, about a millisecond */

/* A store is an atoll_db. The opaque type keeps callers away from the functions of db.h. */
static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

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
    (void)atoll_db_close(db_of(store));
    return NULL;
}

/* The columns are in the order of the parameters: one list for writing and for reading. */
#define SANDBOX_COLUMNS                                                                         \
    "id, owner, template, metadata, facade, cause, state, hidden, pooled, outside_id, waived, " \
    "memory_bytes, disk_bytes, inodes, cpu_millis, pids, open_files, timeout_s, boot_us, "      \
    "created_unix_ms, expires_unix_ms, persistent, idle_s, lease_s, cpu_budget_s, "             \
    "at_deadline, output_budget_bytes, cpu_spent_us, output_spent_bytes, connection_lease, "    \
    "paused_unix_ms, network, recreate, io_bytes, layer, provider, handle, image, mounts"
#define EXEC_COLUMNS                                                                           \
    "sandbox_id, id, argv, user, cwd, pty, pid, started_unix_ms, kind, code, signal, reason, " \
    "oom_process, user_us, system_us, max_rss_bytes, oom_kills, oom_pid, oom_peak_bytes, "     \
    "oom_limit_bytes, stdout_bytes, stderr_bytes, duration_ms, held, argv_left_out"

int atoll_store_put_sandbox(struct atoll_store *store, const struct atoll_store_sandbox *row,
                            struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO sandboxes (" SANDBOX_COLUMNS
        ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    const int64_t numbers[] = {row->state,
                               row->hidden,
                               row->pooled,
                               row->outside_id,
                               row->waived,
                               (int64_t)row->memory_bytes,
                               (int64_t)row->disk_bytes,
                               (int64_t)row->inodes,
                               row->cpu_millis,
                               row->pids,
                               row->open_files,
                               row->timeout_s,
                               (int64_t)row->boot_us,
                               row->created_unix_ms,
                               row->expires_unix_ms,
                               row->persistent,
                               row->idle_s,
                               row->lease_s,
                               row->cpu_budget_s,
                               row->at_deadline,
                               (int64_t)row->output_budget_bytes,
                               (int64_t)row->cpu_spent_us,
                               (int64_t)row->output_spent_bytes,
                               row->connection_lease,
                               row->paused_unix_ms,
                               row->network,
                               row->recreate,
                               (int64_t)row->io_bytes};
    const char *const texts[] = {row->layer ? row->layer : "",
                                 row->provider ? row->provider : "native",
                                 row->handle ? row->handle : "", row->image ? row->image : "",
                                 row->mounts ? row->mounts : ""};
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->id);
    atoll_db_bind_text(stmt, 2, row->owner);
    atoll_db_bind_text(stmt, 3, row->template_name);
    atoll_db_bind_text(stmt, 4, row->metadata_json);
    atoll_db_bind_text(stmt, 5, row->facade_json);
    atoll_db_bind_text(stmt, 6, row->cause);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++)
        atoll_db_bind_i64(stmt, 7 + (int)i, numbers[i]);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        atoll_db_bind_text(stmt, 7 + (int)(ATOLL_ARRAY_LEN(numbers) + i), texts[i]);
    return atoll_db_run(db_of(store), stmt, err);
}

static int run_with_ids(struct atoll_db *db, const char *sql, const char *first, const char *second,
                        struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, first);
    if (second)
        atoll_db_bind_text(stmt, 2, second);
    return atoll_db_run(db, stmt, err);
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
    r = more < 0 ? more : run_with_ids(db, drop_contexts, id, NULL, err);
    if (r == 0)
        r = run_with_ids(db, drop_request, id, NULL, err);
    if (r == 0)
        r = run_with_ids(db, drop_row, id, NULL, err);
    if (r == 0)
        r = atoll_db_commit(db, err);
    if (r < 0)
        atoll_db_rollback(db);
    return r < 0 ? r : more;
}

int atoll_store_drop_sandbox(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    struct atoll_db *db = db_of(store);
    int r = drop_sandbox(db, id, err);

    return r < 0 && atoll_db_use_reserve(db) ? drop_sandbox(db, id, err) : r;
}

int atoll_store_drop_execs(struct atoll_store *store, const char *sandbox_id,
                           struct atoll_error *err)
{
    return drop_some_execs(db_of(store), sandbox_id, err);
}

int atoll_store_sweep_execs(struct atoll_store *store, struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM execs WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    return r < 0 ? r : atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_put_exec(struct atoll_store *store, const struct atoll_store_exec *row,
                         struct atoll_error *err)
{
    static const char sql[] = "INSERT OR REPLACE INTO execs (" EXEC_COLUMNS
                              ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
    const int64_t before[] = {row->pty,  row->pid,  row->started_unix_ms,
                              row->kind, row->code, row->signal};
    const int64_t after[] = {(int64_t)row->user_us,
                             (int64_t)row->system_us,
                             (int64_t)row->max_rss_bytes,
                             row->oom_kills,
                             row->oom_pid,
                             (int64_t)row->oom_peak_bytes,
                             (int64_t)row->oom_limit_bytes,
                             (int64_t)row->stdout_bytes,
                             (int64_t)row->stderr_bytes,
                             row->duration_ms,
                             row->held,
                             (int64_t)row->argv_left_out};
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->sandbox_id);
    atoll_db_bind_text(stmt, 2, row->id);
    atoll_db_bind_bytes(stmt, 3, row->argv, row->argv_len);
    atoll_db_bind_text(stmt, 4, row->user);
    atoll_db_bind_text(stmt, 5, row->cwd);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(before); i++)
        atoll_db_bind_i64(stmt, 6 + (int)i, before[i]);
    atoll_db_bind_text(stmt, 12, row->reason);
    atoll_db_bind_text(stmt, 13, row->oom_process);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(after); i++)
        atoll_db_bind_i64(stmt, 14 + (int)i, after[i]);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_drop_exec(struct atoll_store *store, const char *sandbox_id, const char *id,
                          struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM execs WHERE sandbox_id = ? AND id = ?";
    return run_with_ids(db_of(store), sql, sandbox_id, id, err);
}

static const char *text_or_null(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_type(stmt, column) == SQLITE_NULL ? NULL : atoll_db_text(stmt, column);
}

int atoll_store_each_sandbox(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_sandbox *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT " SANDBOX_COLUMNS " FROM sandboxes ORDER BY created_unix_ms";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        struct atoll_store_sandbox row = {
            .id = atoll_db_text(stmt, 0),
            .owner = atoll_db_text(stmt, 1),
            .template_name = atoll_db_text(stmt, 2),
            .metadata_json = text_or_null(stmt, 3),
            .facade_json = text_or_null(stmt, 4),
            .cause = atoll_db_text(stmt, 5),
            .state = (int)atoll_db_i64(stmt, 6),
            .hidden = atoll_db_i64(stmt, 7) != 0,
            .pooled = atoll_db_i64(stmt, 8) != 0,
            .outside_id = (uint32_t)atoll_db_i64(stmt, 9),
            .waived = (uint32_t)atoll_db_i64(stmt, 10),
            .memory_bytes = (uint64_t)atoll_db_i64(stmt, 11),
            .disk_bytes = (uint64_t)atoll_db_i64(stmt, 12),
            .inodes = (uint64_t)atoll_db_i64(stmt, 13),
            .cpu_millis = (uint32_t)atoll_db_i64(stmt, 14),
            .pids = (uint32_t)atoll_db_i64(stmt, 15),
            .open_files = (uint32_t)atoll_db_i64(stmt, 16),
            .timeout_s = (uint32_t)atoll_db_i64(stmt, 17),
            .boot_us = (uint64_t)atoll_db_i64(stmt, 18),
            .created_unix_ms = atoll_db_i64(stmt, 19),
            .expires_unix_ms = atoll_db_i64(stmt, 20),
            .persistent = atoll_db_i64(stmt, 21) != 0,
            .idle_s = (uint32_t)atoll_db_i64(stmt, 22),
            .lease_s = (uint32_t)atoll_db_i64(stmt, 23),
            .cpu_budget_s = (uint32_t)atoll_db_i64(stmt, 24),
            .at_deadline = (int)atoll_db_i64(stmt, 25),
            .output_budget_bytes = (uint64_t)atoll_db_i64(stmt, 26),
            .cpu_spent_us = (uint64_t)atoll_db_i64(stmt, 27),
            .output_spent_bytes = (uint64_t)atoll_db_i64(stmt, 28),
            .connection_lease = atoll_db_i64(stmt, 29) != 0,
            .paused_unix_ms = atoll_db_i64(stmt, 30),
            .network = (int)atoll_db_i64(stmt, 31),
            .recreate = atoll_db_i64(stmt, 32) != 0,
            .io_bytes = (uint64_t)atoll_db_i64(stmt, 33),
            .layer = atoll_db_text(stmt, 34),
            .provider = atoll_db_text(stmt, 35),
            .handle = atoll_db_text(stmt, 36),
            .image = atoll_db_text(stmt, 37),
            .mounts = atoll_db_text(stmt, 38),
        };
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}

int atoll_store_each_exec(struct atoll_store *store,
                          int (*fn)(void *arg, const struct atoll_store_exec *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT " EXEC_COLUMNS " FROM execs ORDER BY started_unix_ms";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        struct atoll_store_exec row = {
            .sandbox_id = atoll_db_text(stmt, 0),
            .id = atoll_db_text(stmt, 1),
            .argv = sqlite3_column_blob(stmt, 2),
            .argv_len = (size_t)sqlite3_column_bytes(stmt, 2),
            .user = atoll_db_text(stmt, 3),
            .cwd = atoll_db_text(stmt, 4),
            .pty = atoll_db_i64(stmt, 5) != 0,
            .pid = (uint32_t)atoll_db_i64(stmt, 6),
            .started_unix_ms = atoll_db_i64(stmt, 7),
            .kind = (int)atoll_db_i64(stmt, 8),
            .code = (int)atoll_db_i64(stmt, 9),
            .signal = (int)atoll_db_i64(stmt, 10),
            .reason = atoll_db_text(stmt, 11),
            .oom_process = atoll_db_text(stmt, 12),
            .user_us = (uint64_t)atoll_db_i64(stmt, 13),
            .system_us = (uint64_t)atoll_db_i64(stmt, 14),
            .max_rss_bytes = (uint64_t)atoll_db_i64(stmt, 15),
            .oom_kills = (uint32_t)atoll_db_i64(stmt, 16),
            .oom_pid = (uint32_t)atoll_db_i64(stmt, 17),
            .oom_peak_bytes = (uint64_t)atoll_db_i64(stmt, 18),
            .oom_limit_bytes = (uint64_t)atoll_db_i64(stmt, 19),
            .stdout_bytes = (uint64_t)atoll_db_i64(stmt, 20),
            .stderr_bytes = (uint64_t)atoll_db_i64(stmt, 21),
            .duration_ms = atoll_db_i64(stmt, 22),
            .held = atoll_db_i64(stmt, 23) != 0,
            .argv_left_out = (uint64_t)atoll_db_i64(stmt, 24),
        };
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
