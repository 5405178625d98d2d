#include "store/ended.h"

#include <stdio.h>
#include "store/sqlite/rows.h"

#define PRUNE_AT_ONCE 16 /* records in one transaction, with up to 64 commands each */

#define COLUMN(name, type, member) ATOLL_COLUMN(struct atoll_store_ended, name, type, member)
static const struct atoll_column columns[] = {
    COLUMN("number", I64, number),
    COLUMN("id", TEXT, id),
    COLUMN("owner", TEXT, owner),
    COLUMN("ended_unix_ms", I64, ended_unix_ms),
    COLUMN("created_unix_ms", I64, created_unix_ms),
    COLUMN("session_id", TEXT, session_id),
    COLUMN("environment", TEXT, environment),
    COLUMN("name", NTEXT, name),
    COLUMN("template", TEXT, template_name),
    COLUMN("image", TEXT, image),
    COLUMN("provider", TEXT, provider),
    COLUMN("how", TEXT, end),
    COLUMN("ended_by", TEXT, ended_by),
    COLUMN("cause", TEXT, cause),
    COLUMN("boot_us", I64, boot_us),
    COLUMN("persistent", BOOL, persistent),
    COLUMN("network", I32, network),
    COLUMN("waived", U32, waived),
    COLUMN("memory_bytes", I64, limits.memory_bytes),
    COLUMN("disk_bytes", I64, limits.disk_bytes),
    COLUMN("inodes", I64, limits.inodes),
    COLUMN("cpu_millis", U32, limits.cpu_millis),
    COLUMN("pids", U32, limits.pids),
    COLUMN("open_files", U32, limits.open_files),
    COLUMN("timeout_s", U32, limits.timeout_s),
    COLUMN("io_bytes", I64, limits.io_bytes),
    COLUMN("metadata", NTEXT, metadata_json),
    COLUMN("agent_config", NTEXT, agent_config),
    COLUMN("facade", NTEXT, facade_json),
};
#undef COLUMN
#define ROWS(where)                                                                              \
    {                                                                                            \
        .table = "ended", .rest = (where), .columns = columns, .count = ATOLL_ARRAY_LEN(columns) \
    }
static struct atoll_rows by_id = ROWS("WHERE id = ?");
/* The second condition is that of the index. */
static struct atoll_rows by_session = ROWS("WHERE session_id = ? AND session_id != ''");
static struct atoll_rows of_owner = ROWS("WHERE owner = ? AND number > ? ORDER BY number LIMIT ?");
static struct atoll_rows of_all = ROWS("WHERE number > ? ORDER BY number LIMIT ?");

/* Runs a bound statement; returns the number of rows. */
static int give(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt *stmt,
                atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    struct atoll_store_ended row;
    int r = 0, count = 0;

    while ((r = atoll_rows_next(store, rows, &stmt, r, &row, err)) > 0) {
        r = fn(arg, &row, err);
        count++;
    }
    return r < 0 ? r : count;
}

static int find(struct atoll_store *store, struct atoll_rows *rows, const char *id,
                atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_rows_read(store, rows, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_text(stmt, 1, id);
    r = give(store, rows, stmt, fn, arg, err);
    return ATOLL_MIN(r, 1);
}

int atoll_store_find_ended(struct atoll_store *store, const char *id, atoll_store_ended_fn *fn,
                           void *arg, struct atoll_error *err)
{
    return find(store, &by_id, id, fn, arg, err);
}

int atoll_store_find_ended_session(struct atoll_store *store, const char *session_id,
                                   atoll_store_ended_fn *fn, void *arg, struct atoll_error *err)
{
    return find(store, &by_session, session_id, fn, arg, err);
}

int atoll_store_each_ended(struct atoll_store *store, const char *owner, int64_t number,
                           uint32_t most, atoll_store_ended_fn *fn, void *arg,
                           struct atoll_error *err)
{
    struct atoll_rows *rows = owner ? &of_owner : &of_all;
    sqlite3_stmt *stmt;
    int at = 1, r = atoll_rows_read(store, rows, &stmt, err);

    if (r < 0)
        return r;
    if (owner)
        atoll_db_bind_text(stmt, at++, owner);
    atoll_db_bind_i64(stmt, at++, number);
    atoll_db_bind_i64(stmt, at, most);
    r = give(store, rows, stmt, fn, arg, err);
    return ATOLL_MIN(r, 0);
}

/* Removal. */

int atoll_store_sum_ended(struct atoll_store *store, struct atoll_store_ended_sum *ret,
                          struct atoll_error *err)
{
    static const char sql[] = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM ended";
    struct atoll_db *db = atoll_db_of(store);
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r == 0)
        r = atoll_db_step(db, stmt, err);
    if (r < 0)
        return r;
    ret->count = (uint64_t)atoll_db_i64(stmt, 0);
    ret->bytes = (uint64_t)atoll_db_i64(stmt, 1);
    atoll_db_reset(stmt);
    return 0;
}

struct victims {
    char ids[PRUNE_AT_ONCE][65];
    size_t count;
};

static int choose(struct atoll_db *db, const char *sql, int64_t number, size_t most,
                  struct victims *ret, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    atoll_db_bind_i64(stmt, 1, number);
    atoll_db_bind_i64(stmt, 2, (int64_t)most);
    while (ret->count < most && (r = atoll_db_step(db, stmt, err)) > 0)
        (void)snprintf(ret->ids[ret->count++], sizeof(ret->ids[0]), "%s", atoll_db_text(stmt, 0));
    atoll_db_reset(stmt);
    return r < 0 ? r : 0;
}

static int choose_victims(struct atoll_store *store, int64_t before_unix_ms,
                          const struct atoll_store_ended_sum *most, struct victims *ret,
                          struct atoll_error *err)
{
    static const char expired[] = "SELECT id FROM ended WHERE ended_unix_ms < ?1 LIMIT ?2";
    /* ?1 is not used: both take the same parameters as the first. */
    static const char most_records[] =
        "SELECT id FROM ended WHERE ?1 = 0 AND owner = (SELECT owner FROM ended GROUP BY owner"
        " ORDER BY count(*) DESC LIMIT 1) ORDER BY number LIMIT ?2";
    static const char most_bytes[] =
        "SELECT id FROM ended WHERE ?1 = 0 AND owner = (SELECT owner FROM ended GROUP BY owner"
        " ORDER BY sum(size_bytes) DESC LIMIT 1) ORDER BY number LIMIT ?2";
    struct atoll_db *db = atoll_db_of(store);
    struct atoll_store_ended_sum sum;
    int r = choose(db, expired, before_unix_ms, PRUNE_AT_ONCE, ret, err);

    if (r < 0 || ret->count > 0)
        return r;
    r = atoll_store_sum_ended(store, &sum, err);
    if (r == 0 && sum.count > most->count)
        r = choose(db, most_records, 0, ATOLL_MIN(sum.count - most->count, PRUNE_AT_ONCE), ret,
                   err);
    else if (r == 0 && sum.bytes > most->bytes)
        r = choose(db, most_bytes, 0, 1, ret, err);
    return r;
}

int atoll_store_prune_ended(struct atoll_store *store, int64_t before_unix_ms,
                            const struct atoll_store_ended_sum *most,
                            void (*gone)(void *arg, const char *id), void *arg,
                            struct atoll_error *err)
{
    static const char drop_execs[] = "DELETE FROM execs WHERE sandbox_id = ?";
    static const char drop_tool_calls[] = "DELETE FROM tool_calls WHERE sandbox_id = ?";
    static const char drop_row[] = "DELETE FROM ended WHERE id = ?";
    struct atoll_db *db = atoll_db_of(store);
    struct victims victims = {.count = 0};
    int r = choose_victims(store, before_unix_ms, most, &victims, err);

    if (r < 0 || victims.count == 0)
        return r;
    r = atoll_db_begin(db, "prune_ended", err);
    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < victims.count; i++) {
        r = atoll_db_run_with(db, drop_execs, victims.ids[i], NULL, err);
        if (r == 0)
            r = atoll_db_run_with(db, drop_tool_calls, victims.ids[i], NULL, err);
        if (r == 0)
            r = atoll_db_run_with(db, drop_row, victims.ids[i], NULL, err);
    }
    r = atoll_db_end(db, r, err);
    for (size_t i = 0; r >= 0 && i < victims.count; i++)
        gone(arg, victims.ids[i]);
    return r < 0 ? r : 1;
}
