#include "store/sqlite/sealed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "store/seal.h"

#define OTHERS(column) " WHERE substr(" column ", 1, 12) != ?" /* NULL does not match */

/* Statements for the rows that are sealed with another key than the one with this head. */
static const struct {
    const char *count, *drop;
    const char *one, *many;
} tables[] = {
    {"SELECT count(*) FROM secrets" OTHERS("value"), "DELETE FROM secrets" OTHERS("value"),
     "secret", "secrets"},
    /* Without its policy, a sandbox has no network. */
    {"SELECT count(*) FROM sandboxes" OTHERS("network_policy"),
     "UPDATE sandboxes SET network_policy = NULL, network = 0" OTHERS("network_policy"),
     "network policy", "network policies"},
    /* Without its key, a sandbox at a service cannot be reached: it ends there by itself. */
    {"SELECT count(*) FROM sandboxes" OTHERS("credential"),
     "UPDATE sandboxes SET credential = NULL" OTHERS("credential"), "key at a service",
     "keys at services"},
    /* Without its request, a task can neither be continued nor tried again. */
    {"SELECT count(*) FROM tasks" OTHERS("request"), "DELETE FROM tasks" OTHERS("request"), "task",
     "tasks"},
    {"SELECT count(*) FROM connectors" OTHERS("definition"),
     "DELETE FROM connectors" OTHERS("definition"), "connector", "connectors"},
    /* Without its request, a sandbox cannot be made when its build is done. */
    {"SELECT count(*) FROM waiting_sandboxes" OTHERS("request"),
     "DELETE FROM waiting_sandboxes" OTHERS("request"), "waiting sandbox", "waiting sandboxes"},
};

#define KINDS (ATOLL_ARRAY_LEN(tables) + 1) /* the last: environments of sandboxes */

/* Rows. head NULL: there is no key, so all of them have another one. */

static int prepare(struct atoll_db *db, const char *sql, const uint8_t *head, sqlite3_stmt **ret,
                   struct atoll_error *err)
{
    int r = atoll_db_prepare(db, sql, ret, err);

    if (r == 0)
        atoll_db_bind_bytes(*ret, 1, head ? head : (const uint8_t *)"",
                            head ? ATOLL_SEAL_HEAD_BYTES : 0);
    return r;
}

static int count_rows(struct atoll_db *db, const char *sql, const uint8_t *head, size_t *ret,
                      struct atoll_error *err)
{
    sqlite3_stmt *stmt;
    int r = prepare(db, sql, head, &stmt, err);

    if (r == 0)
        r = atoll_db_step(db, stmt, err);
    if (r <= 0)
        return r;
    *ret = (size_t)atoll_db_i64(stmt, 0);
    atoll_db_reset(stmt);
    return 0;
}

/* Files. */

static bool is_other_file(int dir_fd, const char *name, const uint8_t *head)
{
    size_t n = strlen(name);
    uint8_t bytes[ATOLL_SEAL_EXTRA_BYTES];
    ssize_t got;
    int fd;

    if (n < 4 || strcmp(name + n - 4, ".env") != 0)
        return false;
    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    got = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    if (fd >= 0)
        (void)close(fd);
    return got > 0 && atoll_seal_is_sealed(bytes, (size_t)got) &&
           (!head || memcmp(bytes, head, ATOLL_SEAL_HEAD_BYTES) != 0);
}

/* Returns how many environments are sealed with another key. */
static size_t each_file(int state_fd, const uint8_t *head, bool drop)
{
    int fd = openat(state_fd, "disks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    size_t count = 0;

    if (fd >= 0 && !dir)
        (void)close(fd);
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_other_file(dirfd(dir), entry->d_name, head)) {
            count++;
            if (drop)
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    if (dir)
        (void)closedir(dir);
    return count;
}

/* The key. */

static int count_others(struct atoll_db *db, int dir_fd, const uint8_t *head, size_t counts[KINDS],
                        struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(tables); i++)
        r = count_rows(db, tables[i].count, head, &counts[i], err);
    counts[KINDS - 1] = each_file(dir_fd, head, false);
    return r;
}

/* "3 secrets and 1 environment of a sandbox"; "" if all counts are 0. */
static void describe(const size_t counts[KINDS], char *out, size_t cap)
{
    size_t at = 0;

    *out = '\0';
    for (size_t i = 0; i < KINDS; i++) {
        bool is_row = i < ATOLL_ARRAY_LEN(tables), one = counts[i] == 1;
        const char *what = is_row
                               ? (one ? tables[i].one : tables[i].many)
                               : (one ? "environment of a sandbox" : "environments of sandboxes");
        if (counts[i] > 0 && at < cap)
            at += (size_t)snprintf(out + at, cap - at, "%s%zu %s", at > 0 ? ", " : "", counts[i],
                                   what);
    }
}

static int check_others(struct atoll_db *db, int dir_fd, const uint8_t *head, const char *problem,
                        struct atoll_error *err)
{
    size_t counts[KINDS] = {0};
    char what[160];
    int r = count_others(db, dir_fd, head, counts, err);

    describe(counts, what, sizeof(what));
    if (r < 0 || !*what)
        return r;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOKEY,
                      "the file " ATOLL_SEAL_KEY_FILE
                      " of the state directory %s, and these are encrypted with the right one: %s. "
                      "Restore the file from a backup and start again. If there is no backup they "
                      "are lost: atolld --new-secret-key deletes them and makes a new key",
                      problem, what);
}

int atoll_sealed_open(struct atoll_db *db, int dir_fd, struct atoll_error *err)
{
    struct atoll_seal *seal = NULL;
    struct atoll_error why = {0};
    int r = atoll_seal_load(dir_fd, &seal, &why);

    if (r < 0 && why.kind != ATOLL_ERR_NOT_FOUND && why.kind != ATOLL_ERR_DATA_LOSS) {
        *err = why;
        return r;
    }
    r = check_others(db, dir_fd, seal ? atoll_seal_head(seal) : NULL,
                     seal                              ? "is not the right one"
                     : why.kind == ATOLL_ERR_NOT_FOUND ? "is missing"
                                                       : "is damaged",
                     err);
    if (r == 0 && why.kind == ATOLL_ERR_DATA_LOSS)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBADMSG,
                       "%s. Nothing is encrypted with it: remove the file and start again",
                       why.text);
    if (r == 0 && !seal)
        r = atoll_seal_make(dir_fd, &seal, err);
    if (r < 0) {
        (void)atoll_seal_free(seal);
        return r;
    }
    atoll_db_set_seal(db, seal);
    return 0;
}

int atoll_sealed_renew(struct atoll_db *db, int dir_fd, struct atoll_error *err)
{
    struct atoll_seal *seal = NULL;
    sqlite3_stmt *stmt;
    int r = atoll_seal_load(dir_fd, &seal, err);

    if (r < 0) {
        (void)renameat(dir_fd, ATOLL_SEAL_KEY_FILE, dir_fd, ATOLL_SEAL_KEY_FILE ".old");
        r = atoll_seal_make(dir_fd, &seal, err);
    }
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(tables); i++) {
        r = prepare(db, tables[i].drop, atoll_seal_head(seal), &stmt, err);
        if (r == 0)
            r = atoll_db_run(db, stmt, err);
    }
    if (r == 0)
        (void)each_file(dir_fd, atoll_seal_head(seal), true);
    (void)atoll_seal_free(seal);
    return r;
}
