/* Rules of .gitignore files. Expected results are those of git 2.39. */
#include <errno.h>
#include <string.h>
#include "base/ignore.h"
#include "test.h"

static bool ignores(const char *top, const char *in_d, const char *path)
{
    struct atoll_ignore *ignore = atoll_ignore_new();
    bool result;

    assert_int_equal(atoll_ignore_add(ignore, "", top, strlen(top)), 0);
    assert_int_equal(atoll_ignore_add(ignore, "d", in_d, strlen(in_d)), 0);
    result = atoll_ignore_match(ignore, path);
    (void)atoll_ignore_free(ignore);
    return result;
}

static void test_rules(void **state)
{
    static const struct {
        const char *top, *in_d, *path;
        bool ignored;
    } rows[] = {
        {"*.o\n", "", "a.o", true},
        {"*.o\n", "", "x/y/a.o", true},
        {"*.o\n", "", "a.c", false},
        {"node_modules/\n", "", "x/node_modules/m/i.js", true},
        {"node_modules/\n", "", "node_modules", false}, /* a file */
        {"/out\n", "", "out/a", true},
        {"/out\n", "", "x/out", false},
        {"a/b\n", "", "a/b/c", true},
        {"a/b\n", "", "x/a/b", false},
        {"**/b\n", "", "x/a/b", true},
        {"*.log\n!keep.log\n", "", "x/keep.log", false},
        {"!keep.log\n*.log\n", "", "keep.log", true},   /* the last rule decides */
        {"logs/\n!logs/keep\n", "", "logs/keep", true}, /* its directory is left out */
        {"*.txt\n", "!a.txt\n", "d/a.txt", false},      /* the deeper file decides */
        {"!a.txt\n", "*.txt\n", "d/a.txt", true},
        {"", "*.txt\n", "a.txt", false},
        {"", "/a\n", "d/a", true},
        {"", "/a\n", "d/x/a", false},
        {"*\n", "", ".hidden", true},
        {"*\n", "", ".git/atoll.bundle", false},
        {"# x\n\n  \nx \r\n", "", "x", true},
        {"\\#x\n", "", "#x", true},
        {"/\n//\n", "", "x", false},
        {"no newline", "", "no newline", true},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (ignores(rows[i].top, rows[i].in_d, rows[i].path) != rows[i].ignored)
            fail_msg("row %zu: %s", i, rows[i].path);
}

static void test_hostile(void **state)
{
    struct atoll_ignore *ignore = atoll_ignore_new();
    char rules[16384], path[2000];

    (void)state;
    for (size_t i = 0; i + 8 <= sizeof(rules); i += 8)
        memcpy(rules + i, "a*a*a*b\n", 8);
    assert_int_equal(atoll_ignore_add(ignore, "", rules, sizeof(rules)), -E2BIG);
    assert_true(atoll_ignore_bytes(ignore) <= ATOLL_IGNORE_BYTES_MAX);
    memset(path, 'a', sizeof(path));
    path[900] = '\0';
    assert_false(atoll_ignore_match(ignore, path));
    path[900] = 'a';
    path[1999] = '\0';
    assert_true(atoll_ignore_match(ignore, path)); /* too long to be checked */
    assert_int_equal(atoll_ignore_add(ignore, "", "\0\0\n", 3), 0);
    (void)atoll_ignore_free(ignore);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
