#include "store/sqlite/rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "store/seal.h"
#include "store/store.h"

#define SEALED_MAX ((size_t)1 << 20)

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

    add(rows->put_sql, cap, rows->unique ? "INSERT INTO " : "INSERT OR REPLACE INTO ");
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
    add(rows->read_sql, cap, " ");
    add(rows->read_sql, cap, rows->rest);
}

static int prepare(struct atoll_store *store, struct atoll_rows *rows, const char *sql,
                   sqlite3_stmt **ret, struct atoll_error *err)
{
    if (!*rows->put_sql)
        write_statements(rows);
    return atoll_db_prepare(atoll_db_of(store), sql, ret, err);
}

union number {
    bool truth;
    uint8_t u8;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
};

static int64_t number_at(const struct atoll_column *c, const char *member)
{
    union number number;

    memcpy(&number, member, c->size);
    switch (c->type) {
    case ATOLL_COLUMN_BOOL:
        return number.truth;
    case ATOLL_COLUMN_U8:
        return number.u8;
    case ATOLL_COLUMN_U16:
        return number.u16;
    case ATOLL_COLUMN_I32:
        return number.i32;
    case ATOLL_COLUMN_U32:
        return number.u32;
    default:
        return number.i64;
    }
}

static void set_number(const struct atoll_column *c, char *member, int64_t value)
{
    union number number = {.i64 = value};

    if (c->type == ATOLL_COLUMN_BOOL)
        number.truth = value != 0;
    else if (c->type == ATOLL_COLUMN_U8)
        number.u8 = (uint8_t)value;
    else if (c->type == ATOLL_COLUMN_U16)
        number.u16 = (uint16_t)value;
    else if (c->type != ATOLL_COLUMN_I64)
        number.u32 = (uint32_t)value; /* or I32, the same bits */
    memcpy(member, &number, c->size);
}

static void bind(sqlite3_stmt *stmt, int at, const struct atoll_column *c, const char *member)
{
    const void *bytes;
    size_t n;

    if (c->type < ATOLL_COLUMN_TEXT) {
        atoll_db_bind_i64(stmt, at, number_at(c, member));
    } else if (c->type == ATOLL_COLUMN_CHARS) {
        atoll_db_bind_text(stmt, at, member);
    } else if (c->type == ATOLL_COLUMN_ARRAY) {
        atoll_db_bind_bytes(stmt, at, member, c->size);
    } else {
        memcpy(&bytes, member, sizeof(bytes));
        if (c->type != ATOLL_COLUMN_BYTES) {
            atoll_db_bind_text(stmt, at, bytes || c->type == ATOLL_COLUMN_NTEXT ? bytes : "");
            return;
        }
        memcpy(&n, member + sizeof(bytes), sizeof(n));
        atoll_db_bind_bytes(stmt, at, bytes, n);
    }
}

/* Where a sealed text belongs: in this column of the row with this key. */
static struct atoll_seal_place place_of(const struct atoll_rows *rows, const struct atoll_column *c,
                                        const void *row, char out[static 128])
{
    const char *key;

    memcpy(&key, (const char *)row + rows->columns[0].at, sizeof(key));
    (void)snprintf(out, 128, "%s.%s", rows->table, c->name);
    return (struct atoll_seal_place){out, key};
}

static int bind_sealed(struct atoll_store *store, const struct atoll_rows *rows, sqlite3_stmt *stmt,
                       int at, const void *row, struct atoll_error *err)
{
    const struct atoll_column *c = &rows->columns[at - 1];
    char purpose[128];
    const struct atoll_seal_place place = place_of(rows, c, row, purpose);
    struct atoll_buf sealed;
    const char *text;
    int r;

    memcpy(&text, (const char *)row + c->at, sizeof(text));
    if (!text) {
        atoll_db_bind_text(stmt, at, NULL);
        return 0;
    }
    atoll_buf_init(&sealed, SEALED_MAX);
    r = atoll_seal_write(atoll_store_seal(store), &place, text, strlen(text), &sealed, err);
    if (r == 0)
        (void)sqlite3_bind_blob64(stmt, at, atoll_buf_head(&sealed), atoll_buf_size(&sealed),
                                  SQLITE_TRANSIENT);
    atoll_buf_done(&sealed);
    return r;
}

int atoll_rows_put(struct atoll_store *store, struct atoll_rows *rows, const void *row,
                   struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(store, rows, rows->put_sql, &stmt, err);

    if (r < 0)
        return r;
    for (size_t i = 0; r == 0 && i < rows->count; i++)
        if (rows->columns[i].type == ATOLL_COLUMN_SEALED)
            r = bind_sealed(store, rows, stmt, (int)i + 1, row, err);
        else
            bind(stmt, (int)i + 1, &rows->columns[i], (const char *)row + rows->columns[i].at);
    return r < 0 ? r : atoll_db_run(atoll_db_of(store), stmt, err);
}

int atoll_rows_read(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt **ret,
                    struct atoll_error *err)
{
    return prepare(store, rows, rows->read_sql, ret, err);
}

/* False: the value does not fit. */
static bool get(sqlite3_stmt *stmt, int at, const struct atoll_column *c, char *member)
{
    const void *bytes;
    size_t n;

    if (c->type < ATOLL_COLUMN_TEXT) {
        set_number(c, member, atoll_db_i64(stmt, at));
        return true;
    }
    if (c->type == ATOLL_COLUMN_CHARS)
        return atoll_text_copy(member, c->size, atoll_db_text(stmt, at)) == 0;
    if (c->type == ATOLL_COLUMN_TEXT)
        bytes = atoll_db_text(stmt, at);
    else
        bytes = c->type == ATOLL_COLUMN_NTEXT ? (const void *)sqlite3_column_text(stmt, at)
                                              : sqlite3_column_blob(stmt, at);
    n = (size_t)sqlite3_column_bytes(stmt, at);
    if (c->type == ATOLL_COLUMN_ARRAY) {
        if (!bytes || n != c->size)
            return false;
        memcpy(member, bytes, n);
        return true;
    }
    memcpy(member, &bytes, sizeof(bytes));
    if (c->type == ATOLL_COLUMN_BYTES)
        memcpy(member + sizeof(bytes), &n, sizeof(n));
    return true;
}

static int get_sealed(struct atoll_store *store, const struct atoll_rows *rows, sqlite3_stmt *stmt,
                      int at, struct atoll_buf *opened, void *row, struct atoll_error *err)
{
    const struct atoll_column *c = &rows->columns[at];
    char purpose[128];
    const struct atoll_seal_place place = place_of(rows, c, row, purpose);
    const void *sealed = sqlite3_column_blob(stmt, at);
    const char *text = NULL;
    int r = 0;

    if (sealed) {
        r = atoll_seal_read(atoll_store_seal(store), &place, sealed,
                            (size_t)sqlite3_column_bytes(stmt, at), opened, err);
        text = atoll_buf_str(opened);
    }
    memcpy((char *)row + c->at, &text, sizeof(text));
    return r < 0 ? atoll_wrap(err, "%s of %.64s", purpose, place.owner) : 0;
}

/* Reads the columns of the row. */
static int get_row(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt *stmt,
                   void *ret_row, struct atoll_error *err)
{
    struct atoll_buf *opened = rows->opened;

    for (size_t i = 0; i < rows->count; i++)
        if (rows->columns[i].type == ATOLL_COLUMN_SEALED) {
            int r = get_sealed(store, rows, stmt, (int)i, opened++, ret_row, err);

            if (r < 0)
                return r;
        } else if (!get(stmt, (int)i, &rows->columns[i], (char *)ret_row + rows->columns[i].at)) {
            return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                              "the store holds a malformed row of %s", rows->table);
        }
    return 1;
}

int atoll_rows_next(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt **stmt, int r,
                    void *ret_row, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_SEALED_COLUMNS; i++) {
        atoll_buf_wipe(&rows->opened[i]);
        atoll_buf_init(&rows->opened[i], SEALED_MAX);
    }
    if (!*stmt)
        r = atoll_rows_read(store, rows, stmt, err);
    else if (r < 0)
        atoll_db_reset(*stmt);
    if (r >= 0)
        r = atoll_db_step(atoll_db_of(store), *stmt, err);
    if (r > 0 && (r = get_row(store, rows, *stmt, ret_row, err)) < 0)
        atoll_db_reset(*stmt);
    return r;
}
