#include "store/waiting.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_waiting, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("tenant", TEXT, tenant),
    COLUMN("build", TEXT, build),
    COLUMN("request", SEALED, request),
    COLUMN("state", TEXT, state),
    COLUMN("reason", TEXT, reason),
    COLUMN("created_unix_ms", I64, created_unix_ms),
};
#undef COLUMN
static struct atoll_rows waiting = {.table = "waiting_sandboxes",
                                    .rest = "ORDER BY created_unix_ms, id",
                                    .columns = columns,
                                    .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_waiting(struct atoll_store *store, const struct atoll_store_waiting *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(store, &waiting, row, err);
}

int atoll_store_drop_waiting(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM waiting_sandboxes WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}

int atoll_store_each_waiting(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_waiting *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_waiting row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &waiting, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
