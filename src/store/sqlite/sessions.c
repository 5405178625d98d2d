#include "store/sessions.h"

#include "store/sqlite/rows.h"

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_session, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("id", TEXT, id),
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("environment", TEXT, environment),
    COLUMN("owner", TEXT, owner),
    COLUMN("start_exec", TEXT, start_exec),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("agent_config", NTEXT, agent_config),
};
static struct atoll_rows sessions = {.table = "sessions",
                                     .rest = "ORDER BY created_unix_ms, id",
                                     .columns = columns,
                                     .count = ATOLL_ARRAY_LEN(columns)};

int atoll_store_put_session(struct atoll_store *store, const struct atoll_store_session *row,
                            struct atoll_error *err)
{
    return atoll_rows_put(store, &sessions, row, err);
}

int atoll_store_drop_session(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM sessions WHERE id = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, id, NULL, err);
}

int atoll_store_each_session(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_session *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    struct atoll_store_session row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &sessions, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
