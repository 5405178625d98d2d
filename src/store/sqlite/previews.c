#include "store/previews.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_preview, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("port", U16, port),
    COLUMN("public", BOOL, is_public),
    COLUMN("token", TEXT, token),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("address", TEXT, address),
};
static struct atoll_rows previews = {.table = "previews",
                                     .rest = "ORDER BY sandbox_id, port",
                                     .columns = columns,
                                     .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_preview(struct atoll_store *store, const struct atoll_store_preview *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(store, &previews, row, err);
}

int atoll_store_drop_preview(struct atoll_store *store, const char *sandbox_id, uint16_t port,
                             struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM previews WHERE sandbox_id = ? AND port = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(atoll_db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    atoll_db_bind_i64(stmt, 2, port);
    return atoll_db_run(atoll_db_of(store), stmt, err);
}

int atoll_store_each_preview(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_preview *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_preview row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &previews, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
