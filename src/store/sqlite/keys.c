#include "store/keys.h"

#include <errno.h>
#include <string.h>
#include "base/text.h"
#include "store/sqlite/db.h"

static struct atoll_db *db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

/* A malformed row means that another program wrote to the database. */
static int read_row(sqlite3_stmt *stmt, struct atoll_key_row *row, struct atoll_error *err)
{
    int n = sqlite3_column_bytes(stmt, 3);
    const void *hash = sqlite3_column_blob(stmt, 3);

    *row = (struct atoll_key_row){
        .scope = (uint8_t)atoll_db_i64(stmt, 2),
        .created_unix_ms = atoll_db_i64(stmt, 4),
    };
    if (atoll_text_copy(row->id, sizeof(row->id), atoll_db_text(stmt, 0)) < 0 ||
        atoll_text_copy(row->tenant, sizeof(row->tenant), atoll_db_text(stmt, 1)) < 0 || !hash ||
        n != (int)sizeof(row->sha256))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EBADMSG, "the store holds a malformed key");
    memcpy(row->sha256, hash, sizeof(row->sha256));
    return 0;
}

int atoll_keys_load(struct atoll_store *store,
                    int (*each)(void *arg, const struct atoll_key_row *row), void *arg,
                    struct atoll_error *err)
{
    static const char sql[] =
        "SELECT id, tenant, scope, sha256, created_unix_ms FROM api_keys ORDER BY created_unix_ms, id";
    struct atoll_key_row row;
    sqlite3_stmt *stmt;
    struct atoll_db *db = db_of(store);
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    while ((r = atoll_db_step(db, stmt, err)) > 0) {
        r = read_row(stmt, &row, err);
        if (r == 0 && (r = each(arg, &row)) < 0)
            (void)atoll_fail_errno(err, -r, "API keys");
        if (r < 0) {
            atoll_db_reset(stmt);
            return r;
        }
    }
    return r;
}

int atoll_keys_add(struct atoll_store *store, const struct atoll_key_row *row,
                   struct atoll_error *err)
{
    static const char sql[] = "INSERT INTO api_keys (id, tenant, scope, sha256, created_unix_ms)"
                              " VALUES (?, ?, ?, ?, ?)";
    sqlite3_stmt *stmt;
    struct atoll_db *db = db_of(store);
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, row->id);
    atoll_db_bind_text(stmt, 2, row->tenant);
    atoll_db_bind_i64(stmt, 3, row->scope);
    atoll_db_bind_bytes(stmt, 4, row->sha256, sizeof(row->sha256));
    atoll_db_bind_i64(stmt, 5, row->created_unix_ms);
    return atoll_db_run(db, stmt, err);
}

int atoll_keys_remove(struct atoll_store *store, const char *id, struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM api_keys WHERE id = ?";
    sqlite3_stmt *stmt;
    struct atoll_db *db = db_of(store);
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    return atoll_db_run(db, stmt, err);
}
