#include "store/sandbox_tokens.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) \
    ATOLL_COLUMN(struct atoll_store_sandbox_token, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", CHARS, id),
    COLUMN("sandbox_id", CHARS, sandbox_id),
    COLUMN("sha256", ARRAY, sha256),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("expires_unix_ms", I64, expires_unix_ms),
};
static struct atoll_rows tokens = {.table = "sandbox_tokens",
                                   .rest = "ORDER BY created_unix_ms, id",
                                   .unique = true,
                                   .columns = columns,
                                   .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_each_sandbox_token(struct atoll_store *store,
                                   int (*fn)(void *arg, const struct atoll_store_sandbox_token *row,
                                             struct atoll_error *err),
                                   void *arg, struct atoll_error *err)
{
    struct atoll_store_sandbox_token row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &tokens, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}

int atoll_store_add_sandbox_token(struct atoll_store *store,
                                  const struct atoll_store_sandbox_token *row,
                                  struct atoll_error *err)
{
    return atoll_rows_put(store, &tokens, row, err);
}

int atoll_store_drop_sandbox_token(struct atoll_store *store, const char *id,
                                   struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM sandbox_tokens WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}

int atoll_store_drop_sandbox_tokens(struct atoll_store *store, const char *sandbox_id,
                                    struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM sandbox_tokens WHERE sandbox_id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, sandbox_id, NULL, err);
}
