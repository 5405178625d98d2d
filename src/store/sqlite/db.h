#pragma once
#include <sqlite3.h>
#include "base/error.h"

/*
 * A thin layer over SQLite: prepared statements in a table, binding and reading by type, errors as
 * struct atoll_error. One connection in WAL mode, synchronous=NORMAL: a commit is a write to the
 * page cache, which survives the death of this process at any instant; checkpoints flush the disk.
 *
 * Blocking: some tens of microseconds a call, so it is used on the loop's thread. Checkpoints wait
 * for the disk and run on a thread of their own.
 */
struct atoll_db;
struct atoll_seal;
struct atoll_store;

/* A store is an atoll_db. The opaque type keeps callers away from the functions of this header. */
static inline struct atoll_db *atoll_db_of(struct atoll_store *store)
{
    return (struct atoll_db *)store;
}

/* Opens or creates dir/name and migrates its schema. */
int atoll_db_open(int dir_fd, const char *name, struct atoll_db **ret,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_db *atoll_db_close(struct atoll_db *db);
/* What seals the values of this database. The database takes it. */
void atoll_db_set_seal(struct atoll_db *db, struct atoll_seal *seal);
const struct atoll_seal *atoll_db_seal(const struct atoll_db *db);

/* Returns a statement, prepared at its first use and cached. `sql` must be static: its address
 * is the key. The caller binds, runs, and calls atoll_db_reset(). */
int atoll_db_prepare(struct atoll_db *db, const char *sql, sqlite3_stmt **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_db_bind_text(sqlite3_stmt *stmt, int at,
                        const char *text); /* NULL binds NULL; borrowed */
void atoll_db_bind_i64(sqlite3_stmt *stmt, int at, int64_t value);
void atoll_db_bind_bytes(sqlite3_stmt *stmt, int at, const void *bytes, size_t n); /* borrowed */
/* Runs a statement that returns no rows and resets it. */
int atoll_db_run(struct atoll_db *db, sqlite3_stmt *stmt, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Runs a statement with up to two texts as parameters, the rest being NULL. */
int atoll_db_run_with(struct atoll_db *db, const char *sql, const char *first, const char *second,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* 1: there is a row; 0: no more rows, the statement is reset; -errno. */
int atoll_db_step(struct atoll_db *db, sqlite3_stmt *stmt,
                  struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_db_reset(sqlite3_stmt *stmt);
/* "" for NULL. Valid until the next step. */
const char *atoll_db_text(sqlite3_stmt *stmt, int column);
int64_t atoll_db_i64(sqlite3_stmt *stmt, int column);

/* Rows that the last statement changed. */
int atoll_db_changes(const struct atoll_db *db);
/* If the last write failed because the disk is full: deletes the reserve file, once. True: retry
 * the write. Statements outside a transaction do this by themselves. */
bool atoll_db_use_reserve(struct atoll_db *db);
/* Whether the last write failed. */
bool atoll_db_is_refused(const struct atoll_db *db);
/* Sizes of the database file and of its log. */
void atoll_db_sizes(const struct atoll_db *db, uint64_t *ret_bytes, uint64_t *ret_log_bytes);

/* All statements until the end are one transaction. `what` is its name in test switches, a static
 * string. */
int atoll_db_begin(struct atoll_db *db, const char *what, struct atoll_error *err) ATOLL_MUST_CHECK;
/* r is the result of the statements: 0 commits, a negative number rolls back and is returned. */
int atoll_db_end(struct atoll_db *db, int r, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The migrations, oldest first; store/sqlite/schema.c. Each is run once, in a transaction, and its
 * number is kept in PRAGMA user_version. Never change one that was released: append. */
extern const char *const atoll_db_migrations[];
extern const size_t atoll_db_migration_count;
