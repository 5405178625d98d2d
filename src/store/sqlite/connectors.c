#include "store/connectors.h"

#include <stdio.h>
#include "store/sqlite/rows.h"

#define KEY_MAX 160

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_connector, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("key", TEXT, key),
    COLUMN("tenant", TEXT, tenant),
    COLUMN("name", TEXT, name),
    COLUMN("definition", SEALED, definition),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("updated_unix_ms", I64, updated_unix_ms),
};
#undef COLUMN
static struct atoll_rows connectors = {.table = "connectors",
                                       .rest = "WHERE tenant = ? AND name GLOB ? ORDER BY name",
                                       .columns = columns,
                                       .count = ATOLL_ARRAY_LEN(columns)};

/* Neither a tenant nor a connector has a slash in its name. */
static void key_of(const char *tenant, const char *name, char out[static KEY_MAX])
{
    (void)snprintf(out, KEY_MAX, "%s/%s", tenant, name);
}

int atoll_store_put_connector(struct atoll_store *store, const struct atoll_store_connector *row,
                              struct atoll_error *err)
{
    struct atoll_store_connector keyed = *row;
    char key[KEY_MAX];

    key_of(row->tenant, row->name, key);
    keyed.key = key;
    return atoll_rows_put(store, &connectors, &keyed, err);
}

int atoll_store_drop_connector(struct atoll_store *store, const char *tenant, const char *name,
                               struct atoll_error *err)
{
    static const char sql[] = "DELETE FROM connectors WHERE key = ?";
    char key[KEY_MAX];

    key_of(tenant, name, key);
    return atoll_db_run_with(atoll_db_of(store), sql, key, NULL, err);
}

/* A name has no character that GLOB knows. */
int atoll_store_each_connector(struct atoll_store *store, const char *tenant, const char *name,
                               int (*fn)(void *arg, const struct atoll_store_connector *row,
                                         struct atoll_error *err),
                               void *arg, struct atoll_error *err)
{
    struct atoll_store_connector row;
    sqlite3_stmt *stmt = NULL;
    int r = atoll_rows_read(store, &connectors, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, tenant);
    atoll_db_bind_text(stmt, 2, name ? name : "*");
    while ((r = atoll_rows_next(store, &connectors, &stmt, r, &row, err)) > 0)
        r = fn(arg, &row, err);
    return r;
}
