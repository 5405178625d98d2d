/*
 * Keys and whom they speak for, the file with the first one, rate limits, and the audit log.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "api/api.h"
#include "api/audit.h"
#include "api/e2b/e2b.h"
#include "api/limits.h"
#include "base/fd.h"
#include "net/address.h"
#include "store/store.h"

static char dir[64];
static int dir_fd;

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-access-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"atoll.db",  "atoll.db-wal", "atoll.db-shm",
                                        "audit.log", "audit.log.1",  "api-key",
                                        "reserve",   "secret.key"};

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        (void)unlinkat(dir_fd, names[i], 0);
    (void)close(dir_fd);
    return rmdir(dir);
}

/* Keys. */

static size_t count_keys(const struct atoll_access *access)
{
    struct atoll_key_view view;
    size_t pos = 0, count = 0;

    while (atoll_access_next(access, &pos, &view))
        count++;
    return count;
}

static void scopes_have_names(void **state)
{
    enum atoll_scope scope;

    (void)state;
    assert_int_equal(atoll_scope_by_name("read", &scope), 0);
    assert_int_equal(scope, ATOLL_SCOPE_READ);
    assert_int_equal(atoll_scope_by_name("admin", &scope), 0);
    assert_int_equal(scope, ATOLL_SCOPE_ADMIN);
    assert_int_equal(atoll_scope_by_name("tools", &scope), 0);
    assert_true(scope > ATOLL_SCOPE_READ && scope < ATOLL_SCOPE_WRITE);
    assert_string_equal(atoll_scope_name(ATOLL_SCOPE_WRITE), "write");
    assert_true(atoll_scope_by_name("public", &scope) < 0);
    assert_true(atoll_scope_by_name("", &scope) < 0);
    assert_true(atoll_scope_by_name("Write", &scope) < 0);
}

static void keys_are_found_by_themselves_only(void **state)
{
    char first[ATOLL_KEY_LEN + 1], second[ATOLL_KEY_LEN + 1], cut[ATOLL_KEY_LEN + 1];
    struct atoll_access *access;
    struct atoll_key_view made, view;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_access_new(NULL, &access, &err), 0);
    assert_int_equal(atoll_access_create(access, "acme", ATOLL_SCOPE_WRITE, first, &made, &err), 0);
    assert_true(atoll_key_is_valid(first));
    assert_false(atoll_access_has_admin(access));
    assert_int_equal(atoll_access_create(access, "other", ATOLL_SCOPE_ADMIN, second, &view, &err),
                     0);
    assert_true(atoll_access_has_admin(access));
    assert_string_not_equal(first, second);

    assert_true(atoll_access_find(access, first, &view));
    assert_string_equal(view.tenant, "acme");
    assert_string_equal(view.id, made.id);
    assert_int_equal(view.scope, ATOLL_SCOPE_WRITE);
    assert_true(view.created_unix_ms > 0);
    assert_false(atoll_access_find(access, "", &view));
    assert_false(atoll_access_find(access, made.id, &view));
    memcpy(cut, first, sizeof(cut));
    cut[ATOLL_KEY_LEN - 1] = '\0';
    assert_false(atoll_access_find(access, cut, &view));
    cut[ATOLL_KEY_LEN - 1] = (char)(first[ATOLL_KEY_LEN - 1] == 'a' ? 'b' : 'a');
    assert_false(atoll_access_find(access, cut, &view));

    assert_int_equal(atoll_access_add(access, first, "x", ATOLL_SCOPE_READ, &view, &err), -EEXIST);
    assert_int_equal(count_keys(access), 2);
    assert_int_equal(atoll_access_remove(access, "nothing", &err), -ENOENT);
    assert_int_equal(atoll_access_remove(access, made.id, &err), 0);
    assert_false(atoll_access_find(access, first, &view));
    assert_true(atoll_access_find(access, second, &view));
    (void)atoll_access_free(access);
}

#define E2B_KEY_LEN 84
/* "e2b_" and the 40 characters in hex: the same key, and no other text is. */
static void keys_have_a_second_spelling(void **state)
{
    char key[ATOLL_KEY_LEN + 1], e2b[E2B_KEY_LEN + 1], wrong[E2B_KEY_LEN + 2];
    struct atoll_auth auth = {.state_fd = ATOLL_NO_FD};
    struct atoll_key_view made, view;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_e2b_key.len, E2B_KEY_LEN);
    atoll_e2b_key.write("atl_abcdefghijklmnopqrstuvwxyz0123456789abcd", e2b);
    assert_string_equal(e2b, "e2b_6162636465666768696a6b6c6d6e6f707172737475767778797a"
                             "3031323334353637383961626364");
    assert_int_equal(atoll_access_new(NULL, &auth.access, &err), 0);
    assert_int_equal(atoll_access_create(auth.access, "acme", ATOLL_SCOPE_WRITE, key, &made, &err),
                     0);
    atoll_e2b_key.write(key, e2b);
    assert_int_equal(strlen(e2b), E2B_KEY_LEN);
    assert_true(atoll_auth_find_key(&auth, e2b, &view));
    assert_string_equal(view.id, made.id);
    for (size_t i = 0; i < E2B_KEY_LEN; i++) {
        memcpy(wrong, e2b, sizeof(e2b));
        wrong[i] = (char)(e2b[i] == '7' ? '6' : '7');
        assert_false(atoll_auth_find_key(&auth, wrong, &view));
    }
    memcpy(wrong, e2b, sizeof(e2b));
    wrong[20] = 'G';
    assert_false(atoll_auth_find_key(&auth, wrong, &view));
    memcpy(wrong, e2b, sizeof(e2b));
    wrong[E2B_KEY_LEN - 2] = '\0';
    assert_false(atoll_auth_find_key(&auth, wrong, &view));
    (void)snprintf(wrong, sizeof(wrong), "%s0", e2b);
    assert_false(atoll_auth_find_key(&auth, wrong, &view));
    /* Only the one we keep is a key that can be added. */
    assert_false(atoll_key_is_valid(e2b));
    (void)atoll_access_free(auth.access);
}

static void bad_keys_are_not_made(void **state)
{
    char too_long[66] = {0};
    const char *const tenants[] = {"", ".hidden", "a b", "a/b", "\xc3\xa4", too_long};
    char key[ATOLL_KEY_LEN + 1];
    struct atoll_access *access;
    struct atoll_key_view view;
    struct atoll_error err;

    (void)state;
    memset(too_long, 'a', sizeof(too_long) - 1);
    assert_int_equal(atoll_access_new(NULL, &access, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tenants); i++) {
        assert_true(atoll_access_create(access, tenants[i], ATOLL_SCOPE_READ, key, &view, &err) <
                    0);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
    assert_true(atoll_access_create(access, "a", ATOLL_SCOPE_PUBLIC, key, &view, &err) < 0);
    assert_int_equal(count_keys(access), 0);
    (void)atoll_access_free(access);
}

/* Looks for a text in every file of the directory. */
static bool is_on_disk(const char *text)
{
    static const char *const names[] = {"atoll.db", "atoll.db-wal"};
    static char bytes[4 << 20];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        ATOLL_AUTOCLOSE int fd = openat(dir_fd, names[i], O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
        if (n > 0 && memmem(bytes, (size_t)n, text, strlen(text)))
            return true;
    }
    return false;
}

static void keys_outlive_the_daemon_as_hashes(void **state)
{
    char kept[ATOLL_KEY_LEN + 1], gone[ATOLL_KEY_LEN + 1], id[33];
    struct atoll_access *access;
    struct atoll_store *store;
    struct atoll_key_view view;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_store_open_sqlite(dir_fd, &store, &err), 0);
    assert_int_equal(atoll_access_new(store, &access, &err), 0);
    assert_int_equal(atoll_access_create(access, "acme", ATOLL_SCOPE_READ, kept, &view, &err), 0);
    (void)snprintf(id, sizeof(id), "%s", view.id);
    assert_int_equal(atoll_access_create(access, "acme", ATOLL_SCOPE_ADMIN, gone, &view, &err), 0);
    assert_int_equal(atoll_access_remove(access, view.id, &err), 0);
    assert_true(is_on_disk(id)); /* the search itself works */
    assert_false(is_on_disk(kept));
    assert_false(is_on_disk(kept + 4));
    (void)atoll_access_free(access);
    (void)atoll_store_close(store);

    assert_int_equal(atoll_store_open_sqlite(dir_fd, &store, &err), 0);
    assert_int_equal(atoll_access_new(store, &access, &err), 0);
    assert_int_equal(count_keys(access), 1);
    assert_true(atoll_access_find(access, kept, &view));
    assert_string_equal(view.tenant, "acme");
    assert_string_equal(view.id, id);
    assert_int_equal(view.scope, ATOLL_SCOPE_READ);
    assert_false(atoll_access_find(access, gone, &view));
    (void)atoll_access_free(access);
    (void)atoll_store_close(store);
}

/* The first key. */

static void the_first_key_is_in_a_file(void **state)
{
    char first[ATOLL_KEY_LEN + 1], again[ATOLL_KEY_LEN + 1], text[128];
    struct atoll_auth auth = {.state_fd = dir_fd};
    struct atoll_key_view view;
    struct atoll_error err;
    struct stat st;

    (void)state;
    assert_int_equal(atoll_access_new(NULL, &auth.access, &err), 0);
    assert_int_equal(atoll_auth_open(&auth, first, &err), 0);
    assert_true(atoll_key_is_valid(first));
    assert_int_equal(atoll_fd_read_file(dir_fd, "api-key", text, sizeof(text)), ATOLL_KEY_LEN + 1);
    assert_memory_equal(text, first, ATOLL_KEY_LEN);
    assert_int_equal(fstatat(dir_fd, "api-key", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(atoll_access_find(auth.access, first, &view));
    assert_string_equal(view.tenant, "default");
    assert_int_equal(view.scope, ATOLL_SCOPE_ADMIN);

    /* Shown once, and taken up again should the store not have it. */
    assert_int_equal(atoll_auth_open(&auth, again, &err), 0);
    assert_string_equal(again, "");
    assert_int_equal(count_keys(auth.access), 1);
    (void)atoll_access_free(auth.access);
    assert_int_equal(atoll_access_new(NULL, &auth.access, &err), 0);
    assert_int_equal(atoll_auth_open(&auth, again, &err), 0);
    assert_string_equal(again, "");
    assert_true(atoll_access_find(auth.access, first, &view));

    /* Taken away, it does not come back with the file. */
    assert_int_equal(atoll_auth_remove_key(&auth, view.id, &err), 0);
    assert_true(fstatat(dir_fd, "api-key", &st, 0) < 0);
    assert_int_equal(atoll_auth_open(&auth, again, &err), 0);
    assert_true(atoll_key_is_valid(again));
    assert_string_not_equal(first, again);
    assert_false(atoll_access_find(auth.access, first, &view));
    (void)atoll_access_free(auth.access);
}

static void a_careless_key_file_is_refused(void **state)
{
    char key[ATOLL_KEY_LEN + 1], path[128];
    struct atoll_auth auth = {.state_fd = dir_fd};
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_access_new(NULL, &auth.access, &err), 0);
    assert_int_equal(atoll_auth_open(&auth, key, &err), 0);
    (void)snprintf(path, sizeof(path), "%s/api-key", dir);
    assert_int_equal(chmod(path, 0640), 0);
    assert_true(atoll_auth_open(&auth, key, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 10), 0);
    assert_true(atoll_auth_open(&auth, key, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    (void)atoll_access_free(auth.access);
}

/* Rates. */

static void buckets_fill_again(void **state)
{
    struct atoll_buckets *b = atoll_buckets_new((struct atoll_rate){10, 3}, 8);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(atoll_buckets_take(b, "a", 1000), 0);
    assert_int_equal(atoll_buckets_take(b, "a", 1000), 100);
    assert_int_equal(atoll_buckets_take(b, "a", 1040), 60);
    assert_int_equal(atoll_buckets_take(b, "b", 1040), 0); /* another one's is full */
    assert_int_equal(atoll_buckets_take(b, "a", 1100), 0);
    assert_true(atoll_buckets_take(b, "a", 1100) > 0);
    /* A long silence fills it to the brim and no further. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(atoll_buckets_take(b, "a", INT64_C(1) << 60), 0);
    assert_true(atoll_buckets_take(b, "a", INT64_C(1) << 60) > 0);
    (void)atoll_buckets_free(b);
}

static void a_rate_holds_over_time(void **state)
{
    struct atoll_buckets *b = atoll_buckets_new((struct atoll_rate){50, 200}, 8);
    int passed = 0;

    (void)state;
    for (int64_t now = 0; now < 10000; now++)
        passed += atoll_buckets_take(b, "k", now) == 0;
    assert_in_range(passed, 698, 700);
    (void)atoll_buckets_free(b);
}

static void the_table_of_buckets_is_bounded(void **state)
{
    struct atoll_buckets *b = atoll_buckets_new((struct atoll_rate){1, 1}, 4);
    struct atoll_buckets *none = atoll_buckets_new((struct atoll_rate){0, 0}, 4);
    char name[16];

    (void)state;
    assert_int_equal(atoll_buckets_take(b, "first", 0), 0);
    assert_true(atoll_buckets_take(b, "first", 0) > 0);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(atoll_buckets_take(b, name, 0), 0);
        if (i < 3) /* still used, so not the one to go */
            assert_true(atoll_buckets_take(b, "first", 0) > 0);
        assert_int_equal(atoll_buckets_take(none, "x", 0), 0);
    }
    assert_true(atoll_buckets_take(b, "n999", 0) > 0);
    assert_int_equal(atoll_buckets_take(b, "first", 0), 0);
    (void)atoll_buckets_free(b);
    (void)atoll_buckets_free(none);
}

static void sources_are_addresses_without_ports(void **state)
{
    static const struct {
        const char *address, *source;
    } cases[] = {
        {"127.0.0.1:4711", "127.0.0.1"},
        {"[2001:db8:1:2:3:4:5:6]:80", "2001:db8:1:2::"},
        {"[2001:db8:1:2:ffff::1]:81", "2001:db8:1:2::"},
        {"[::1]:80", "::"},
        {"[fe80::1%eth0]:80", "fe80::"},
        {"[::ffff:10.0.0.1]:80", "::ffff:10.0.0.1"},
        {"unix", "unix"},
    };
    char out[ATOLL_ADDRESS_SOURCE_MAX];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        atoll_address_source(cases[i].address, out);
        assert_string_equal(out, cases[i].source);
    }
}

/* The audit log. */

static void the_audit_log_is_private_and_rotated(void **state)
{
    static const struct atoll_audit_entry entry = {
        .tenant = "acme",
        .key_id = "k1",
        .uid = -1,
        .peer = "127.0.0.1:1",
        .method = "POST",
        .route = "/api/sandboxes/{id}/execs",
        .sandbox_id = "s1",
        .exec_id = "",
        .name = "",
        .request_id = "r-1",
        .status = 201,
    };
    char text[8192];
    struct atoll_audit *audit;
    struct atoll_error err;
    struct stat st;
    int n;

    (void)state;
    assert_int_equal(atoll_audit_open(dir_fd, 1000, &audit, &err), 0);
    assert_int_equal(fstatat(dir_fd, "audit.log", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    atoll_audit_write(audit, &entry);
    n = atoll_fd_read_file(dir_fd, "audit.log", text, sizeof(text));
    assert_true(n > 0 && text[n - 1] == '\n');
    assert_non_null(strstr(text, "\"tenant\":\"acme\",\"key\":\"k1\",\"peer\":\"127.0.0.1:1\","
                                 "\"method\":\"POST\",\"route\":\"/api/sandboxes/{id}/execs\","
                                 "\"sandbox\":\"s1\",\"status\":201,\"request_id\":\"r-1\"}\n"));
    for (int i = 0; i < 20; i++)
        atoll_audit_write(audit, &entry);
    for (const char *const *name = (const char *const[]){"audit.log", "audit.log.1", NULL}; *name;
         name++) {
        assert_int_equal(fstatat(dir_fd, *name, &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_in_range(st.st_size, 1, 1000);
    }
    (void)atoll_audit_close(audit);
    /* A later daemon goes on where it was. */
    assert_int_equal(fstatat(dir_fd, "audit.log", &st, 0), 0);
    assert_int_equal(atoll_audit_open(dir_fd, 100000, &audit, &err), 0);
    atoll_audit_write(audit, &entry);
    assert_true(atoll_fd_read_file(dir_fd, "audit.log", text, sizeof(text)) > st.st_size);
    (void)atoll_audit_close(audit);
}

/* Routes. */

static void only_looking_is_open_to_readers(void **state)
{
    struct atoll_api_route route;
    size_t pos = 0, count = 0;

    (void)state;
    while (atoll_api_next_route(&pos, &route)) {
        count++;
        if (strcmp(route.method, "GET") != 0 && route.scope == ATOLL_SCOPE_READ)
            fail_msg("%s %s may be called with a key that can only read", route.method, route.path);
    }
    assert_true(count > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes_have_names),
        cmocka_unit_test(keys_are_found_by_themselves_only),
        cmocka_unit_test(keys_have_a_second_spelling),
        cmocka_unit_test(bad_keys_are_not_made),
        cmocka_unit_test_setup_teardown(keys_outlive_the_daemon_as_hashes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_key_is_in_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_careless_key_file_is_refused, set_up, tear_down),
        cmocka_unit_test(buckets_fill_again),
        cmocka_unit_test(a_rate_holds_over_time),
        cmocka_unit_test(the_table_of_buckets_is_bounded),
        cmocka_unit_test(sources_are_addresses_without_ports),
        cmocka_unit_test_setup_teardown(the_audit_log_is_private_and_rotated, set_up, tear_down),
        cmocka_unit_test(only_looking_is_open_to_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
