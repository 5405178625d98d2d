#include <stdio.h>
#include "store/sqlite/db.h"
#include "store/store.h"

void atoll_store_sizes(struct atoll_store *store, uint64_t *ret_bytes, uint64_t *ret_log_bytes)
{
    atoll_db_sizes((struct atoll_db *)store, ret_bytes, ret_log_bytes);
}

/* The probe writes the schema version that is already there: a real write of one page that
 * changes nothing. */
int atoll_store_check(struct atoll_store *store, struct atoll_error *err)
{
    static char sql[64]; /* static: its address is the key of the prepared statement */
    struct atoll_db *db = (struct atoll_db *)store;
    sqlite3_stmt *stmt;
    int r;

    if (!atoll_db_is_refused(db))
        return 0;
    if (!*sql)
        (void)snprintf(sql, sizeof(sql), "PRAGMA user_version = %zu", atoll_db_migration_count);
    r = atoll_db_prepare(db, sql, &stmt, err);
    return r < 0 ? r : atoll_db_run(db, stmt, err);
}
