#pragma once
#include "base/buf.h"
#include "store/sqlite/db.h"

/*
 * Rows of a table as C structs: one list of columns for writing and for reading.
 */
enum atoll_column_type {
    ATOLL_COLUMN_BOOL,
    ATOLL_COLUMN_U8,
    ATOLL_COLUMN_U16,
    ATOLL_COLUMN_I32, /* also enums */
    ATOLL_COLUMN_U32,
    ATOLL_COLUMN_I64,    /* also uint64_t */
    ATOLL_COLUMN_TEXT,   /* const char *; NULL is stored as "" and never read */
    ATOLL_COLUMN_NTEXT,  /* const char *, which may be NULL */
    ATOLL_COLUMN_SEALED, /* const char *, which may be NULL; sealed (store/seal.h) */
    ATOLL_COLUMN_BYTES,  /* const void *, and the size_t behind it in the struct */
    ATOLL_COLUMN_CHARS,  /* a text in an array of char */
    ATOLL_COLUMN_ARRAY,  /* an array of bytes, all of which are stored */
};

struct atoll_column {
    const char *name;
    enum atoll_column_type type;
    size_t at, size; /* of the member in the struct */
};
#define ATOLL_COLUMN(row, name, type, member)                                        \
    {                                                                                \
        name, ATOLL_COLUMN_##type, offsetof(row, member), sizeof(((row *)0)->member) \
    }

#define ATOLL_SEALED_COLUMNS 3 /* the most of one table */

/* Static, since the statements are kept in it. The first column of a table with a sealed one is its key. */
struct atoll_rows {
    const char *table;
    const char *rest; /* of the statement that reads: WHERE, ORDER BY */
    bool unique;      /* a row is added only if there is none with the same key */
    const struct atoll_column *columns;
    size_t count;
    char put_sql[1024], read_sql[1024];            /* written at the first use */
    struct atoll_buf opened[ATOLL_SEALED_COLUMNS]; /* the sealed texts of the row that was read */
};

/* Adds the row, or replaces the one with the same key. */
int atoll_rows_put(struct atoll_store *store, struct atoll_rows *rows, const void *row,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Prepares the statement that reads rows, for binding the parameters in `rest`. */
int atoll_rows_read(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt **ret,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads the next row; *stmt NULL: the first one. Texts and bytes are borrowed until the next call.
 * r is what the caller made of the row before: a negative number ends the walk and is returned.
 * 1: there is a row; 0: no more rows; -errno. DATA_LOSS: a row does not fit into the struct,
 * because another program wrote to the database. */
int atoll_rows_next(struct atoll_store *store, struct atoll_rows *rows, sqlite3_stmt **stmt, int r,
                    void *ret_row, struct atoll_error *err) ATOLL_MUST_CHECK;
