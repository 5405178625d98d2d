#include "store/tasks.h"

#include <string.h>
#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_task, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("tenant", TEXT, tenant),
    COLUMN("kind", TEXT, kind),
    COLUMN("state", TEXT, state),
    COLUMN("step", TEXT, step),
    COLUMN("attempt", U32, attempt),
    COLUMN("request", SEALED, request),
    COLUMN("facts", TEXT, facts),
    COLUMN("error_kind", TEXT, error_kind),
    COLUMN("error", TEXT, error),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("started_unix_ms", I64, started_unix_ms),
    COLUMN("ended_unix_ms", I64, ended_unix_ms),
};
#undef COLUMN
static struct atoll_rows tasks = {.table = "tasks",
                                  .rest = "ORDER BY created_unix_ms, id",
                                  .columns = columns,
                                  .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_task(struct atoll_store *store, const struct atoll_store_task *row,
                         struct atoll_error *err)
{
    return atoll_rows_put(store, &tasks, row, err);
}

int atoll_store_drop_task(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM tasks WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}

int atoll_store_each_task(struct atoll_store *store, const char *kind,
                          int (*fn)(void *arg, const struct atoll_store_task *row,
                                    struct atoll_error *err),
                          void *arg, struct atoll_error *err)
{
    struct atoll_store_task row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &tasks, &stmt, r, &row, err)) > 0)
        r = strcmp(row.kind, kind) == 0 ? fn(arg, &row, err) : 0;
    return r;
}
