/* Secrets of tenants: what is stored, what is refused, and what happens when the key is lost. */
#include "engine/network/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "store/seal.h"
#include "store/secrets.h"
#include "store/store.h"
#include "sys/tree.h"
#include "test.h"

#define MOST 5

struct fixture {
    char dir[32];
    int dir_fd;
    struct atoll_store *store;
    struct atoll_secrets *secrets;
    char changed[100]; /* tenants, in the order of changes */
};

static void on_change(void *arg, const char *tenant)
{
    struct fixture *f = arg;
    size_t at = strlen(f->changed);

    (void)snprintf(f->changed + at, sizeof(f->changed) - at, "%s ", tenant);
}

static void open_all(struct fixture *f)
{
    struct atoll_error err;

    assert_int_equal(atoll_store_open_sqlite(f->dir_fd, &f->store, &err), 0);
    assert_int_equal(atoll_secrets_new(f->store, MOST, &f->secrets, &err), 0);
    atoll_secrets_watch(f->secrets, on_change, f);
}

static void close_all(struct fixture *f)
{
    f->secrets = atoll_secrets_free(f->secrets);
    f->store = atoll_store_close(f->store);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-secrets-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    open_all(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    close_all(f);
    (void)close(f->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static int put(struct fixture *f, const char *tenant, const char *name, const char *value,
               enum atoll_secret_put how, struct atoll_error *err)
{
    const struct atoll_secret_request request = {
        .tenant = tenant, .name = name, .value = value, .value_len = strlen(value), .how = how};
    struct atoll_secret_view view;

    return atoll_secrets_put(f->secrets, &request, &view, err);
}

/* The value in the store; "" if it cannot be read. */
static const char *value_of(struct fixture *f, const char *tenant, const char *name)
{
    static char text[100];
    struct atoll_error err;
    struct atoll_buf out;

    atoll_buf_init(&out, 1000);
    *text = '\0';
    if (atoll_store_secret_value(f->store, tenant, name, &out, &err) == 0)
        (void)snprintf(text, sizeof(text), "%s", atoll_buf_str(&out));
    atoll_buf_wipe(&out);
    return text;
}

static void test_create_update_remove(void **state)
{
    struct fixture *f = *state;
    struct atoll_secret_view view;
    struct atoll_error err;
    char id[40];

    assert_int_equal(put(f, "a", "key", "one", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "b", "key", "other", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "key", "two", ATOLL_SECRET_CREATE, &err), -EEXIST);
    assert_int_equal(err.kind, ATOLL_ERR_ALREADY_EXISTS);
    assert_string_equal(value_of(f, "a", "key"), "one");
    assert_int_equal(atoll_secrets_find(f->secrets, "a", "key", &view, &err), 0);
    assert_int_equal(view.version, 1);
    (void)snprintf(id, sizeof(id), "%s", view.id);
    assert_int_equal(put(f, "a", "key", "two", ATOLL_SECRET_REPLACE, &err), 0);
    assert_int_equal(put(f, "a", id, "three", ATOLL_SECRET_UPDATE, &err), 0);
    assert_int_equal(put(f, "b", id, "three", ATOLL_SECRET_UPDATE, &err), -ENOENT);
    assert_int_equal(put(f, "a", "nothing", "x", ATOLL_SECRET_UPDATE, &err), -ENOENT);

    close_all(f);
    open_all(f);
    assert_int_equal(atoll_secrets_find(f->secrets, "a", id, &view, &err), 0);
    assert_int_equal(view.version, 3);
    assert_string_equal(view.name, "key");
    assert_string_equal(value_of(f, "a", "key"), "three");
    assert_string_equal(value_of(f, "b", "key"), "other");
    assert_int_equal(atoll_secrets_remove(f->secrets, "b", "nothing", &err), -ENOENT);
    assert_int_equal(atoll_secrets_remove(f->secrets, "a", "key", &err), 0);
    assert_int_equal(atoll_secrets_count(f->secrets, "a"), 0);
    assert_int_equal(atoll_secrets_count(f->secrets, NULL), 1);
    assert_string_equal(value_of(f, "a", "key"), "");
    assert_string_equal(f->changed, "a b a a a ");
}

static void test_the_list_is_sorted(void **state)
{
    static const char *const names[] = {"m", "z", "a", "M"}, *const sorted[] = {"M", "a", "m", "z"};
    struct fixture *f = *state;
    struct atoll_secret_view view;
    struct atoll_error err;

    assert_int_equal(put(f, "other", "b", "v", ATOLL_SECRET_CREATE, &err), 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        assert_int_equal(put(f, "mine", names[i], "v", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(atoll_secrets_count(f->secrets, "mine"), 4);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sorted); i++) {
        atoll_secrets_at(f->secrets, "mine", i, &view);
        assert_string_equal(view.name, sorted[i]);
    }
    assert_int_equal(atoll_secrets_count(f->secrets, "nothing"), 0);
}

static void test_what_is_refused(void **state)
{
    static const char *const names[] = {"", ".", "..", "a b", "a/b", "a}"};
    struct fixture *f = *state;
    char *large = calloc(1, ATOLL_SECRET_VALUE_MAX + 2), name[3] = "n0";
    struct atoll_secret_request nul = {"a", "nul", "x\0y", 3, NULL, ATOLL_SECRET_CREATE};
    struct atoll_secret_view view;
    struct atoll_error err;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        assert_int_equal(put(f, "a", names[i], "v", ATOLL_SECRET_CREATE, &err), -EINVAL);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(put(f, "a", "n", "", ATOLL_SECRET_CREATE, &err), -EINVAL);
    assert_int_equal(atoll_secrets_put(f->secrets, &nul, &view, &err), -EINVAL);
    memset(large, 'x', ATOLL_SECRET_VALUE_MAX + 1);
    assert_int_equal(put(f, "a", "n", large, ATOLL_SECRET_CREATE, &err), -EINVAL);
    large[ATOLL_SECRET_VALUE_MAX] = '\0';
    assert_int_equal(put(f, "a", "n", large, ATOLL_SECRET_CREATE, &err), 1);
    /* All of a tenant together; another tenant has room. */
    assert_int_equal(put(f, "a", "n2", large, ATOLL_SECRET_CREATE, &err), -EAGAIN);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(put(f, "b", "n2", large, ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "n", large, ATOLL_SECRET_REPLACE, &err), 0);
    for (size_t i = 1; i < MOST; i++, name[1]++)
        assert_int_equal(put(f, "a", name, "v", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", name, "v", ATOLL_SECRET_CREATE, &err), -EAGAIN);
    assert_int_equal(put(f, "a", "n", "v", ATOLL_SECRET_REPLACE, &err), 0);
    free(large);
}

static void test_json_for_egress(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    struct atoll_buf out;

    assert_int_equal(put(f, "a", "key", "va\"l\\ue", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "pem", "line\nline", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "tail", "blank ", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "zoo", "\xc3\xa4", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "b", "key", "other", ATOLL_SECRET_CREATE, &err), 1);
    atoll_buf_init(&out, 1 << 20);
    assert_int_equal(atoll_secrets_json(f->secrets, "a", &out, &err), 0);
    assert_string_equal(atoll_buf_str(&out), "{\"key\":\"va\\\"l\\\\ue\",\"zoo\":\"\xc3\xa4\"}");
    atoll_buf_wipe(&out);
    atoll_buf_init(&out, 1 << 20);
    assert_int_equal(atoll_secrets_json(f->secrets, "nothing", &out, &err), 0);
    assert_string_equal(atoll_buf_str(&out), "{}");
    atoll_buf_wipe(&out);
}

static void test_policies(void **state)
{
    static const struct {
        const char *value, *error; /* NULL: accepted */
    } rows[] = {
        {"plain", NULL},
        {"Bearer ${secret.key} ${secret.key}", NULL},
        {"${e2b.secrets.KEY}", NULL},
        {"${secret.other}", "there is no secret other"},
        {"${secret.key} ${secret.gone}", "there is no secret gone"},
        {"${secret.pem}", "cannot be in a header"},
        {"${secret.", "form ${secret.NAME}"},
    };
    struct fixture *f = *state;
    char policy[300];
    struct atoll_error err;

    assert_int_equal(put(f, "a", "key", "value", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "pem", "line\nline", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "b", "other", "value", ATOLL_SECRET_CREATE, &err), 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        (void)snprintf(policy, sizeof(policy),
                       "{\"transforms\":[{\"domain\":\"example.org\",\"headers\":{"
                       "\"Authorization\":\"%s\"}}]}",
                       rows[i].value);
        assert_int_equal(atoll_secrets_check(f->secrets, "a", policy, &err) < 0,
                         rows[i].error != NULL);
        if (!rows[i].error)
            continue;
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, rows[i].error));
        assert_non_null(strstr(err.text, "network.transforms[0].headers.Authorization"));
    }
    assert_int_equal(atoll_secrets_check(f->secrets, "a", NULL, &err), 0);
}

/* A value that was copied to another row cannot be read there. */
static void test_a_moved_value(void **state)
{
    struct fixture *f = *state;
    char path[64];
    struct atoll_error err;
    sqlite3 *db;

    assert_int_equal(put(f, "a", "key", "mine", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "b", "key", "theirs", ATOLL_SECRET_CREATE, &err), 1);
    close_all(f);
    (void)snprintf(path, sizeof(path), "%s/atoll.db", f->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE secrets SET value = (SELECT value FROM secrets WHERE "
                                  "tenant = 'b') WHERE tenant = 'a'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(db);
    open_all(f);
    assert_string_equal(value_of(f, "a", "key"), "");
    assert_string_equal(value_of(f, "b", "key"), "theirs");
}

static void put_env(const struct fixture *f, const char *name, const char *bytes, size_t n)
{
    assert_true(mkdirat(f->dir_fd, "disks", 0700) == 0 || errno == EEXIST);
    assert_int_equal(atoll_fd_replace_file(f->dir_fd, name, bytes, n), 0);
}

static void test_a_lost_key(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    struct atoll_buf env;

    assert_int_equal(put(f, "a", "one", "1", ATOLL_SECRET_CREATE, &err), 1);
    assert_int_equal(put(f, "a", "two", "2", ATOLL_SECRET_CREATE, &err), 1);
    atoll_buf_init(&env, 1000);
    assert_int_equal(atoll_seal_write(atoll_store_seal(f->store),
                                      &(struct atoll_seal_place){"x", "y"}, "A=1", 4, &env, &err),
                     0);
    put_env(f, "disks/a.env", (const char *)atoll_buf_head(&env), atoll_buf_size(&env));
    put_env(f, "disks/plain.env", "A=1", 4);
    atoll_buf_done(&env);
    close_all(f);

    /* Missing. */
    assert_int_equal(renameat(f->dir_fd, "secret.key", f->dir_fd, "backup"), 0);
    assert_true(atoll_store_open_sqlite(f->dir_fd, &f->store, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "secret.key of the state directory is missing"));
    assert_non_null(strstr(err.text, "2 secrets, 1 environment of a sandbox"));
    assert_non_null(strstr(err.text, "--new-secret-key"));
    assert_int_equal(faccessat(f->dir_fd, "secret.key", F_OK, 0), -1);
    /* Damaged. */
    assert_int_equal(atoll_fd_replace_file(f->dir_fd, "secret.key", "xyz\n", 4), 0);
    assert_true(atoll_store_open_sqlite(f->dir_fd, &f->store, &err) < 0);
    assert_non_null(strstr(err.text, "is damaged"));
    /* Another one. */
    assert_int_equal(atoll_fd_replace_file(
                         f->dir_fd, "secret.key",
                         "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n", 65),
                     0);
    assert_true(atoll_store_open_sqlite(f->dir_fd, &f->store, &err) < 0);
    assert_non_null(strstr(err.text, "is not the right one"));
    /* The backup. */
    assert_int_equal(renameat(f->dir_fd, "backup", f->dir_fd, "secret.key"), 0);
    open_all(f);
    assert_string_equal(value_of(f, "a", "two"), "2");
}

static void test_a_new_key(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;

    assert_int_equal(put(f, "a", "one", "1", ATOLL_SECRET_CREATE, &err), 1);
    put_env(f, "disks/plain.env", "A=1", 4);
    close_all(f);
    /* With the right key, nothing is lost. */
    assert_int_equal(atoll_store_renew_key(f->dir_fd, &err), 0);
    open_all(f);
    assert_string_equal(value_of(f, "a", "one"), "1");
    close_all(f);

    assert_int_equal(atoll_fd_replace_file(f->dir_fd, "secret.key", "xyz\n", 4), 0);
    assert_int_equal(atoll_store_renew_key(f->dir_fd, &err), 0);
    assert_int_equal(faccessat(f->dir_fd, "secret.key.old", F_OK, 0), 0);
    assert_int_equal(faccessat(f->dir_fd, "disks/plain.env", F_OK, 0), 0);
    open_all(f);
    assert_int_equal(atoll_secrets_count(f->secrets, "a"), 0);
    assert_int_equal(put(f, "a", "one", "1", ATOLL_SECRET_CREATE, &err), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_create_update_remove, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_list_is_sorted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_for_egress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_policies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_moved_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_key, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
