#include "store/secrets.h"

#include <errno.h>
#include <stdio.h>
#include "store/seal.h"
#include "store/sqlite/rows.h"
#include "store/store.h"

#define SEALED_MAX ((size_t)1 << 20)

struct row {
    struct atoll_store_secret row; /* first: readers see only this part */
    const void *value;             /* sealed */
    size_t value_len;
};

#define COLUMN(name, type, member) ATOLL_COLUMN(struct row, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("tenant", CHARS, row.tenant),
    COLUMN("name", CHARS, row.name),
    COLUMN("id", CHARS, row.id),
    COLUMN("version", U32, row.version),
    COLUMN("size_bytes", U32, row.size_bytes),
    COLUMN("metadata", NTEXT, row.metadata),
    COLUMN("created_unix_ms", I64, row.created_unix_ms),
    COLUMN("updated_unix_ms", I64, row.updated_unix_ms),
    COLUMN("value", BYTES, value), /* last: the rows that are listed have no value */
};
#undef COLUMN
static struct atoll_rows written = {.table = "secrets",
                                    .rest = "",
                                    .columns = columns,
                                    .count = ATOLL_ARRAY_LEN(columns)};
static struct atoll_rows listed = {.table = "secrets",
                                   .rest = "ORDER BY tenant, name",
                                   .columns = columns,
                                   .count = ATOLL_ARRAY_LEN(columns) - 1};

/* The owner of the value: a tenant has no slash in its name, and neither has a secret. */
static struct atoll_seal_place place_of(const char *tenant, const char *name, char out[static 160])
{
    (void)snprintf(out, 160, "%s/%s", tenant, name);
    return (struct atoll_seal_place){"secret", out};
}

int atoll_store_put_secret(struct atoll_store *store, const struct atoll_store_secret *row,
                           const void *value, struct atoll_error *err)
{
    char owner[160];
    const struct atoll_seal_place place = place_of(row->tenant, row->name, owner);
    struct row all = {.row = *row};
    struct atoll_buf sealed;
    int r;

    atoll_buf_init(&sealed, SEALED_MAX);
    r = atoll_seal_write(atoll_store_seal(store), &place, value, row->size_bytes, &sealed, err);
    all.value = atoll_buf_head(&sealed);
    all.value_len = atoll_buf_size(&sealed);
    if (r == 0)
        r = atoll_rows_put(store, &written, &all, err);
    atoll_buf_done(&sealed);
    return r;
}

int atoll_store_drop_secret(struct atoll_store *store, const char *tenant, const char *name,
                            struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM secrets WHERE tenant = ? AND name = ?";
    return atoll_db_run_with(atoll_db_of(store), sql, tenant, name, err);
}

int atoll_store_each_secret(struct atoll_store *store,
                            int (*fn)(void *arg, const struct atoll_store_secret *row,
                                      struct atoll_error *err),
                            void *arg, struct atoll_error *err)
{
    sqlite3_stmt *stmt = NULL;
    struct row row;
    int r = 0;

    while ((r = atoll_rows_next(store, &listed, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row.row, err);
    return r;
}

int atoll_store_secret_value(struct atoll_store *store, const char *tenant, const char *name,
                             struct atoll_buf *out, struct atoll_error *err)
{
    static const char sql[] = "SELECT value FROM secrets WHERE tenant = ? AND name = ?";
    char owner[160];
    const struct atoll_seal_place place = place_of(tenant, name, owner);
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(atoll_db_of(store), sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, tenant);
    atoll_db_bind_text(stmt, 2, name);
    r = atoll_db_step(atoll_db_of(store), stmt, err);
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no secret %s", name);
    if (r < 0)
        return r;
    r = atoll_seal_read(atoll_store_seal(store), &place, sqlite3_column_blob(stmt, 0),
                        (size_t)sqlite3_column_bytes(stmt, 0), out, err);
    atoll_db_reset(stmt);
    return r < 0 ? atoll_wrap(err, "secret %s", name) : 0;
}
