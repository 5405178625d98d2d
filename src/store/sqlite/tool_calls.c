#include "store/tool_calls.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_tool_call, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("number", I64, number),
    COLUMN("id", TEXT, id),
    COLUMN("tenant", TEXT, tenant),
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("tool", TEXT, tool),
    COLUMN("arguments", TEXT, arguments),
    COLUMN("state", TEXT, state),
    COLUMN("decision", TEXT, decision),
    COLUMN("decided_by", TEXT, decided_by),
    COLUMN("reason", TEXT, reason),
    COLUMN("is_error", BOOL, is_error),
    COLUMN("result_bytes", I64, result_bytes),
    COLUMN("started_unix_ms", I64, started_unix_ms),
    COLUMN("waited_ms", I64, waited_ms),
    COLUMN("duration_ms", I64, duration_ms),
};
#undef COLUMN
#define ROWS(where)                                                 \
    {                                                               \
        .table = "tool_calls", .rest = (where), .columns = columns, \
        .count = ATOLL_ARRAY_LEN(columns)                           \
    }
static struct atoll_rows of_sandbox =
    ROWS("WHERE sandbox_id = ? AND number < ? ORDER BY number DESC LIMIT ?");
static struct atoll_rows of_tenant =
    ROWS("WHERE tenant = ? AND number < ? ORDER BY number DESC LIMIT ?");
static struct atoll_rows by_id = ROWS("WHERE id = ?");

int atoll_store_put_tool_call(struct atoll_store *store, const struct atoll_store_tool_call *row,
                              struct atoll_error *err)
{
    return atoll_rows_put(store, &by_id, row, err);
}

int atoll_store_settle_tool_calls(struct atoll_store *store, int64_t *ret_number,
                                  struct atoll_error *err)
{
    static const char canceled[] =
        "UPDATE tool_calls SET state = 'canceled', decision = 'deny', decided_by = 'restart',"
        " reason = 'the daemon ended while the call waited; it did not run'"
        " WHERE state = 'waiting'";
    static const char lost[] =
        "UPDATE tool_calls SET state = 'lost',"
        " reason = 'the daemon ended before the result was known' WHERE state = 'running'";
    static const char last[] = "SELECT coalesce(max(number), 0) FROM tool_calls";
    struct atoll_db *db = atoll_db_of(store);
    sqlite3_stmt *stmt;
    int r = atoll_db_run_with(db, canceled, NULL, NULL, err);

    if (r == 0)
        r = atoll_db_run_with(db, lost, NULL, NULL, err);
    if (r == 0)
        r = atoll_db_prepare(db, last, &stmt, err);
    if (r == 0)
        r = atoll_db_step(db, stmt, err);
    if (r < 0)
        return r;
    *ret_number = atoll_db_i64(stmt, 0);
    atoll_db_reset(stmt);
    return 0;
}

static int give(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt *stmt,
                atoll_store_tool_call_fn *fn, void *arg, struct atoll_error *err)
{
    struct atoll_store_tool_call row;
    int r = 0, count = 0;

    while ((r = atoll_rows_next(store, rows, &stmt, r, &row, err)) > 0) {
        r = fn(arg, &row, err);
        count++;
    }
    return r < 0 ? r : ATOLL_MIN(count, 1);
}

int atoll_store_each_tool_call(struct atoll_store *store, const char *tenant,
                               const char *sandbox_id, int64_t before, uint32_t most,
                               atoll_store_tool_call_fn *fn, void *arg, struct atoll_error *err)
{
    struct atoll_rows *rows = sandbox_id ? &of_sandbox : &of_tenant;
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(store, rows, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id ? sandbox_id : tenant);
    atoll_db_bind_i64(stmt, 2, before);
    atoll_db_bind_i64(stmt, 3, most);
    return ATOLL_MIN(give(store, rows, stmt, fn, arg, err), 0);
}

int atoll_store_find_tool_call(struct atoll_store *store, const char *id,
                               atoll_store_tool_call_fn *fn, void *arg, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(store, &by_id, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    return give(store, &by_id, stmt, fn, arg, err);
}

static int prune(struct atoll_db *db, const char *sql, const char *of, uint32_t most,
                 struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, of);
    atoll_db_bind_i64(stmt, 2, most);
    return atoll_db_run(db, stmt, err);
}

int atoll_store_prune_tool_calls(struct atoll_store *store, const char *tenant,
                                 const char *sandbox_id,
                                 const struct atoll_store_tool_calls_most *most,
                                 struct atoll_error *err)
{
    static const char sandbox_sql[] =
        "DELETE FROM tool_calls WHERE sandbox_id = ?1 AND number <= (SELECT number FROM tool_calls"
        " WHERE sandbox_id = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    static const char tenant_sql[] =
        "DELETE FROM tool_calls WHERE tenant = ?1 AND number <= (SELECT number FROM tool_calls"
        " WHERE tenant = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    static const char all_sql[] =
        "DELETE FROM tool_calls WHERE ?1 IS NULL AND number <= (SELECT number FROM tool_calls"
        " ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    struct atoll_db *db = atoll_db_of(store);
    int r = *sandbox_id ? prune(db, sandbox_sql, sandbox_id, most->of_sandbox, err) : 0;

    if (r == 0)
        r = prune(db, tenant_sql, tenant, most->of_tenant, err);
    return r < 0 ? r : prune(db, all_sql, NULL, most->all, err);
}

/* Policies. */

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_tool_policy, name, type, member)
static const struct atoll_column policy_columns[] = {
    COLUMN("tenant", TEXT, tenant),
    COLUMN("policy", SEALED, policy),
};
#undef COLUMN
static struct atoll_rows policies = {.table = "tool_policies",
                                     .rest = "ORDER BY tenant",
                                     .columns = policy_columns,
                                     .count = ATOLL_ARRAY_LEN(policy_columns)};

int atoll_store_put_tool_policy(struct atoll_store *store,
                                const struct atoll_store_tool_policy *row, struct atoll_error *err)
{
    return atoll_rows_put(store, &policies, row, err);
}

int atoll_store_drop_tool_policy(struct atoll_store *store, const char *tenant,
                                 struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM tool_policies WHERE tenant = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, tenant, NULL, err);
}

int atoll_store_each_tool_policy(struct atoll_store *store,
                                 int (*fn)(void *arg, const struct atoll_store_tool_policy *row,
                                           struct atoll_error *err),
                                 void *arg, struct atoll_error *err)
{
    struct atoll_store_tool_policy row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &policies, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
