/* Sealed values: they come back in their place only, with their key only, and unchanged only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "store/seal.h"
#include "sys/tree.h"
#include "test.h"

#define MAX ((size_t)1 << 20)

struct fixture {
    char dir[32];
    int dir_fd;
    struct atoll_seal *seal;
};

static const struct atoll_seal_place here = {"test", "owner-1"};
static const char value[] = "s3cret value";

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct atoll_error err;

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-seal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(atoll_seal_make(f->dir_fd, &f->seal, &err), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    f->seal = atoll_seal_free(f->seal);
    (void)close(f->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static void seal_value(const struct fixture *f, struct atoll_buf *out)
{
    struct atoll_error err;

    atoll_buf_init(out, MAX);
    assert_int_equal(atoll_seal_write(f->seal, &here, value, sizeof(value), out, &err), 0);
    assert_int_equal(atoll_buf_size(out), sizeof(value) + ATOLL_SEAL_EXTRA_BYTES);
}

/* Whether the bytes can be read, and are the value. */
static bool is_readable(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                        const void *bytes, size_t n, struct atoll_error *err)
{
    struct atoll_buf plain;
    bool same;
    int r;

    atoll_buf_init(&plain, MAX);
    r = atoll_seal_read(seal, place, bytes, n, &plain, err);
    if (r < 0)
        assert_int_equal(atoll_buf_size(&plain), 0);
    same = r == 0 && atoll_buf_size(&plain) == sizeof(value) &&
           memcmp(atoll_buf_head(&plain), value, sizeof(value)) == 0;
    atoll_buf_wipe(&plain);
    return same;
}

static void test_it_comes_back(void **state)
{
    const struct fixture *f = *state;
    struct atoll_buf first, second;
    struct atoll_error err;

    seal_value(f, &first);
    seal_value(f, &second);
    assert_true(is_readable(f->seal, &here, atoll_buf_head(&first), atoll_buf_size(&first), &err));
    assert_true(atoll_seal_is_sealed(atoll_buf_head(&first), atoll_buf_size(&first)));
    assert_memory_equal(atoll_buf_head(&first), atoll_seal_head(f->seal), ATOLL_SEAL_HEAD_BYTES);
    assert_null(memmem(atoll_buf_head(&first), atoll_buf_size(&first), value, 4));
    /* The same value is not recognizable as such. */
    assert_memory_not_equal(atoll_buf_head(&first) + ATOLL_SEAL_HEAD_BYTES,
                            atoll_buf_head(&second) + ATOLL_SEAL_HEAD_BYTES, sizeof(value));
    atoll_buf_done(&first);
    atoll_buf_done(&second);
}

static void test_an_empty_and_a_large_value(void **state)
{
    const struct fixture *f = *state;
    uint8_t *large = calloc(1, MAX / 2);
    struct atoll_buf sealed, plain;
    struct atoll_error err;

    for (size_t n = 0; n <= MAX / 2; n += MAX / 2) {
        atoll_buf_init(&sealed, MAX);
        atoll_buf_init(&plain, MAX);
        assert_int_equal(atoll_seal_write(f->seal, &here, large, n, &sealed, &err), 0);
        assert_int_equal(atoll_seal_read(f->seal, &here, atoll_buf_head(&sealed),
                                         atoll_buf_size(&sealed), &plain, &err),
                         0);
        assert_int_equal(atoll_buf_size(&plain), n);
        atoll_buf_done(&sealed);
        atoll_buf_wipe(&plain);
    }
    atoll_buf_init(&sealed, 60 + ATOLL_SEAL_EXTRA_BYTES);
    assert_true(atoll_seal_write(f->seal, &here, large, 61, &sealed, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(atoll_seal_write(f->seal, &here, large, 60, &sealed, &err), 0);
    atoll_buf_done(&sealed);
    free(large);
}

static void test_every_changed_bit_is_found(void **state)
{
    const struct fixture *f = *state;
    struct atoll_buf sealed;
    struct atoll_error err;
    uint8_t *bytes;
    size_t n;

    seal_value(f, &sealed);
    bytes = sealed.data + sealed.off;
    n = atoll_buf_size(&sealed);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(is_readable(f->seal, &here, bytes, n, &err));
        assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < n; cut++)
        assert_false(is_readable(f->seal, &here, bytes, cut, &err));
    assert_true(is_readable(f->seal, &here, bytes, n, &err));
    atoll_buf_done(&sealed);
}

static void test_another_place(void **state)
{
    static const struct atoll_seal_place others[] = {
        {"test", "owner-2"}, {"test2", "owner-1"}, {"test", ""},
        {"", "owner-1"},     {"tes", "towner-1"},  {"owner-1", "test"},
    };
    const struct fixture *f = *state;
    struct atoll_buf sealed;
    struct atoll_error err;

    seal_value(f, &sealed);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(others); i++) {
        assert_false(is_readable(f->seal, &others[i], atoll_buf_head(&sealed),
                                 atoll_buf_size(&sealed), &err));
        assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
        assert_non_null(strstr(err.text, "moved"));
    }
    atoll_buf_done(&sealed);
}

static void test_another_key(void **state)
{
    const struct fixture *f = *state;
    struct atoll_seal *other;
    struct atoll_buf sealed;
    struct atoll_error err;

    seal_value(f, &sealed);
    assert_int_equal(unlinkat(f->dir_fd, ATOLL_SEAL_KEY_FILE, 0), 0);
    assert_int_equal(atoll_seal_make(f->dir_fd, &other, &err), 0);
    assert_false(is_readable(other, &here, atoll_buf_head(&sealed), atoll_buf_size(&sealed), &err));
    assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
    assert_non_null(strstr(err.text, "secret.key"));
    (void)atoll_seal_free(other);
    atoll_buf_done(&sealed);
}

static void test_the_key_file(void **state)
{
    const struct fixture *f = *state;
    struct atoll_seal *again;
    struct atoll_buf sealed;
    struct atoll_error err;
    struct stat st;

    seal_value(f, &sealed);
    assert_int_equal(fstatat(f->dir_fd, ATOLL_SEAL_KEY_FILE, &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(faccessat(f->dir_fd, ATOLL_SEAL_KEY_FILE ".new", F_OK, 0), -1);
    /* A restored backup may have other permissions. */
    assert_int_equal(fchmodat(f->dir_fd, ATOLL_SEAL_KEY_FILE, 0644, 0), 0);
    assert_int_equal(atoll_seal_load(f->dir_fd, &again, &err), 0);
    assert_int_equal(fstatat(f->dir_fd, ATOLL_SEAL_KEY_FILE, &st, 0), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_true(is_readable(again, &here, atoll_buf_head(&sealed), atoll_buf_size(&sealed), &err));
    (void)atoll_seal_free(again);
    assert_int_equal(atoll_seal_make(f->dir_fd, &again, &err), -EEXIST);
    assert_int_equal(err.kind, ATOLL_ERR_ALREADY_EXISTS);
    atoll_buf_done(&sealed);
}

static void test_a_damaged_key_file(void **state)
{
    static const char good[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    static const char *const bad[] = {
        "",
        "\n",
        "0011\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0\n",
    };
    const struct fixture *f = *state;
    struct atoll_seal *seal;
    struct atoll_error err;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        assert_int_equal(
            atoll_fd_replace_file(f->dir_fd, ATOLL_SEAL_KEY_FILE, bad[i], strlen(bad[i])), 0);
        assert_int_equal(atoll_seal_load(f->dir_fd, &seal, &err), -EBADMSG);
        assert_int_equal(err.kind, ATOLL_ERR_DATA_LOSS);
        assert_non_null(strstr(err.text, "secret.key"));
    }
    assert_int_equal(atoll_fd_replace_file(f->dir_fd, ATOLL_SEAL_KEY_FILE, good, strlen(good)), 0);
    assert_int_equal(atoll_seal_load(f->dir_fd, &seal, &err), 0);
    (void)atoll_seal_free(seal);
    assert_int_equal(unlinkat(f->dir_fd, ATOLL_SEAL_KEY_FILE, 0), 0);
    assert_int_equal(atoll_seal_load(f->dir_fd, &seal, &err), -ENOENT);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    /* Not a file: it is neither read nor replaced. */
    assert_int_equal(symlinkat("elsewhere", f->dir_fd, ATOLL_SEAL_KEY_FILE), 0);
    assert_true(atoll_seal_load(f->dir_fd, &seal, &err) < 0);
    assert_int_not_equal(err.kind, ATOLL_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_empty_and_a_large_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_changed_bit_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_key, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_key_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_damaged_key_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
