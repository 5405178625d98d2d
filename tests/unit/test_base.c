/*
 * Unit tests of src/base: error, buf, map, list, fd.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "base/shares.h"
#include "base/siphash.h"

static void fail_fills_error_and_returns_negative_errno(void **state)
{
    struct atoll_error err = {0};
    (void)state;

    assert_int_equal(atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "no %s %d", "box", 7), -ENOENT);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    assert_int_equal(err.errnum, ENOENT);
    assert_string_equal(err.text, "no box 7");
}

static void fail_without_errno_is_eio(void **state)
{
    struct atoll_error err = {0};
    (void)state;

    assert_int_equal(atoll_fail(&err, ATOLL_ERR_ABORTED, 0, "gone"), -EIO);
    assert_int_equal(err.errnum, 0);
    assert_int_equal(atoll_wrap(&err, "stop"), -EIO);
}

static void errors_may_be_ignored(void **state)
{
    (void)state;
    assert_int_equal(atoll_fail(NULL, ATOLL_ERR_INTERNAL, EPERM, "x"), -EPERM);
    assert_int_equal(atoll_fail_errno(NULL, EACCES, "x"), -EACCES);
    assert_true(atoll_wrap(NULL, "x") < 0);
}

static void fail_errno_appends_the_reason(void **state)
{
    struct atoll_error err = {0};
    char want[ATOLL_ERROR_TEXT_MAX];
    (void)state;

    assert_int_equal(atoll_fail_errno(&err, EACCES, "open %s", "f"), -EACCES);
    assert_int_equal(err.kind, ATOLL_ERR_INTERNAL);
    (void)snprintf(want, sizeof(want), "open f: %s", strerror(EACCES));
    assert_string_equal(err.text, want);
}

static void wrap_prepends_and_keeps_kind(void **state)
{
    struct atoll_error err = {0};
    (void)state;

    (void)atoll_fail(&err, ATOLL_ERR_NOT_FOUND, ENOENT, "missing");
    assert_int_equal(atoll_wrap(&err, "start %d", 3), -ENOENT);
    assert_int_equal(atoll_wrap(&err, "create"), -ENOENT);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    assert_string_equal(err.text, "create: start 3: missing");
}

static void long_error_texts_are_cut(void **state)
{
    struct atoll_error err = {0};
    char big[3 * ATOLL_ERROR_TEXT_MAX];
    (void)state;

    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(atoll_fail_errno(&err, EPERM, "%s", big), -EPERM);
    assert_int_equal(strlen(err.text), ATOLL_ERROR_TEXT_MAX - 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(atoll_wrap(&err, "b%s", big), -EPERM);
    assert_int_equal(strlen(err.text), ATOLL_ERROR_TEXT_MAX - 1);
    assert_int_equal(err.text[0], 'b');
}

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(atoll_error_kind_name(ATOLL_ERR_NONE), "none");
    assert_string_equal(atoll_error_kind_name(ATOLL_ERR_UNAUTHENTICATED), "unauthenticated");
    assert_string_equal(atoll_error_kind_name((enum atoll_error_kind)99), "unknown");
    for (int kind = ATOLL_ERR_NONE; kind <= ATOLL_ERR_UNAUTHENTICATED; kind++)
        assert_non_null(atoll_error_kind_name((enum atoll_error_kind)kind));
}

static void path_errnos_have_kinds(void **state)
{
    static const struct {
        int errnum;
        enum atoll_error_kind kind;
    } rows[] = {
        {ENOENT, ATOLL_ERR_NOT_FOUND},
        {EEXIST, ATOLL_ERR_ALREADY_EXISTS},
        {EACCES, ATOLL_ERR_PERMISSION_DENIED},
        {ENOSPC, ATOLL_ERR_RESOURCE_EXHAUSTED},
        {ENOTDIR, ATOLL_ERR_INVALID_ARGUMENT},
        {EBUSY, ATOLL_ERR_FAILED_PRECONDITION},
        {EIO, ATOLL_ERR_INTERNAL},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        assert_int_equal(atoll_error_kind_of_path_errno(rows[i].errnum), rows[i].kind);
    assert_true(atoll_errno_is_full(ENOSPC) && atoll_errno_is_full(EDQUOT));
    assert_false(atoll_errno_is_full(EFBIG) || atoll_errno_is_full(0));
}

static void buf_appends_and_consumes(void **state)
{
    struct atoll_buf b;
    (void)state;

    atoll_buf_init(&b, 100);
    assert_string_equal(atoll_buf_str(&b), "");
    assert_int_equal(atoll_buf_appends(&b, "hello "), 0);
    assert_int_equal(atoll_buf_append(&b, "world", 5), 0);
    assert_int_equal(atoll_buf_append(&b, NULL, 0), 0);
    assert_int_equal(atoll_buf_appendf(&b, " %d", 42), 0);
    assert_int_equal(atoll_buf_size(&b), 14);
    assert_string_equal(atoll_buf_str(&b), "hello world 42");
    atoll_buf_consume(&b, 6);
    assert_string_equal(atoll_buf_str(&b), "world 42");
    assert_memory_equal(atoll_buf_head(&b), "world 42", 8);
    atoll_buf_consume(&b, 8);
    assert_int_equal(atoll_buf_size(&b), 0);
    assert_int_equal(b.off, 0);
    atoll_buf_done(&b);
    atoll_buf_done(&b);
}

/* Consumed bytes, and those that moved to the front, are overwritten. */
static void buf_erases_what_it_drops(void **state)
{
    struct atoll_buf b;

    (void)state;
    atoll_buf_init_erasing(&b, 1000);
    assert_int_equal(atoll_buf_appends(&b, "secretsecret"), 0);
    atoll_buf_consume(&b, 6);
    assert_null(memmem(b.data, 6, "secret", 6));
    assert_int_equal(atoll_buf_append(&b, memset((char[246]){0}, 'x', 246), 246), 0); /* moves */
    assert_int_equal(atoll_buf_size(&b), 252);
    assert_memory_equal(atoll_buf_head(&b), "secretx", 7);
    assert_int_equal(atoll_buf_append(&b, memset((char[500]){0}, 'x', 500), 500), 0); /* grows */
    assert_memory_equal(atoll_buf_head(&b), "secretx", 7);
    atoll_buf_clear(&b);
    assert_null(memmem(b.data, b.cap, "secret", 6));
    atoll_buf_done(&b);
}

static void buf_never_holds_more_than_its_maximum(void **state)
{
    struct atoll_buf b;
    uint8_t *tail;
    (void)state;

    atoll_buf_init(&b, 10);
    assert_int_equal(atoll_buf_append(&b, "0123456789", 10), 0);
    assert_int_equal(atoll_buf_append(&b, "x", 1), -ENOBUFS);
    assert_int_equal(atoll_buf_appendf(&b, "%c", 'x'), -ENOBUFS);
    assert_int_equal(atoll_buf_reserve(&b, SIZE_MAX, &tail), -ENOBUFS);
    assert_string_equal(atoll_buf_str(&b), "0123456789");

    /* The maximum counts bytes held, not bytes that ever passed through. */
    atoll_buf_consume(&b, 4);
    assert_int_equal(atoll_buf_append(&b, "abcde", 5), -ENOBUFS);
    assert_int_equal(atoll_buf_append(&b, "abcd", 4), 0);
    assert_string_equal(atoll_buf_str(&b), "456789abcd");
    atoll_buf_clear(&b);
    assert_int_equal(atoll_buf_appendf(&b, "%s", "exactly 10"), 0);
    assert_int_equal(atoll_buf_appends(&b, "!"), -ENOBUFS);
    atoll_buf_done(&b);
}

static void buf_of_maximum_zero_holds_nothing(void **state)
{
    struct atoll_buf b;
    (void)state;

    atoll_buf_init(&b, 0);
    assert_int_equal(atoll_buf_append(&b, "", 0), 0);
    assert_int_equal(atoll_buf_appends(&b, "a"), -ENOBUFS);
    assert_string_equal(atoll_buf_str(&b), "");
    atoll_buf_done(&b);
}

static void buf_without_memory_yet_can_be_looked_at(void **state)
{
    struct atoll_buf b;
    uint8_t *tail;
    (void)state;

    /* Even NULL + 0 is undefined in C; the sanitized build ends here if it is computed. */
    atoll_buf_init(&b, 10);
    (void)atoll_buf_head(&b);
    assert_int_equal(atoll_buf_reserve(&b, 0, &tail), 0);
    atoll_buf_commit(&b, 0);
    atoll_buf_consume(&b, 0);
    assert_int_equal(atoll_buf_size(&b), 0);
    atoll_buf_done(&b);
}

static void buf_streams_far_more_than_it_holds(void **state)
{
    struct atoll_buf b;
    uint32_t written = 0, read = 0;
    (void)state;

    /* Appends outrun consumes until full, so that growing and moving to the front both happen. */
    atoll_buf_init(&b, 4096);
    while (read < 20000) {
        for (int i = 0; i < 7; i++)
            if (atoll_buf_append(&b, &written, sizeof(written)) == 0)
                written++;
        for (int i = 0; i < 5; i++, read++) {
            uint32_t value;
            memcpy(&value, atoll_buf_head(&b), sizeof(value));
            assert_int_equal(value, read);
            atoll_buf_consume(&b, sizeof(value));
        }
        assert_true(atoll_buf_size(&b) <= b.max);
    }
    assert_true(b.cap <= 2 * b.max);
    atoll_buf_done(&b);
}

static void buf_reserve_and_commit(void **state)
{
    struct atoll_buf b;
    uint8_t *tail;
    (void)state;

    atoll_buf_init(&b, 1 << 20);
    assert_int_equal(atoll_buf_reserve(&b, 5000, &tail), 0);
    memset(tail, 'z', 5000);
    atoll_buf_commit(&b, 3);
    assert_int_equal(atoll_buf_size(&b), 3);
    assert_string_equal(atoll_buf_str(&b), "zzz");
    atoll_buf_done(&b);
}

#define KEYS 2000

struct entry {
    char key[16];
    size_t seen;
};

static struct entry *make_entries(void)
{
    struct entry *entries = calloc(KEYS, sizeof(*entries));
    assert_non_null(entries);
    for (size_t i = 0; i < KEYS; i++)
        (void)snprintf(entries[i].key, sizeof(entries[i].key), "key-%zu", i);
    return entries;
}

/* Made by CPython 3.11, whose hash of bytes it is, with PYTHONHASHSEED 0 and 42. */
static void siphash_is_that_of_others(void **state)
{
    static const uint64_t keys[2][2] = {{0, 0}, {0xdc504fd368cd90af, 0xb920bb9ffe99e9c1}};
    static const struct {
        size_t n;
        uint64_t hash[2];
    } expected[] = {
        {1, {0x68a914128e01e473, 0xce880c366bcf3489}},
        {7, {0x2f098ab0c751325a, 0xce280fabc397fbda}},
        {8, {0xead411e67ebe2eea, 0x60866c3c108c6afb}},
        {9, {0x75927f9d95124362, 0x68814005f7469e03}},
        {15, {0xf30eb725bb91c9ea, 0x94ace24d68c18cf8}},
        {16, {0x8972188433a5c5b7, 0x339176f3ac59ce05}},
        {26, {0xed36ff242fe478b2, 0x7a6386516c9db280}},
        {63, {0x385d3e39e5f37359, 0x06e24d6f0d014c37}},
    };
    uint8_t bytes[64];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(expected); i++)
        for (size_t k = 0; k < 2; k++)
            assert_int_equal(atoll_siphash(keys[k], bytes, expected[i].n), expected[i].hash[k]);
}

#define ORDERED 64

/* Prints the keys of a map in the order of an iteration. */
static int print_order(void)
{
    char keys[ORDERED][8];
    struct atoll_map m;
    const char *key;
    size_t pos = 0;

    atoll_map_init(&m);
    for (size_t i = 0; i < ORDERED; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%zu", i);
        if (atoll_map_put(&m, keys[i], keys[i]) < 0)
            return 1;
    }
    while ((key = atoll_map_next(&m, &pos)) != NULL)
        (void)printf("%s ", key);
    atoll_map_done(&m);
    return 0;
}

/* The hash has a key, so a client cannot compute which names collide. */
static void map_order_differs_between_processes(void **state)
{
    char command[PATH_MAX + 16], path[PATH_MAX], order[2][512] = {"", ""};
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    (void)state;
    assert_true(n > 0);
    path[n] = '\0';
    (void)snprintf(command, sizeof(command), "'%s' order", path);
    for (size_t i = 0; i < 2; i++) {
        FILE *out = popen(command, "r");

        assert_non_null(out);
        assert_non_null(fgets(order[i], sizeof(order[i]), out));
        assert_int_equal(pclose(out), 0);
    }
    assert_int_equal(strlen(order[0]), strlen(order[1]));
    assert_string_not_equal(order[0], order[1]);
}

static void map_put_get_remove(void **state)
{
    struct atoll_map m;
    int one = 1, two = 2;
    (void)state;

    atoll_map_init(&m);
    assert_null(atoll_map_get(&m, "a"));
    assert_null(atoll_map_remove(&m, "a"));
    assert_int_equal(atoll_map_put(&m, "a", &one), 0);
    assert_int_equal(atoll_map_put(&m, "a", &two), -EEXIST);
    assert_int_equal(atoll_map_put(&m, "", &two), 0);
    assert_ptr_equal(atoll_map_get(&m, "a"), &one);
    assert_ptr_equal(atoll_map_get(&m, ""), &two);
    assert_ptr_equal(atoll_map_remove(&m, "a"), &one);
    assert_null(atoll_map_remove(&m, "a"));
    assert_null(atoll_map_get(&m, "a"));
    assert_int_equal(m.used, 1);
    assert_int_equal(atoll_map_put(&m, "a", &two), 0);
    assert_ptr_equal(atoll_map_get(&m, "a"), &two);
    atoll_map_done(&m);
}

static void map_grows_and_finds_all(void **state)
{
    ATOLL_AUTOFREE struct entry *entries = make_entries();
    struct atoll_map m;
    (void)state;

    atoll_map_init(&m);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(atoll_map_put(&m, entries[i].key, &entries[i]), 0);
        assert_true(m.filled * 2 <= m.cap);
    }
    assert_int_equal(m.used, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        assert_ptr_equal(atoll_map_get(&m, entries[i].key), &entries[i]);
    assert_null(atoll_map_get(&m, "key-none"));
    atoll_map_done(&m);
}

static void map_tombstones_hide_nothing_and_do_not_pile_up(void **state)
{
    ATOLL_AUTOFREE struct entry *entries = make_entries();
    const size_t alive = 5;
    struct atoll_map m;
    (void)state;

    /* A window of five keys slides over all: thousands of removals, five entries at any time. */
    atoll_map_init(&m);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(atoll_map_put(&m, entries[i].key, &entries[i]), 0);
        if (i >= alive)
            assert_ptr_equal(atoll_map_remove(&m, entries[i - alive].key), &entries[i - alive]);
        for (size_t j = i < alive ? 0 : i - alive + 1; j <= i; j++)
            assert_ptr_equal(atoll_map_get(&m, entries[j].key), &entries[j]);
        if (i >= alive)
            assert_null(atoll_map_get(&m, entries[i - alive].key));
    }
    assert_int_equal(m.used, alive);
    assert_true(m.cap <= 64);
    atoll_map_done(&m);
}

static void map_walk_may_remove_what_it_meets(void **state)
{
    ATOLL_AUTOFREE struct entry *entries = make_entries();
    struct atoll_map m;
    struct entry *e;
    size_t pos = 0, met = 0;
    (void)state;

    atoll_map_init(&m);
    assert_null(atoll_map_next(&m, &pos));
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(atoll_map_put(&m, entries[i].key, &entries[i]), 0);
    while ((e = atoll_map_next(&m, &pos))) {
        assert_int_equal(e->seen++, 0);
        met++;
        if (met % 2)
            assert_ptr_equal(atoll_map_remove(&m, e->key), e);
    }
    assert_int_equal(met, KEYS);
    assert_int_equal(m.used, KEYS / 2);
    atoll_map_done(&m);
}

struct item {
    int value;
    struct atoll_list node;
};

static int sum(struct atoll_list *head)
{
    int total = 0;
    ATOLL_LIST_FOREACH (head, n)
        total = total * 10 + ATOLL_CONTAINER_OF(n, struct item, node)->value;
    return total;
}

static void shares_leave_everybody_a_part(void **state)
{
    struct atoll_shares shares;

    (void)state;
    atoll_shares_init(&shares, 100);
    assert_true(atoll_shares_fits(&shares, "a", 100));
    assert_false(atoll_shares_fits(&shares, "a", 101));
    assert_false(atoll_shares_fits(&shares, "a", SIZE_MAX));
    atoll_shares_add(&shares, "a", 100);
    assert_false(atoll_shares_fits(&shares, "a", 1));
    assert_true(atoll_shares_fits(&shares, "b", 50)); /* a half each */
    assert_false(atoll_shares_fits(&shares, "b", 51));
    atoll_shares_add(&shares, "b", 40);
    assert_true(atoll_shares_fits(&shares, "b", 10));
    assert_true(atoll_shares_fits(&shares, "c", 33)); /* a third */
    assert_false(atoll_shares_fits(&shares, "c", 34));
    atoll_shares_drop(&shares, "a", 90);
    assert_true(atoll_shares_fits(&shares, "c", 50)); /* what nobody has is there for all */
    atoll_shares_drop(&shares, "a", 10);
    atoll_shares_drop(&shares, "b", 40);
    atoll_shares_drop(&shares, "b", 0);
    assert_int_equal(shares.used, 0);
    assert_int_equal(shares.by_name.used, 0);
    atoll_shares_add(&shares, "d", 1); /* what is left goes with them */
    atoll_shares_done(&shares);
}

static void files_are_replaced_whole(void **state)
{
    char dir[] = "/tmp/atoll-base-XXXXXX", text[16];
    struct stat st;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    /* What a daemon left that died while it wrote. */
    assert_int_equal(symlinkat("elsewhere", fd, "file.new"), 0);
    assert_int_equal(atoll_fd_replace_file(fd, "file", "first", 5), 0);
    assert_int_equal(atoll_fd_replace_file(fd, "file", "2nd", 3), 0);
    assert_int_equal(atoll_fd_read_file(fd, "file", text, sizeof(text)), 3);
    assert_string_equal(text, "2nd");
    assert_int_equal(fstatat(fd, "file", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(faccessat(fd, "file.new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(faccessat(fd, "elsewhere", F_OK, 0), -1);
    /* A failure leaves the file as it was, and nothing else. */
    assert_int_equal(mkdirat(fd, "full", 0700), 0);
    assert_true(atoll_fd_replace_file(fd, "full", "x", 1) < 0);
    assert_int_equal(faccessat(fd, "full.new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(unlinkat(fd, "full", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(fd, "file", 0), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void list_keeps_order(void **state)
{
    struct atoll_list head;
    struct item items[4] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
    (void)state;

    atoll_list_init(&head);
    assert_true(atoll_list_empty(&head));
    assert_int_equal(sum(&head), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(items); i++)
        atoll_list_push_back(&head, &items[i].node);
    assert_int_equal(sum(&head), 1234);
    atoll_list_remove(&items[1].node);
    assert_int_equal(sum(&head), 134);
    atoll_list_push_back(&head, &items[1].node);
    assert_int_equal(sum(&head), 1342);
}

static void list_remove_is_safe_twice_and_while_walking(void **state)
{
    struct atoll_list head;
    struct item zeroed = {0};
    (void)state;

    atoll_list_init(&head);
    atoll_list_remove(&zeroed.node);
    for (int i = 0; i < 9; i++) {
        struct item *item = calloc(1, sizeof(*item));
        assert_non_null(item);
        item->value = i;
        atoll_list_push_back(&head, &item->node);
    }
    ATOLL_LIST_FOREACH (&head, n) {
        struct item *item = ATOLL_CONTAINER_OF(n, struct item, node);
        atoll_list_remove(n);
        atoll_list_remove(n);
        free(item);
    }
    assert_true(atoll_list_empty(&head));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_fills_error_and_returns_negative_errno),
        cmocka_unit_test(fail_without_errno_is_eio),
        cmocka_unit_test(errors_may_be_ignored),
        cmocka_unit_test(fail_errno_appends_the_reason),
        cmocka_unit_test(wrap_prepends_and_keeps_kind),
        cmocka_unit_test(long_error_texts_are_cut),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(path_errnos_have_kinds),
        cmocka_unit_test(buf_appends_and_consumes),
        cmocka_unit_test(buf_erases_what_it_drops),
        cmocka_unit_test(buf_never_holds_more_than_its_maximum),
        cmocka_unit_test(buf_of_maximum_zero_holds_nothing),
        cmocka_unit_test(buf_without_memory_yet_can_be_looked_at),
        cmocka_unit_test(buf_streams_far_more_than_it_holds),
        cmocka_unit_test(buf_reserve_and_commit),
        cmocka_unit_test(siphash_is_that_of_others),
        cmocka_unit_test(map_put_get_remove),
        cmocka_unit_test(map_order_differs_between_processes),
        cmocka_unit_test(map_grows_and_finds_all),
        cmocka_unit_test(map_tombstones_hide_nothing_and_do_not_pile_up),
        cmocka_unit_test(map_walk_may_remove_what_it_meets),
        cmocka_unit_test(shares_leave_everybody_a_part),
        cmocka_unit_test(files_are_replaced_whole),
        cmocka_unit_test(list_keeps_order),
        cmocka_unit_test(list_remove_is_safe_twice_and_while_walking),
    };
    if (argc > 1 && strcmp(argv[1], "order") == 0)
        return print_order();
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
