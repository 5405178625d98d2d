#include "store/previews.h"

#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

int atoll_store_put_preview(struct atoll_store *store, const struct atoll_store_preview *row,
                            struct atoll_error *err)
{
    static const char sql[] = "INSERT OR REPLACE INTO previews"
                              " (sandbox_id, port, public, token, created_unix_ms)"
                              " VALUES (?, ?, ?, ?, ?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->sandbox_id);
    atoll_db_bind_i64(stmt, 2, row->port);
    atoll_db_bind_i64(stmt, 3, row->is_public);
    atoll_db_bind_text(stmt, 4, row->token);
    atoll_db_bind_i64(stmt, 5, row->created_unix_ms);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_drop_preview(struct atoll_store *store, const char *sandbox_id, uint16_t port,
                             struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM previews WHERE sandbox_id = ? AND port = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    atoll_db_bind_i64(stmt, 2, port);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_each_preview(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_preview *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT sandbox_id, port, public, token, created_unix_ms"
                              " FROM previews ORDER BY sandbox_id, port";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r >= 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_preview row = {
            .sandbox_id = atoll_db_text(stmt, 0),
            .port = (uint16_t)atoll_db_i64(stmt, 1),
            .is_public = atoll_db_i64(stmt, 2) != 0,
            .token = atoll_db_text(stmt, 3),
            .created_unix_ms = atoll_db_i64(stmt, 4),
        };
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
