#include "store/events.h"

#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

static int put(struct atoll_db *db, const struct atoll_store_event *row, struct atoll_error *err)
{
    static const char sql[] = "INSERT OR REPLACE INTO events"
                              " (id, unix_ms, kind, sandbox_id, owner, exec_id, detail)"
                              " VALUES (?,?,?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_i64(stmt, 1, (int64_t)row->id);
    atoll_db_bind_i64(stmt, 2, row->unix_ms);
    atoll_db_bind_text(stmt, 3, row->kind);
    atoll_db_bind_text(stmt, 4, row->sandbox_id);
    atoll_db_bind_text(stmt, 5, row->owner);
    atoll_db_bind_text(stmt, 6, row->exec_id);
    atoll_db_bind_text(stmt, 7, row->detail);
    return atoll_db_run(db, stmt, err);
}

static int drop(struct atoll_db *db, uint64_t through, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM events WHERE id <= ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_i64(stmt, 1, (int64_t)through);
    return atoll_db_run(db, stmt, err);
}

int atoll_store_put_events(struct atoll_store *store, const struct atoll_store_event *rows,
                           size_t count, uint64_t drop_through, struct atoll_error *err)
{
    struct atoll_db *db = db_of(store);
    int r = atoll_db_begin(db, "events", err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = put(db, &rows[i], err);
    if (r == 0 && drop_through > 0)
        r = drop(db, drop_through, err);
    if (r == 0)
        r = atoll_db_commit(db, err);
    if (r < 0)
        atoll_db_rollback(db);
    return r;
}

int atoll_store_each_event(struct atoll_store *store,
                           int (*fn)(void *arg, const struct atoll_store_event *row,
                                     struct atoll_error *err),
                           void *arg, struct atoll_error *err)
{
    static const char sql[] =
        "SELECT id, unix_ms, kind, sandbox_id, owner, exec_id, detail FROM events ORDER BY id";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r == 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_event row = {
            .id = (uint64_t)atoll_db_i64(stmt, 0),
            .unix_ms = atoll_db_i64(stmt, 1),
            .kind = atoll_db_text(stmt, 2),
            .sandbox_id = atoll_db_text(stmt, 3),
            .owner = atoll_db_text(stmt, 4),
            .exec_id = atoll_db_text(stmt, 5),
            .detail = atoll_db_text(stmt, 6),
        };
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
