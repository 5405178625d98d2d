/* Patterns of paths. */
#include <string.h>
#include "base/defs.h"
#include "base/glob.h"
#include "test.h"

struct row {
    const char *pattern, *path;
};

static const struct row matching[] = {
    {"report.html", "report.html"},
    {"out/*.png", "out/a.png"},
    {"out/*", "out/b"},
    {"*.tar.gz", "a.b.tar.gz"},
    {"a*b*c", "aXbYbZc"},
    {"?.txt", "a.txt"},
    {"?.txt", "\xc3\xa4.txt"}, /* one character, not two bytes */
    {"[a-c]x", "bx"},
    {"[!a-c]x", "dx"},
    {"[]]", "]"},
    {"[!]a]", "b"},
    {"[a", "[a"}, /* no set without an end */
    {"\\*", "*"},
    {"\\[a]", "[a]"},
    {"**", "a"},
    {"**", "a/b/c"},
    {"**/*.png", "a.png"},
    {"**/*.png", "x/y/a.png"},
    {"out/**", "out/a"},
    {"out/**", "out/a/b"},
    {"out/", "out/a/b"},
    {"out/**/z", "out/z"},
    {"out/**/z", "out/a/z/b/z"},
    {"a/**/b/**/c", "a/x/b/y/b/c"},
    {"**/**/x", "x"},
    {".config/*", ".config/x"},
    {"*/.x", "a/.x"},
    {"\\.x", ".x"},
    {"a\xff*", "a\xff\xfe"},
};

static const struct row others[] = {
    {"report.html", "report.htm"},
    {"out/*.png", "out/a/b.png"},
    {"*", "a/b"},
    {"*", ".hidden"},
    {"?hidden", ".hidden"},
    {"[.]hidden", ".hidden"},
    {"**", ".cache/x"},
    {"**", "a/.cache/x"},
    {"**/x", ".git/x"},
    {"out/**", "out"},
    {"out/", "out"},
    {"out/**", "outer/a"},
    {"a/b", "a"},
    {"a", "a/b"},
    {"?", "ab"},
    {"[a-c]x", "dx"},
    {"[!a-c]x", "ax"},
    {"[a-c]", "\xc3\xa4"},
    {"\\*", "a"},
    {"a*b", "a"},
};

static void test_matching(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(matching); i++)
        if (!atoll_glob_match(matching[i].pattern, matching[i].path))
            fail_msg("\"%s\" does not match \"%s\"", matching[i].pattern, matching[i].path);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(others); i++)
        if (atoll_glob_match(others[i].pattern, others[i].path))
            fail_msg("\"%s\" matches \"%s\"", others[i].pattern, others[i].path);
}

/* What takes a matcher that tries everything longer than the universe is old. */
static void test_hostile(void **state)
{
    char pattern[257] = "", path[4096] = "";

    (void)state;
    for (int i = 0; i < 63; i++)
        (void)strcat(pattern, "a*/*");
    memset(path, 'a', 4000);
    assert_false(atoll_glob_match(pattern, path));
    pattern[0] = '\0';
    for (int i = 0; i < 50; i++)
        (void)strcat(pattern, "**/a/");
    path[0] = '\0';
    for (int i = 0; i < 1000; i++)
        (void)strcat(path, "a/");
    (void)strcat(path, "b");
    assert_true(atoll_glob_match(pattern, path));
    (void)strcpy(pattern + strlen(pattern) - 1, "c");
    assert_false(atoll_glob_match(pattern, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
