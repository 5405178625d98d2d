#include "store/artifacts.h"

#include "store/sqlite/rows.h"

/* Requests. */

#define COLUMN(name, type, member) \
    ATOLL_COLUMN(struct atoll_store_artifact_request, name, type, member)
static const struct atoll_column request_columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id),
    COLUMN("session_id", TEXT, session_id),
    COLUMN("patterns", TEXT, patterns),
};
#undef COLUMN
static struct atoll_rows requests = {.table = "artifact_wishes",
                                     .rest = "",
                                     .columns = request_columns,
                                     .count = ATOLL_ARRAY_LEN(request_columns)};

int atoll_store_put_artifact_request(struct atoll_store *store,
                                     const struct atoll_store_artifact_request *row,
                                     struct atoll_error *err)
{
    return atoll_rows_put(store, &requests, row, err);
}

int atoll_store_sweep_artifact_requests(struct atoll_store *store, struct atoll_error *err)
{
    static const char sql[] =
        "DELETE FROM artifact_wishes WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)";
    return atoll_db_run_with(atoll_db_of(store), sql, NULL, NULL, err);
}

int atoll_store_each_artifact_request(struct atoll_store *store,
                                      int (*fn)(void *arg,
                                                const struct atoll_store_artifact_request *row,
                                                struct atoll_error *err),
                                      void *arg, struct atoll_error *err)
{
    struct atoll_store_artifact_request row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &requests, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}

/* Sets. */

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_artifacts, name, type, member)
static const struct atoll_column set_columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id), COLUMN("session_id", TEXT, session_id),
    COLUMN("owner", TEXT, owner),           COLUMN("reason", TEXT, reason),
    COLUMN("complete", BOOL, complete),     COLUMN("count", U32, count),
    COLUMN("size_bytes", I64, size_bytes),  COLUMN("created_unix_ms", I64, created_unix_ms),
};
#undef COLUMN
static struct atoll_rows sets = {.table = "artifact_sets",
                                 .rest = "ORDER BY created_unix_ms, sandbox_id",
                                 .columns = set_columns,
                                 .count = ATOLL_ARRAY_LEN(set_columns)};

struct file_row {
    const char *sandbox_id;
    struct atoll_store_artifact file;
};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct file_row, name, type, member)
static const struct atoll_column file_columns[] = {
    COLUMN("sandbox_id", TEXT, sandbox_id), COLUMN("path", TEXT, file.path),
    COLUMN("number", U32, file.number),     COLUMN("size_bytes", I64, file.size_bytes),
    COLUMN("mtime_ms", I64, file.mtime_ms),
};
#undef COLUMN
static struct atoll_rows files = {.table = "artifacts",
                                  .rest = "WHERE sandbox_id = ? ORDER BY path",
                                  .columns = file_columns,
                                  .count = ATOLL_ARRAY_LEN(file_columns)};
static struct atoll_rows one_file = {.table = "artifacts",
                                     .rest = "WHERE sandbox_id = ? AND path = ?",
                                     .columns = file_columns,
                                     .count = ATOLL_ARRAY_LEN(file_columns)};

static int drop_both(struct atoll_db *db, const char *sandbox_id, struct atoll_error *err)
{
    static const char files_sql[] = "DELETE FROM artifacts WHERE sandbox_id = ?";
    static const char set_sql[] = "DELETE FROM artifact_sets WHERE sandbox_id = ?";
    int r = atoll_db_run_with(db, files_sql, sandbox_id, NULL, err);

    return r < 0 ? r : atoll_db_run_with(db, set_sql, sandbox_id, NULL, err);
}

int atoll_store_put_artifacts(struct atoll_store *store, const struct atoll_store_artifacts *set,
                              const struct atoll_store_artifact *artifacts, struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "artifacts", err);

    if (r < 0)
        return r;
    r = drop_both(db, set->sandbox_id, err);
    if (r == 0)
        r = atoll_rows_put(store, &sets, set, err);
    for (uint32_t i = 0; r == 0 && i < set->count; i++) {
        const struct file_row row = {set->sandbox_id, artifacts[i]};
        r = atoll_rows_put(store, &files, &row, err);
    }
    return atoll_db_end(db, r, err);
}

int atoll_store_drop_artifacts(struct atoll_store *store, const char *sandbox_id,
                               struct atoll_error *err)
{
    struct atoll_db *db = atoll_db_of(store);
    int r = atoll_db_begin(db, "drop_artifacts", err);

    return r < 0 ? r : atoll_db_end(db, drop_both(db, sandbox_id, err), err);
}

int atoll_store_each_artifacts(struct atoll_store *store,
                               int (*fn)(void *arg, const struct atoll_store_artifacts *row,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err)
{
    struct atoll_store_artifacts row;
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    while ((r = atoll_rows_next(store, &sets, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}

int atoll_store_each_artifact(struct atoll_store *store, const char *sandbox_id, const char *path,
                              int (*fn)(void *arg, const struct atoll_store_artifact *file,
                                        struct atoll_error *err),
                              void *arg, struct atoll_error *err)
{
    struct atoll_rows *rows = path ? &one_file : &files;
    struct file_row row;
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(store, rows, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, sandbox_id);
    if (path)
        atoll_db_bind_text(stmt, 2, path);
    while ((r = atoll_rows_next(store, rows, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row.file, err);
    return r;
}
