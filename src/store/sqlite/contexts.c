#include "store/contexts.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_context, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("language", TEXT, language),
    COLUMN("cwd", TEXT, cwd),
    COLUMN("user", TEXT, user),
    COLUMN("exec_id", TEXT, exec_id),
    COLUMN("is_default", BOOL, is_default),
    COLUMN("is_busy", BOOL, is_busy),
    COLUMN("number", I64, number),
};
static struct atoll_rows contexts = {.table = "contexts",
                                     .rest = "ORDER BY number",
                                     .columns = columns,
                                     .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_context(struct atoll_store *store, const struct atoll_store_context *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(store, &contexts, row, err);
}

int atoll_store_drop_context(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM contexts WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}

int atoll_store_each_context(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_context *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_context row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &contexts, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
