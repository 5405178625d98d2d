#include "store/answers.h"

#include <errno.h>
#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

int atoll_store_put_answer(struct atoll_store *store, const struct atoll_store_answer *row,
                           struct atoll_error *err)
{
    static const char sql[] = "INSERT OR REPLACE INTO answers"
                              " (name, request, status, answer, until_unix_ms)"
                              " VALUES (?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->name);
    atoll_db_bind_bytes(stmt, 2, row->request, ATOLL_STORE_REQUEST_BYTES);
    atoll_db_bind_i64(stmt, 3, row->status);
    atoll_db_bind_text(stmt, 4, row->answer);
    atoll_db_bind_i64(stmt, 5, row->until_unix_ms);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_drop_answer(struct atoll_store *store, const char *name, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM answers WHERE name = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, name);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_each_answer(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_answer *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err)
{
    static const char sql[] =
        "SELECT name, request, status, answer, until_unix_ms FROM answers ORDER BY until_unix_ms";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        bool kept = sqlite3_column_type(stmt, 3) != SQLITE_NULL;
        const struct atoll_store_answer row = {
            .name = atoll_db_text(stmt, 0),
            .request = sqlite3_column_blob(stmt, 1),
            .status = (int)atoll_db_i64(stmt, 2),
            .answer = kept ? atoll_db_text(stmt, 3) : NULL,
            .until_unix_ms = atoll_db_i64(stmt, 4),
        };
        if (sqlite3_column_bytes(stmt, 1) != ATOLL_STORE_REQUEST_BYTES)
            r = atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "a stored answer is malformed");
        else
            r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
