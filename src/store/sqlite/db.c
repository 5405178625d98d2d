#include "store/sqlite/db.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "base/switches.h"
#include "store/seal.h"
#include "store/sqlite/reserve.h"
#include "store/store.h"
#include "sys/thread.h"

#define STATEMENTS_MAX 128
#define CHECKPOINT_SECONDS 2
#define CHECKPOINT_BUSY_MS 1000
#define PASSES_MAX 4
#define LEFT_PAGES_MAX 256
/* Page size of a new database. A commit writes whole pages to the log, and a row has a few
 * hundred bytes. */
#define PAGE_BYTES "1024"

struct atoll_db {
    sqlite3 *sqlite;
    char path[32];           /* below /proc/self/fd */
    int dir_fd;              /* borrowed */
    struct atoll_seal *seal; /* owned */
    struct {
        const char *sql;
        sqlite3_stmt *stmt;
    } cache[STATEMENTS_MAX];
    size_t cached;
    pthread_t checkpointer;
    bool checkpointing;
    const char *transaction; /* name of the transaction in test switches; static */
    bool refused, full;      /* the last write failed; it failed because the disk is full */
    bool in_transaction;
    struct atoll_reserve reserve;
    int log_pages_max;    /* ATOLL_STORE_LOG_BYTES in pages */
    atomic_int log_pages; /* in the log after the last commit; written by the loop's thread */
    pthread_mutex_t lock; /* guards `ending` and `due` */
    pthread_cond_t wake;
    bool ending, due;
};

static int fail_full(struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO,
                      "the daemon cannot write its state: its own disk is full; free some space "
                      "there and try again");
}

static int fail(const struct atoll_db *db, const char *what, struct atoll_error *err)
{
    if ((sqlite3_extended_errcode(db->sqlite) & 0xff) == SQLITE_FULL)
        return fail_full(err);
    return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "store: %.200s: %s", what,
                      sqlite3_errmsg(db->sqlite));
}

static int run_sql(struct atoll_db *db, const char *sql, struct atoll_error *err)
{
    return sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(db, sql, err);
}

static int read_number(struct atoll_db *db, const char *sql, int *ret, struct atoll_error *err)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db->sqlite, sql, -1, &stmt, NULL) != SQLITE_OK)
        return fail(db, sql, err);
    *ret = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int(stmt, 0) : 0;
    (void)sqlite3_finalize(stmt);
    return 0;
}

static int migrate(struct atoll_db *db, struct atoll_error *err)
{
    char pragma[48];
    int version = 0, r = read_number(db, "PRAGMA user_version", &version, err);

    if (r == 0 && (size_t)version > atoll_db_migration_count)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPROTO,
                          "the state directory was written by a newer version of Atoll (schema %d)",
                          version);
    for (; r == 0 && (size_t)version < atoll_db_migration_count; version++) {
        r = atoll_db_begin(db, "migration", err);
        if (r == 0)
            r = run_sql(db, atoll_db_migrations[version], err);
        (void)snprintf(pragma, sizeof(pragma), "PRAGMA user_version = %d", version + 1);
        if (r == 0)
            r = run_sql(db, pragma, err);
        r = atoll_db_end(db, r, err);
    }
    return r;
}

/* SQLite calls this after each commit, on the loop's thread. It wakes the checkpoint thread
 * early when the log grows quickly. */
static int on_commit(void *arg, sqlite3 *sqlite ATOLL_UNUSED, const char *name ATOLL_UNUSED,
                     int pages)
{
    struct atoll_db *db = arg;

    atomic_store_explicit(&db->log_pages, pages, memory_order_relaxed);
    if (pages >= db->log_pages_max / 2) {
        (void)pthread_mutex_lock(&db->lock);
        db->due = true;
        (void)pthread_cond_signal(&db->wake);
        (void)pthread_mutex_unlock(&db->lock);
    }
    return SQLITE_OK;
}

static int log_pages(struct atoll_db *db)
{
    return atomic_load_explicit(&db->log_pages, memory_order_relaxed);
}

/* Passive checkpoints, which do not block writers, do most of the work. The log restarts only if
 * no commit came meanwhile, so under load a last, short pass blocks writers. */
static void checkpoint_once(struct atoll_db *db, sqlite3 *own)
{
    int before, passes = 0;

    do {
        before = log_pages(db);
        (void)sqlite3_wal_checkpoint_v2(own, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    } while (log_pages(db) - before > LEFT_PAGES_MAX && ++passes < PASSES_MAX);
    if (log_pages(db) >= db->log_pages_max)
        (void)sqlite3_wal_checkpoint_v2(own, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
}

static void wait_until_due(struct atoll_db *db)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CHECKPOINT_SECONDS;
    while (!db->ending && !db->due &&
           pthread_cond_timedwait(&db->wake, &db->lock, &until) != ETIMEDOUT)
        ;
    db->due = false;
}

/* Opens a connection for checkpoints. SQLite ignores a checkpoint of a connection that has read
 * nothing: it does not know yet that there is a log. */
static int open_checkpointer(const struct atoll_db *db, sqlite3 **ret)
{
    int code = sqlite3_open_v2(db->path, ret, SQLITE_OPEN_READWRITE, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(*ret, CHECKPOINT_BUSY_MS);
    if (code == SQLITE_OK)
        code = sqlite3_exec(*ret, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    return code;
}

/* The checkpoint thread: moves the log into the database and flushes the disk, off the loop's
 * thread. */
static void *checkpoint(void *arg)
{
    struct atoll_db *db = arg;
    sqlite3 *own;

    atoll_thread_enter();
    if (open_checkpointer(db, &own) != SQLITE_OK) {
        (void)sqlite3_close(own);
        return NULL;
    }
    (void)pthread_mutex_lock(&db->lock);
    while (!db->ending) {
        wait_until_due(db);
        (void)pthread_mutex_unlock(&db->lock);
        checkpoint_once(db, own);
        atoll_reserve_take(&db->reserve);
        (void)pthread_mutex_lock(&db->lock);
    }
    (void)pthread_mutex_unlock(&db->lock);
    (void)sqlite3_close(own);
    return NULL;
}

/* Blocks all signals in the thread: only the loop's thread handles them, and here they would end
 * the process. */
static int start_checkpointer(struct atoll_db *db)
{
    sigset_t all, before;
    int r;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&db->checkpointer, NULL, checkpoint, db);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

/* SQLite truncates the log file to that size when the log restarts. */
static int bound_log(struct atoll_db *db, struct atoll_error *err)
{
    int page_bytes = 0, r = read_number(db, "PRAGMA page_size", &page_bytes, err);
    char pragma[64];

    if (r < 0)
        return r;
    db->log_pages_max = ATOLL_STORE_LOG_BYTES / ATOLL_MAX(page_bytes, 512);
    (void)sqlite3_wal_hook(db->sqlite, on_commit, db);
    (void)snprintf(pragma, sizeof(pragma), "PRAGMA journal_size_limit = %d", ATOLL_STORE_LOG_BYTES);
    return run_sql(db, pragma, err);
}

static int configure(struct atoll_db *db, struct atoll_error *err)
{
    int r = run_sql(
        db,
        "PRAGMA page_size = " PAGE_BYTES ";"
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA busy_timeout = 2000;"
        "PRAGMA temp_store = MEMORY", /* the daemon may not write to /tmp */
        err);

    if (r == 0)
        r = bound_log(db, err);
    if (r == 0)
        atoll_reserve_take(&db->reserve);
    if (r == 0)
        r = migrate(db, err);
    if (r == 0 && start_checkpointer(db) < 0)
        r = atoll_fail_errno(err, EAGAIN, "start the store's thread");
    db->checkpointing = r == 0;
    return r;
}

int atoll_db_open(int dir_fd, const char *name, struct atoll_db **ret, struct atoll_error *err)
{
    struct atoll_db *db = calloc(1, sizeof(*db));
    int r;

    if (!db)
        return atoll_fail_errno(err, ENOMEM, "store");
    (void)pthread_mutex_init(&db->lock, NULL);
    (void)pthread_cond_init(&db->wake, NULL);
    atoll_reserve_init(&db->reserve, dir_fd);
    (void)snprintf(db->path, sizeof(db->path), "/proc/self/fd/%d/%s", dir_fd, name);
    if (sqlite3_open_v2(db->path, &db->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        r = fail(db, "open", err);
    else
        r = configure(db, err);
    if (r < 0) {
        (void)atoll_db_close(db);
        return r;
    }
    *ret = db;
    return 0;
}

struct atoll_db *atoll_db_close(struct atoll_db *db)
{
    if (!db)
        return NULL;
    (void)pthread_mutex_lock(&db->lock);
    db->ending = true;
    (void)pthread_cond_signal(&db->wake);
    (void)pthread_mutex_unlock(&db->lock);
    if (db->checkpointing)
        (void)pthread_join(db->checkpointer, NULL);
    for (size_t i = 0; i < db->cached; i++)
        (void)sqlite3_finalize(db->cache[i].stmt);
    (void)sqlite3_close(db->sqlite);
    (void)atoll_seal_free(db->seal);
    (void)pthread_cond_destroy(&db->wake);
    (void)pthread_mutex_destroy(&db->lock);
    free(db);
    return NULL;
}

void atoll_db_set_seal(struct atoll_db *db, struct atoll_seal *seal)
{
    db->seal = seal;
}

const struct atoll_seal *atoll_db_seal(const struct atoll_db *db)
{
    return db->seal;
}

int atoll_db_prepare(struct atoll_db *db, const char *sql, sqlite3_stmt **ret,
                     struct atoll_error *err)
{
    for (size_t i = 0; i < db->cached; i++)
        if (db->cache[i].sql == sql) {
            *ret = db->cache[i].stmt;
            return 0;
        }
    if (db->cached == STATEMENTS_MAX)
        return atoll_fail_errno(err, ENOBUFS, "store: too many statements");
    if (sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) != SQLITE_OK)
        return fail(db, sql, err);
    db->cache[db->cached].sql = sql;
    db->cache[db->cached++].stmt = *ret;
    return 0;
}

void atoll_db_bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
    (void)sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

void atoll_db_bind_i64(sqlite3_stmt *stmt, int at, int64_t value)
{
    (void)sqlite3_bind_int64(stmt, at, value);
}

void atoll_db_bind_bytes(sqlite3_stmt *stmt, int at, const void *bytes, size_t n)
{
    (void)sqlite3_bind_blob64(stmt, at, bytes, n, SQLITE_STATIC);
}

void atoll_db_reset(sqlite3_stmt *stmt)
{
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
}

static int step(struct atoll_db *db, sqlite3_stmt *stmt)
{
    int code = sqlite3_step(stmt);

    bool failed = code != SQLITE_DONE && code != SQLITE_ROW && code != SQLITE_CONSTRAINT;

    /* A read that succeeds says nothing about writes; SQLite reports COMMIT as a read. */
    if (failed || !sqlite3_stmt_readonly(stmt)) {
        db->refused = failed;
        db->full = code == SQLITE_FULL;
    }
    return code;
}

bool atoll_db_use_reserve(struct atoll_db *db)
{
    return db->full && atoll_reserve_give(&db->reserve);
}

int atoll_db_changes(const struct atoll_db *db)
{
    return sqlite3_changes(db->sqlite);
}

int atoll_db_step(struct atoll_db *db, sqlite3_stmt *stmt, struct atoll_error *err)
{
    int code = step(db, stmt), r = 0;

    if (code == SQLITE_FULL && !db->in_transaction && atoll_db_use_reserve(db)) {
        (void)sqlite3_reset(stmt); /* values stay bound */
        code = step(db, stmt);
    }
    if (code == SQLITE_ROW)
        return 1;
    if (code == SQLITE_CONSTRAINT)
        r = atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "store: %s",
                       sqlite3_errmsg(db->sqlite));
    else if (code != SQLITE_DONE)
        r = fail(db, sqlite3_sql(stmt), err);
    atoll_db_reset(stmt);
    return r;
}

/* Test switch "store.VERB.TABLE", for example store.insert.sandboxes: the write fails, or the
 * process dies there. */
static int injected(const char *operation ATOLL_UNUSED, const char *table ATOLL_UNUSED,
                    struct atoll_error *err)
{
    int errnum = atoll_faultf("store.%s.%s", operation, table);

    if (errnum == ENOSPC)
        return fail_full(err);
    return errnum ? atoll_fail(err, ATOLL_ERR_INTERNAL, errnum, "store: a fault injected by a test")
                  : 0;
}

#ifdef ATOLL_TEST_SWITCHES
/* "insert" and "sandboxes", of INSERT OR REPLACE INTO sandboxes ... */
static void name_write(const char *sql, char verb[16], char table[32])
{
    static const char *const before[] = {" INTO ", " FROM ", "UPDATE "};
    const char *at = NULL;
    size_t i;

    for (i = 0; !at && i < ATOLL_ARRAY_LEN(before); i++)
        at = strstr(sql, before[i]);
    *verb = *table = '\0';
    (void)sscanf(sql, "%15[A-Z]", verb);
    (void)sscanf(at ? at + strlen(before[i - 1]) : "", "%31[a-z_]", table);
    for (char *c = verb; *c; c++)
        *c = (char)(*c | 0x20);
}
#else
static void name_write(const char *sql ATOLL_UNUSED, char verb[16] ATOLL_UNUSED,
                       char table[32] ATOLL_UNUSED)
{
}
#endif

int atoll_db_run(struct atoll_db *db, sqlite3_stmt *stmt, struct atoll_error *err)
{
    char verb[16], table[32];
    int r;

    name_write(sqlite3_sql(stmt), verb, table);
    r = injected(verb, table, err);
    if (r < 0) {
        atoll_db_reset(stmt);
        return r;
    }
    r = atoll_db_step(db, stmt, err);
    if (r > 0)
        atoll_db_reset(stmt);
    if (r >= 0)
        atoll_fault_die("store.%s.%s.after", verb, table);
    return r < 0 ? r : 0;
}

int atoll_db_run_with(struct atoll_db *db, const char *sql, const char *first, const char *second,
                      struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = atoll_db_prepare(db, sql, &stmt, err);

    if (r < 0)
        return r;
    if (first)
        atoll_db_bind_text(stmt, 1, first);
    if (second)
        atoll_db_bind_text(stmt, 2, second);
    return atoll_db_run(db, stmt, err);
}

bool atoll_db_is_refused(const struct atoll_db *db)
{
    return db->refused;
}

static uint64_t size_of(const struct atoll_db *db, const char *suffix)
{
    char path[48];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s%s", db->path, suffix);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

void atoll_db_sizes(const struct atoll_db *db, uint64_t *ret_bytes, uint64_t *ret_log_bytes)
{
    *ret_bytes = size_of(db, "");
    *ret_log_bytes = size_of(db, "-wal");
}

const char *atoll_db_text(sqlite3_stmt *stmt, int column)
{
    const unsigned char *text = sqlite3_column_text(stmt, column);
    return text ? (const char *)text : "";
}

int64_t atoll_db_i64(sqlite3_stmt *stmt, int column)
{
    return sqlite3_column_int64(stmt, column);
}

int atoll_db_begin(struct atoll_db *db, const char *what, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    static const char sql[] = "BEGIN IMMEDIATE";
    int r = injected("begin", what, err);

    if (r == 0)
        r = atoll_db_prepare(db, sql, &stmt, err);
    db->transaction = what;
    if (r == 0)
        r = atoll_db_step(db, stmt, err);
    db->in_transaction = r == 0;
    return r;
}

static int commit(struct atoll_db *db, struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    static const char sql[] = "COMMIT";
    int r = injected("commit", db->transaction, err);

    if (r == 0)
        r = atoll_db_prepare(db, sql, &stmt, err);
    if (r == 0)
        r = atoll_db_step(db, stmt, err);
    db->in_transaction = db->in_transaction && r < 0;
    if (r == 0)
        atoll_fault_die("store.commit.%s.after", db->transaction);
    return r;
}

int atoll_db_end(struct atoll_db *db, int r, struct atoll_error *err)
{
    if (r == 0)
        r = commit(db, err);
    if (r < 0) {
        (void)sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL);
        db->in_transaction = false;
    }
    return r;
}
