#include "store/answers.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_answer, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("name", TEXT, name),
    COLUMN("request", ARRAY, request),
    COLUMN("status", I32, status),
    COLUMN("answer", NTEXT, answer),
    COLUMN("until_unix_ms", I64, until_unix_ms),
};
static struct atoll_rows answers = {.table = "answers",
                                    .rest = "ORDER BY until_unix_ms",
                                    .columns = columns,
                                    .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_answer(struct atoll_store *store, const struct atoll_store_answer *row,
                           struct atoll_error *err)
{
    return atoll_rows_put(store, &answers, row, err);
}

int atoll_store_drop_answer(struct atoll_store *store, const char *name, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM answers WHERE name = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, name, NULL, err);
}

int atoll_store_each_answer(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_answer *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err)
{
    struct atoll_store_answer row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &answers, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
