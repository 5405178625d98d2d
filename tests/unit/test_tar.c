/* Heads of tar archives, as other programs have to read them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/tar.h"
#include "test.h"

static struct atoll_tar_entry entry_of(enum atoll_tar_type type, const char *name, uint64_t size)
{
    return (struct atoll_tar_entry){.type = type,
                                    .name = name,
                                    .target = "",
                                    .mode = 0640,
                                    .uid = 1000,
                                    .gid = 100,
                                    .owner = "user",
                                    .group = "users",
                                    .size = size,
                                    .mtime_s = 1700000000};
}

static void head_of(struct atoll_buf *out, const struct atoll_tar_entry *e)
{
    atoll_buf_init(out, 65536);
    assert_int_equal(atoll_tar_head(out, e), 0);
    assert_int_equal(atoll_buf_size(out) % ATOLL_TAR_BLOCK, 0);
}

static void assert_checksum(const uint8_t *head)
{
    unsigned sum = 0;

    for (size_t i = 0; i < ATOLL_TAR_BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : head[i];
    assert_int_equal(strtoul((const char *)head + 148, NULL, 8), sum);
}

static void files_have_one_block(void **state)
{
    const struct atoll_tar_entry e = entry_of(ATOLL_TAR_FILE, "a/b.txt", 1234);
    struct atoll_buf out;
    const char *head;

    (void)state;
    head_of(&out, &e);
    head = (const char *)atoll_buf_head(&out);
    assert_int_equal(atoll_buf_size(&out), ATOLL_TAR_BLOCK);
    assert_string_equal(head, "a/b.txt");
    assert_string_equal(head + 100, "0000640");
    assert_string_equal(head + 108, "0001750");
    assert_string_equal(head + 124, "00000002322");
    assert_string_equal(head + 136, "14524770400");
    assert_int_equal(head[156], '0');
    assert_memory_equal(head + 257,
                        "ustar\0"
                        "00",
                        8);
    assert_string_equal(head + 265, "user");
    assert_checksum((const uint8_t *)head);
    atoll_buf_done(&out);
}

static void directories_and_links_have_no_size(void **state)
{
    struct atoll_tar_entry e = entry_of(ATOLL_TAR_SYMLINK, "link", 77);
    struct atoll_buf out;
    const char *head;

    (void)state;
    e.target = "/etc/passwd";
    head_of(&out, &e);
    head = (const char *)atoll_buf_head(&out);
    assert_int_equal(head[156], '2');
    assert_string_equal(head + 157, "/etc/passwd");
    assert_string_equal(head + 124, "00000000000");
    atoll_buf_done(&out);
    e = entry_of(ATOLL_TAR_DIRECTORY, "dir", 4096);
    head_of(&out, &e);
    head = (const char *)atoll_buf_head(&out);
    assert_int_equal(head[156], '5');
    assert_string_equal(head + 124, "00000000000");
    atoll_buf_done(&out);
}

/* 99, 100 and 101 bytes are where off-by-ones live; so are lengths whose digits count themselves. */
static void long_names_come_before(void **state)
{
    char name[4096];
    const struct atoll_tar_entry e = entry_of(ATOLL_TAR_FILE, name, 1);
    struct atoll_buf out;

    (void)state;
    for (size_t n = 90; n < 1200; n++) {
        const char *records;
        char *end;
        memset(name, 'n', n);
        name[n] = '\0';
        head_of(&out, &e);
        records = (const char *)atoll_buf_head(&out) + ATOLL_TAR_BLOCK;
        if (n <= 100) {
            assert_int_equal(atoll_buf_size(&out), ATOLL_TAR_BLOCK);
        } else {
            assert_int_equal(records[156 - ATOLL_TAR_BLOCK], 'x');
            assert_int_equal(strtoul(records, &end, 10), strcspn(records, "\n") + 1);
            assert_memory_equal(end, " path=", 6);
            assert_memory_equal(end + 6, name, n);
        }
        assert_checksum(atoll_buf_head(&out));
        assert_checksum(atoll_buf_head(&out) + atoll_buf_size(&out) - ATOLL_TAR_BLOCK);
        atoll_buf_done(&out);
    }
}

static void large_files_say_their_size(void **state)
{
    const struct atoll_tar_entry e = entry_of(ATOLL_TAR_FILE, "big", UINT64_C(9) << 30);
    struct atoll_buf out;

    (void)state;
    head_of(&out, &e);
    assert_non_null(memmem(atoll_buf_head(&out), atoll_buf_size(&out), " size=9663676416\n", 17));
    atoll_buf_done(&out);
}

static void padding_fills_the_block(void **state)
{
    (void)state;
    assert_int_equal(atoll_tar_padding(0), 0);
    assert_int_equal(atoll_tar_padding(1), 511);
    assert_int_equal(atoll_tar_padding(512), 0);
    assert_int_equal(atoll_tar_padding(513), 511);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_one_block),
        cmocka_unit_test(directories_and_links_have_no_size),
        cmocka_unit_test(long_names_come_before),
        cmocka_unit_test(large_files_say_their_size),
        cmocka_unit_test(padding_fills_the_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
