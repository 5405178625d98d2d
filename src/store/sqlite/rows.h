#pragma once
#include "store/sqlite/db.h"

/*
 * Rows of a table as C structs: one list of columns for writing and for reading.
 */
enum atoll_column_type {
    ATOLL_COLUMN_BOOL,
    ATOLL_COLUMN_I32, /* also enums */
    ATOLL_COLUMN_U32,
    ATOLL_COLUMN_I64,   /* also uint64_t */
    ATOLL_COLUMN_TEXT,  /* const char *; NULL is stored as "" and never read */
    ATOLL_COLUMN_NTEXT, /* const char *, which may be NULL */
    ATOLL_COLUMN_BYTES, /* const void *, and the size_t behind it in the struct */
};

struct atoll_column {
    const char *name;
    enum atoll_column_type type;
    size_t at; /* offset in the struct */
};

/* Static, since the statements are kept in it. */
struct atoll_rows {
    const char *table, *order; /* the column by which rows are read */
    const struct atoll_column *columns;
    size_t count;
    char put_sql[1024], read_sql[1024]; /* written at the first use */
};

/* Adds the row, or replaces the one with the same key. */
int atoll_rows_put(struct atoll_db *db, struct atoll_rows *rows, const void *row,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Prepares the statement that reads all rows, for atoll_db_step(). */
int atoll_rows_read(struct atoll_db *db, struct atoll_rows *rows, sqlite3_stmt **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Copies the current row; texts and bytes are borrowed until the next step. */
void atoll_rows_get(sqlite3_stmt *stmt, const struct atoll_rows *rows, void *ret_row);
