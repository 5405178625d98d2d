#include "store/contexts.h"

#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

#define COLUMNS "id, sandbox_id, language, cwd, user, exec_id, is_default, is_busy, number"

int atoll_store_put_context(struct atoll_store *store, const struct atoll_store_context *row,
                            struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO contexts (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->id);
    atoll_db_bind_text(stmt, 2, row->sandbox_id);
    atoll_db_bind_text(stmt, 3, row->language);
    atoll_db_bind_text(stmt, 4, row->cwd);
    atoll_db_bind_text(stmt, 5, row->user);
    atoll_db_bind_text(stmt, 6, row->exec_id);
    atoll_db_bind_i64(stmt, 7, row->is_default);
    atoll_db_bind_i64(stmt, 8, row->is_busy);
    atoll_db_bind_i64(stmt, 9, row->number);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_drop_context(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM contexts WHERE id = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_each_context(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_context *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT " COLUMNS " FROM contexts ORDER BY number";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_context row = {
            .id = atoll_db_text(stmt, 0),
            .sandbox_id = atoll_db_text(stmt, 1),
            .language = atoll_db_text(stmt, 2),
            .cwd = atoll_db_text(stmt, 3),
            .user = atoll_db_text(stmt, 4),
            .exec_id = atoll_db_text(stmt, 5),
            .is_default = atoll_db_i64(stmt, 6) != 0,
            .is_busy = atoll_db_i64(stmt, 7) != 0,
            .number = atoll_db_i64(stmt, 8),
        };
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
