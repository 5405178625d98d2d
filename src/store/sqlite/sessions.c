#include "store/sessions.h"

#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

int atoll_store_put_session(struct atoll_store *store, const struct atoll_store_session *row,
                            struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO sessions"
        " (id, sandbox_id, environment, owner, start_exec, created_unix_ms, agent_config)"
        " VALUES (?,?,?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->id);
    atoll_db_bind_text(stmt, 2, row->sandbox_id);
    atoll_db_bind_text(stmt, 3, row->environment);
    atoll_db_bind_text(stmt, 4, row->owner);
    atoll_db_bind_text(stmt, 5, row->start_exec);
    atoll_db_bind_i64(stmt, 6, row->created_unix_ms);
    atoll_db_bind_text(stmt, 7, row->agent_config);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_drop_session(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM sessions WHERE id = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_each_session(struct atoll_store *store,
                             int (*fn)(void *arg, const struct atoll_store_session *row,
                                       struct atoll_error *err),
                             void *arg, struct atoll_error *err)
{
    static const char sql[] =
        "SELECT id, sandbox_id, environment, owner, start_exec, created_unix_ms, agent_config"
        " FROM sessions"
        " ORDER BY created_unix_ms, id";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    while ((r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_session row = {
            .id = atoll_db_text(stmt, 0),
            .sandbox_id = atoll_db_text(stmt, 1),
            .environment = atoll_db_text(stmt, 2),
            .owner = atoll_db_text(stmt, 3),
            .start_exec = atoll_db_text(stmt, 4),
            .created_unix_ms = atoll_db_i64(stmt, 5),
            .agent_config = (const char *)sqlite3_column_text(stmt, 6),
        };
        r = fn(arg, &row, err);
        if (r < 0) {
            atoll_db_reset(stmt);
            return r;
        }
    }
    return r;
}
