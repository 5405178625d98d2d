#include "store/artifacts.h"

#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

static int run_with_id(struct atoll_db *db, const char *sql, const char *id,
                       struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    return atoll_db_run(db, stmt, err);
}

/* Requests. */

int atoll_store_put_artifact_request(struct atoll_store *store,
                                     const struct atoll_store_artifact_request *row,
                                     struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO artifact_wishes (sandbox_id, session_id, patterns) VALUES (?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->sandbox_id);
    atoll_db_bind_text(stmt, 2, row->session_id);
    atoll_db_bind_text(stmt, 3, row->patterns);
    return atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_sweep_artifact_requests(struct atoll_store *store, struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM artifact_wishes WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    return r < 0 ? r : atoll_db_run(db_of(store), stmt, err);
}

int atoll_store_each_artifact_request(struct atoll_store *store,
                                      int (*fn)(void *arg,
                                                const struct atoll_store_artifact_request *row,
                                                struct atoll_error *err),
                                      void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT sandbox_id, session_id, patterns FROM artifact_wishes";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r >= 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_artifact_request row = {
            atoll_db_text(stmt, 0), atoll_db_text(stmt, 1), atoll_db_text(stmt, 2)};
        r = fn(arg, &row, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}

/* Sets. */

static int drop_both(struct atoll_db *db, const char *sandbox_id, struct atoll_error *err)
{
    static const char files[] = "DELETE FROM artifacts WHERE sandbox_id = ?";
    static const char set[] = "DELETE FROM artifact_sets WHERE sandbox_id = ?";
    int r = run_with_id(db, files, sandbox_id, err);

    return r < 0 ? r : run_with_id(db, set, sandbox_id, err);
}

static int insert_set(struct atoll_db *db, const struct atoll_store_artifacts *set,
                      struct atoll_error *err)
{
    static const char sql[] =
        "INSERT INTO artifact_sets (sandbox_id, session_id, owner, reason, complete, count,"
        " size_bytes, created_unix_ms) VALUES (?,?,?,?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, set->sandbox_id);
    atoll_db_bind_text(stmt, 2, set->session_id);
    atoll_db_bind_text(stmt, 3, set->owner);
    atoll_db_bind_text(stmt, 4, set->reason);
    atoll_db_bind_i64(stmt, 5, set->complete);
    atoll_db_bind_i64(stmt, 6, set->count);
    atoll_db_bind_i64(stmt, 7, (int64_t)set->size_bytes);
    atoll_db_bind_i64(stmt, 8, set->created_unix_ms);
    return atoll_db_run(db, stmt, err);
}

static int insert_file(struct atoll_db *db, const char *sandbox_id,
                       const struct atoll_store_artifact *file, struct atoll_error *err)
{
    static const char sql[] =
        "INSERT OR REPLACE INTO artifacts (sandbox_id, path, number, size_bytes, mtime_ms)"
        " VALUES (?,?,?,?,?)";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    atoll_db_bind_text(stmt, 2, file->path);
    atoll_db_bind_i64(stmt, 3, file->number);
    atoll_db_bind_i64(stmt, 4, (int64_t)file->size_bytes);
    atoll_db_bind_i64(stmt, 5, file->mtime_ms);
    return atoll_db_run(db, stmt, err);
}

int atoll_store_put_artifacts(struct atoll_store *store, const struct atoll_store_artifacts *set,
                              const struct atoll_store_artifact *files, struct atoll_error *err)
{
    struct atoll_db *db = db_of(store);
    int r = atoll_db_begin(db, "artifacts", err);

    if (r < 0)
        return r;
    r = drop_both(db, set->sandbox_id, err);
    if (r == 0)
        r = insert_set(db, set, err);
    for (uint32_t i = 0; r == 0 && i < set->count; i++)
        r = insert_file(db, set->sandbox_id, &files[i], err);
    if (r == 0)
        r = atoll_db_commit(db, err);
    if (r < 0)
        atoll_db_rollback(db);
    return r;
}

int atoll_store_drop_artifacts(struct atoll_store *store, const char *sandbox_id,
                               struct atoll_error *err)
{
    struct atoll_db *db = db_of(store);
    int r = atoll_db_begin(db, "drop_artifacts", err);

    if (r < 0)
        return r;
    r = drop_both(db, sandbox_id, err);
    if (r == 0)
        r = atoll_db_commit(db, err);
    if (r < 0)
        atoll_db_rollback(db);
    return r;
}

int atoll_store_each_artifacts(struct atoll_store *store,
                               int (*fn)(void *arg, const struct atoll_store_artifacts *set,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err)
{
    static const char sql[] = "SELECT sandbox_id, session_id, owner, reason, complete, count,"
                              " size_bytes, created_unix_ms FROM artifact_sets"
                              " ORDER BY created_unix_ms, sandbox_id";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), sql, &stmt, err);

    while (r >= 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_artifacts set = {
            .sandbox_id = atoll_db_text(stmt, 0),
            .session_id = atoll_db_text(stmt, 1),
            .owner = atoll_db_text(stmt, 2),
            .reason = atoll_db_text(stmt, 3),
            .complete = atoll_db_i64(stmt, 4) != 0,
            .count = (uint32_t)atoll_db_i64(stmt, 5),
            .size_bytes = (uint64_t)atoll_db_i64(stmt, 6),
            .created_unix_ms = atoll_db_i64(stmt, 7),
        };
        r = fn(arg, &set, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}

int atoll_store_each_artifact(struct atoll_store *store, const char *sandbox_id, const char *path,
                              int (*fn)(void *arg, const struct atoll_store_artifact *file,
                                        struct atoll_error *err),
                              void *arg, struct atoll_error *err)
{
    static const char all[] = "SELECT path, number, size_bytes, mtime_ms FROM artifacts"
                              " WHERE sandbox_id = ? ORDER BY path";
    static const char one[] = "SELECT path, number, size_bytes, mtime_ms FROM artifacts"
                              " WHERE sandbox_id = ? AND path = ?";
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db_of(store), path ? one : all, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    if (path)
        atoll_db_bind_text(stmt, 2, path);
    while (r >= 0 && (r = atoll_db_step(db_of(store), stmt, err)) > 0) {
        const struct atoll_store_artifact file = {
            .path = atoll_db_text(stmt, 0),
            .number = (uint32_t)atoll_db_i64(stmt, 1),
            .size_bytes = (uint64_t)atoll_db_i64(stmt, 2),
            .mtime_ms = atoll_db_i64(stmt, 3),
        };
        r = fn(arg, &file, err);
        if (r < 0)
            atoll_db_reset(stmt);
    }
    return r;
}
