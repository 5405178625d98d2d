#include "store/events.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_event, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", I64, id),          COLUMN("unix_ms", I64, unix_ms),
    COLUMN("kind", TEXT, kind),     COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("owner", TEXT, owner),   COLUMN("exec_id", TEXT, exec_id),
    COLUMN("detail", TEXT, detail),
};
static struct atoll_rows events = {.table = "events",
                                   .rest = "ORDER BY id",
                                   .columns = columns,
                                   .count = ATOLL_ARRAY_LEN(columns)};

static int drop(struct atoll_db *db, uint64_t through, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM events WHERE id <= ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_i64(stmt, 1, (int64_t)through);
    return atoll_db_run(db, stmt, err);
}

int atoll_store_put_events(struct atoll_store *store, const struct atoll_store_event *rows,
                           size_t count, uint64_t drop_through, struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "events", err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = atoll_rows_put(store, &events, &rows[i], err);
    if (r == 0 && drop_through > 0)
        r = drop(db, drop_through, err);
    return atoll_db_end(db, r, err);
}

int atoll_store_each_event(struct atoll_store *store,
                           int (*fn)(void *arg, const struct atoll_store_event *row,
                                     struct atoll_error *err),
                           void *arg, struct atoll_error *err)
{
    struct atoll_store_event row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &events, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
