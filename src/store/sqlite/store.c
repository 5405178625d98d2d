#include "store/store.h"

#include <errno.h>
#include "store/sqlite/rows.h"

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

#define AT(member) offsetof(struct atoll_store_sandbox, member)
static const struct atoll_column sandbox_columns[] = {
    {"id", ATOLL_COLUMN_TEXT, AT(id)},
    {"owner", ATOLL_COLUMN_TEXT, AT(owner)},
    {"template", ATOLL_COLUMN_TEXT, AT(template_name)},
    {"cause", ATOLL_COLUMN_TEXT, AT(cause)},
    {"state", ATOLL_COLUMN_I32, AT(state)},
    {"hidden", ATOLL_COLUMN_BOOL, AT(hidden)},
    {"pooled", ATOLL_COLUMN_BOOL, AT(pooled)},
    {"outside_id", ATOLL_COLUMN_U32, AT(outside_id)},
    {"boot_us", ATOLL_COLUMN_I64, AT(boot_us)},
    {"created_unix_ms", ATOLL_COLUMN_I64, AT(created_unix_ms)},
    {"expires_unix_ms", ATOLL_COLUMN_I64, AT(expires_unix_ms)},
    {"paused_unix_ms", ATOLL_COLUMN_I64, AT(paused_unix_ms)},
    {"cpu_spent_us", ATOLL_COLUMN_I64, AT(cpu_spent_us)},
    {"output_spent_bytes", ATOLL_COLUMN_I64, AT(output_spent_bytes)},
    {"layer", ATOLL_COLUMN_TEXT, AT(layer)},
    {"provider", ATOLL_COLUMN_TEXT, AT(provider)},
    {"handle", ATOLL_COLUMN_TEXT, AT(handle)},
    {"image", ATOLL_COLUMN_TEXT, AT(image)},
    {"mounts", ATOLL_COLUMN_TEXT, AT(mounts)},
    {"waived", ATOLL_COLUMN_U32, AT(options.waived)},
    {"memory_bytes", ATOLL_COLUMN_I64, AT(options.limits.memory_bytes)},
    {"disk_bytes", ATOLL_COLUMN_I64, AT(options.limits.disk_bytes)},
    {"inodes", ATOLL_COLUMN_I64, AT(options.limits.inodes)},
    {"cpu_millis", ATOLL_COLUMN_U32, AT(options.limits.cpu_millis)},
    {"pids", ATOLL_COLUMN_U32, AT(options.limits.pids)},
    {"open_files", ATOLL_COLUMN_U32, AT(options.limits.open_files)},
    {"timeout_s", ATOLL_COLUMN_U32, AT(options.limits.timeout_s)},
    {"io_bytes", ATOLL_COLUMN_I64, AT(options.limits.io_bytes)},
    {"persistent", ATOLL_COLUMN_BOOL, AT(options.lifetime.persistent)},
    {"idle_s", ATOLL_COLUMN_U32, AT(options.lifetime.idle_s)},
    {"lease_s", ATOLL_COLUMN_U32, AT(options.lifetime.lease_s)},
    {"cpu_budget_s", ATOLL_COLUMN_U32, AT(options.lifetime.cpu_budget_s)},
    {"at_deadline", ATOLL_COLUMN_I32, AT(options.lifetime.at_deadline)},
    {"output_budget_bytes", ATOLL_COLUMN_I64, AT(options.lifetime.output_budget_bytes)},
    {"connection_lease", ATOLL_COLUMN_BOOL, AT(options.lifetime.connection_lease)},
    {"network", ATOLL_COLUMN_I32, AT(options.network)},
    {"recreate", ATOLL_COLUMN_BOOL, AT(options.recreate)},
    {"name", ATOLL_COLUMN_NTEXT, AT(options.name)},
    {"metadata", ATOLL_COLUMN_NTEXT, AT(options.metadata_json)},
    {"facade", ATOLL_COLUMN_NTEXT, AT(options.facade_json)},
};
#undef AT
static struct atoll_rows sandboxes = {.table = "sandboxes",
                                      .order = "created_unix_ms",
                                      .columns = sandbox_columns,
                                      .count = ATOLL_ARRAY_LEN(sandbox_columns)};

#define AT(member) offsetof(struct atoll_store_exec, member)
static const struct atoll_column exec_columns[] = {
    {"sandbox_id", ATOLL_COLUMN_TEXT, AT(sandbox_id)},
    {"id", ATOLL_COLUMN_TEXT, AT(id)},
    {"argv", ATOLL_COLUMN_BYTES, AT(argv)},
    {"argv_left_out", ATOLL_COLUMN_I64, AT(argv_left_out)},
    {"user", ATOLL_COLUMN_TEXT, AT(user)},
    {"cwd", ATOLL_COLUMN_TEXT, AT(cwd)},
    {"pty", ATOLL_COLUMN_BOOL, AT(pty)},
    {"held", ATOLL_COLUMN_BOOL, AT(held)},
    {"pid", ATOLL_COLUMN_U32, AT(pid)},
    {"started_unix_ms", ATOLL_COLUMN_I64, AT(started_unix_ms)},
    {"kind", ATOLL_COLUMN_I32, AT(kind)},
    {"code", ATOLL_COLUMN_I32, AT(code)},
    {"signal", ATOLL_COLUMN_I32, AT(signal)},
    {"reason", ATOLL_COLUMN_TEXT, AT(reason)},
    {"oom_process", ATOLL_COLUMN_TEXT, AT(oom_process)},
    {"user_us", ATOLL_COLUMN_I64, AT(user_us)},
    {"system_us", ATOLL_COLUMN_I64, AT(system_us)},
    {"max_rss_bytes", ATOLL_COLUMN_I64, AT(max_rss_bytes)},
    {"oom_kills", ATOLL_COLUMN_U32, AT(oom_kills)},
    {"oom_pid", ATOLL_COLUMN_U32, AT(oom_pid)},
    {"oom_peak_bytes", ATOLL_COLUMN_I64, AT(oom_peak_bytes)},
    {"oom_limit_bytes", ATOLL_COLUMN_I64, AT(oom_limit_bytes)},
    {"stdout_bytes", ATOLL_COLUMN_I64, AT(stdout_bytes)},
    {"stderr_bytes", ATOLL_COLUMN_I64, AT(stderr_bytes)},
    {"duration_ms", ATOLL_COLUMN_I64, AT(duration_ms)},
};
#undef AT
static struct atoll_rows execs = {.table = "execs",
                                  .order = "started_unix_ms",
                                  .columns = exec_columns,
                                  .count = ATOLL_ARRAY_LEN(exec_columns)};

int atoll_store_put_sandbox(struct atoll_store *store, const struct atoll_store_sandbox *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(db_of(store), &sandboxes, row, err);
}

int atoll_store_put_exec(struct atoll_store *store, const struct atoll_store_exec *row,
                         struct atoll_error *err)
{
    return atoll_rows_put(db_of(store), &execs, row, err);
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

int atoll_store_drop_exec(struct atoll_store *store, const char *sandbox_id, const char *id,
                          struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM execs WHERE sandbox_id = ? AND id = ?";
    return run_with_ids(db_of(store), sql, sandbox_id, id, err);
}

int atoll_store_each_sandbox(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_sandbox *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_sandbox row = {0};
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(db_of(store), &sandboxes, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        atoll_rows_get(stmt, &sandboxes, &row);
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
    struct atoll_store_exec row = {0};
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(db_of(store), &execs, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        atoll_rows_get(stmt, &execs, &row);
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
