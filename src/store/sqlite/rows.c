#include "store/sqlite/rows.h"

#include <string.h>
#include "base/text.h"

/* Appends `text`; aborts when the statement does not fit, which depends on the table only. */
static void add(char *sql, size_t cap, const char *text)
{
    size_t at = strlen(sql);

    if (atoll_text_copy(sql + at, cap - at, text) < 0)
        abort();
}

static void add_columns(const struct atoll_rows *rows, char *sql, size_t cap, const char *value)
{
    for (size_t i = 0; i < rows->count; i++) {
        add(sql, cap, i ? ", " : "");
        add(sql, cap, value ? value : rows->columns[i].name);
    }
}

static void write_statements(struct atoll_rows *rows)
{
    const size_t cap = sizeof(rows->put_sql);

    add(rows->put_sql, cap, "INSERT OR REPLACE INTO ");
    add(rows->put_sql, cap, rows->table);
    add(rows->put_sql, cap, " (");
    add_columns(rows, rows->put_sql, cap, NULL);
    add(rows->put_sql, cap, ") VALUES (");
    add_columns(rows, rows->put_sql, cap, "?");
    add(rows->put_sql, cap, ")");
    add(rows->read_sql, cap, "SELECT ");
    add_columns(rows, rows->read_sql, cap, NULL);
    add(rows->read_sql, cap, " FROM ");
    add(rows->read_sql, cap, rows->table);
    add(rows->read_sql, cap, " ORDER BY ");
    add(rows->read_sql, cap, rows->order);
}

static int prepare(struct atoll_db *db, struct atoll_rows *rows, const char *sql,
                   sqlite3_stmt **ret, struct atoll_error *err)
{
    if (!*rows->put_sql)
        write_statements(rows);
    return atoll_db_prepare(db, sql, ret, err);
}

static int64_t number_at(enum atoll_column_type type, const char *member)
{
    bool truth;
    int32_t i32;
    uint32_t u32;
    int64_t i64;

    switch (type) {
    case ATOLL_COLUMN_BOOL:
        memcpy(&truth, member, sizeof(truth));
        return truth;
    case ATOLL_COLUMN_I32:
        memcpy(&i32, member, sizeof(i32));
        return i32;
    case ATOLL_COLUMN_U32:
        memcpy(&u32, member, sizeof(u32));
        return u32;
    default:
        memcpy(&i64, member, sizeof(i64));
        return i64;
    }
}

static void set_number(enum atoll_column_type type, char *member, int64_t value)
{
    const bool truth = value != 0;
    const uint32_t u32 = (uint32_t)value;

    if (type == ATOLL_COLUMN_BOOL)
        memcpy(member, &truth, sizeof(truth));
    else if (type == ATOLL_COLUMN_I64)
        memcpy(member, &value, sizeof(value));
    else
        memcpy(member, &u32, sizeof(u32));
}

static void bind(sqlite3_stmt *stmt, int at, enum atoll_column_type type, const char *member)
{
    const void *bytes;
    size_t n;

    if (type < ATOLL_COLUMN_TEXT) {
        atoll_db_bind_i64(stmt, at, number_at(type, member));
        return;
    }
    memcpy(&bytes, member, sizeof(bytes));
    if (type == ATOLL_COLUMN_BYTES) {
        memcpy(&n, member + sizeof(bytes), sizeof(n));
        atoll_db_bind_bytes(stmt, at, bytes, n);
    } else {
        atoll_db_bind_text(stmt, at, bytes || type == ATOLL_COLUMN_NTEXT ? bytes : "");
    }
}

int atoll_rows_put(struct atoll_db *db, struct atoll_rows *rows, const void *row,
                   struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(db, rows, rows->put_sql, &stmt, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < rows->count; i++)
        bind(stmt, (int)i + 1, rows->columns[i].type, (const char *)row + rows->columns[i].at);
    return atoll_db_run(db, stmt, err);
}

int atoll_rows_read(struct atoll_db *db, struct atoll_rows *rows, sqlite3_stmt **ret,
                    struct atoll_error *err)
{
    return prepare(db, rows, rows->read_sql, ret, err);
}

static void get(sqlite3_stmt *stmt, int column, enum atoll_column_type type, char *member)
{
    bool null = sqlite3_column_type(stmt, column) == SQLITE_NULL;
    const void *bytes;
    size_t n;

    if (type < ATOLL_COLUMN_TEXT) {
        set_number(type, member, atoll_db_i64(stmt, column));
    } else if (type == ATOLL_COLUMN_BYTES) {
        bytes = sqlite3_column_blob(stmt, column);
        n = (size_t)sqlite3_column_bytes(stmt, column);
        memcpy(member, &bytes, sizeof(bytes));
        memcpy(member + sizeof(bytes), &n, sizeof(n));
    } else {
        bytes = null && type == ATOLL_COLUMN_NTEXT ? NULL : atoll_db_text(stmt, column);
        memcpy(member, &bytes, sizeof(bytes));
    }
}

void atoll_rows_get(sqlite3_stmt *stmt, const struct atoll_rows *rows, void *ret_row)
{
    for (size_t i = 0; i < rows->count; i++)
        get(stmt, (int)i, rows->columns[i].type, (char *)ret_row + rows->columns[i].at);
}
