#include <string.h>
#include "image/dockerignore.h"
#include "test.h"

static struct atoll_dockerignore ignored;

static bool is_ignored(const char *text, const char *path)
{
    struct atoll_error err = {0};
    bool r;

    assert_int_equal(atoll_dockerignore_parse(&ignored, text, &err), 0);
    r = atoll_dockerignore_match(&ignored, path);
    atoll_dockerignore_done(&ignored);
    return r;
}

static void test_patterns(void **state)
{
    static const struct {
        const char *text, *path;
        bool ignored;
    } cases[] = {
        {"", "a", false},
        {"a", "a", true},
        {"a", "a/b/c", true}, /* all below */
        {"a", "b/a", false},  /* from the top */
        {"/a", "a", true},
        {"./a/", "a", true},
        {"a/b", "a/b/c", true},
        {"a/b", "a", false},
        {"*.log", "x.log", true},
        {"*.log", "d/x.log", false},
        {"**/*.log", "x.log", true},
        {"**/*.log", "d/e/x.log", true},
        {"d/**", "d/e/f", true},
        {"d/**", "d", false},
        {"**", "x", true},
        {"*", ".hidden", true},
        {"?.c", "a.c", true},
        {"?.c", "ab.c", false},
        {"[ab].c", "b.c", true},
        {"a\n!a/keep", "a/keep/f", false},
        {"a\n!a/keep", "a/other", true},
        {"!a\na", "a", true}, /* the last one counts */
        {"# a\n\n  \t\n", "a", false},
        {"a \r\n b\t", "b", true},
        {"!", "a", false},
        {"/", "a", false},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        if (is_ignored(cases[i].text, cases[i].path) != cases[i].ignored)
            fail_msg("\"%s\" and %s", cases[i].text, cases[i].path);
}

/* Many "**" against a deep path end soon. */
static void test_costs(void **state)
{
    static const char deep[] = "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a";

    (void)state;
    assert_false(is_ignored("**/a/**/a/**/a/**/b", deep));
}

static void test_too_many(void **state)
{
    char text[2 * ATOLL_DOCKERIGNORE_MAX + 8] = "";
    struct atoll_error err = {0};

    (void)state;
    for (size_t i = 0; i <= ATOLL_DOCKERIGNORE_MAX; i++)
        memcpy(text + 2 * i, "a\n", 3);
    assert_true(atoll_dockerignore_parse(&ignored, text, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    atoll_dockerignore_done(&ignored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
