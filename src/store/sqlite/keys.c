#include "store/keys.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_key_row, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", CHARS, id),
    COLUMN("tenant", CHARS, tenant),
    COLUMN("scope", U8, scope),
    COLUMN("sha256", ARRAY, sha256),
    COLUMN("created_unix_ms", I64, created_unix_ms),
};
static struct atoll_rows keys = {.table = "api_keys",
                                 .rest = "ORDER BY created_unix_ms, id",
                                 .unique = true,
                                 .columns = columns,
                                 .count = ATOLL_ARRAY_LEN(columns)};

int atoll_keys_load(struct atoll_store *store,
                    int (*each)(void *arg, const struct atoll_key_row *row), void *arg,
                    struct atoll_error *err)
{
    struct atoll_key_row row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &keys, &stmt, r, &row, err)) > 0)
        if ((r = each(arg, &row)) < 0)
            (void)atoll_fail_errno(err, -r, "API keys");
    return r;
}

int atoll_keys_add(struct atoll_store *store, const struct atoll_key_row *row,
                   struct atoll_error *err)
{
    return atoll_rows_put(store, &keys, row, err);
}

int atoll_keys_remove(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM api_keys WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}
