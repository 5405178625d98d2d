#include "store/checkpoints.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_checkpoint, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("number", I64, number),
    COLUMN("exec_id", TEXT, exec_id),
    COLUMN("command", TEXT, command),
    COLUMN("started_unix_ms", I64, started_unix_ms),
    COLUMN("before_layers", TEXT, before),
    COLUMN("after_layers", TEXT, after),
    COLUMN("before_bytes", I64, before_bytes),
    COLUMN("after_bytes", I64, after_bytes),
    COLUMN("shared", BOOL, shared),
    COLUMN("counted", BOOL, counted),
    COLUMN("added", I64, added),
    COLUMN("changed", I64, changed),
    COLUMN("removed", I64, removed),
    COLUMN("bytes", I64, bytes),
};
static struct atoll_rows checkpoints = {.table = "checkpoints",
                                        .rest = "ORDER BY sandbox_id, number",
                                        .columns = columns,
                                        .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_checkpoint(struct atoll_store *store, const struct atoll_store_checkpoint *row,
                               struct atoll_error *err)
{
    return atoll_rows_put(store, &checkpoints, row, err);
}

int atoll_store_drop_checkpoints(struct atoll_store *store, const char *sandbox_id, uint64_t from,
                                 uint64_t to, struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM checkpoints WHERE sandbox_id = ? AND number BETWEEN ? AND ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(atoll_db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    atoll_db_bind_i64(stmt, 2, (int64_t)from);
    atoll_db_bind_i64(stmt, 3, (int64_t)to);
    return atoll_db_run(atoll_db_of(store), stmt, err);
}

int atoll_store_each_checkpoint(struct atoll_store *store,
                                int (*fn)(void *arg, const struct atoll_store_checkpoint *row,
                                          struct atoll_error *err),
                                void *arg, struct atoll_error *err)
{
    struct atoll_store_checkpoint row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &checkpoints, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
