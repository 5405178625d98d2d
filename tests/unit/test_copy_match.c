/* What COPY takes from a tree that is known by its manifest. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "image/copy_match.h"
#include "image/copy_pattern.h"
#include "image/dockerfile.h"
#include "test.h"

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

#define FILE_LINE(path) "f 644 0 0 1 " A64 " " path " -\n"
#define DIR_LINE(path) "d 755 0 0 0 - " path " -\n"
#define LINK_LINE(path, to) "l 777 0 0 0 - " path " " to "\n"

static const char manifest[] = DIR_LINE(".") FILE_LINE("a.txt") FILE_LINE("b.md") DIR_LINE("src")
    FILE_LINE("src/main.c") FILE_LINE("src/main.h") DIR_LINE("src/lib") FILE_LINE("src/lib/x.c")
        FILE_LINE("src/lib/x.txt") FILE_LINE("src-old") DIR_LINE("empty")
            LINK_LINE("link", "src/lib") LINK_LINE("deep", "link/../main.c")
                LINK_LINE("out", "../../a.txt") LINK_LINE("abs", "/src") LINK_LINE("loop", "loop")
                    LINK_LINE("gone", "nothing") FILE_LINE("sp\\040ace") FILE_LINE("[x]")
                        FILE_LINE(".hidden");

static struct atoll_copy_tree *tree;

static int setup(void **state)
{
    struct atoll_error err = {0};

    (void)state;
    return atoll_copy_tree_parse(manifest, strlen(manifest), &tree, &err);
}

static int teardown(void **state)
{
    (void)state;
    tree = atoll_copy_tree_free(tree);
    return 0;
}

static int match(const struct atoll_copy_tree *t, const char *text, struct atoll_copy_match *ret,
                 struct atoll_error *err)
{
    struct atoll_recipe_memory m = {0};
    struct atoll_recipe_step step;
    int r;

    assert_int_equal(atoll_dockerfile_parse_step(&m, text, strlen(text), '\\', &step, err), 0);
    r = atoll_copy_match(t, &step, ret, err);
    atoll_recipe_memory_done(&m);
    return r;
}

/* "path>name path>name -exclude" */
static void describe(const struct atoll_copy_match *m, char *out, size_t cap)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < m->pair_count; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%s>%s", n ? " " : "", m->pairs[i].path,
                              m->pairs[i].name);
    for (size_t i = 0; i < m->exclude_count; i++)
        n += (size_t)snprintf(out + n, cap - n, " -%s", m->excludes[i]);
}

static void test_sources(void **state)
{
    static const struct {
        const char *text, *expected, *error;
    } rows[] = {
        {"COPY a.txt /x", "a.txt>a.txt", NULL},
        {"COPY /a.txt ./b.md /x/", "a.txt>a.txt b.md>b.md", NULL},
        {"COPY . /x", ">", NULL},
        {"COPY / /x", ">", NULL},
        {"COPY ../.. /x", ">", NULL},
        {"COPY src /x", "src>", NULL},
        {"COPY src/ /x", "src>", NULL},
        {"COPY src/../a.txt /x", "a.txt>a.txt", NULL},
        {"COPY *.txt /x/", "a.txt>a.txt", NULL},
        {"COPY src/*.? /x/", "src/main.c>main.c src/main.h>main.h", NULL},
        {"COPY s*/main.[ch] /x/", "src/main.c>main.c src/main.h>main.h", NULL},
        {"COPY src/main.[^c] /x/", "src/main.h>main.h", NULL},
        {"COPY sr? /x/", "src>", NULL},
        {"COPY src* /x/", "src> src-old>src-old", NULL},
        {"COPY */lib/*.c /x/", "src/lib/x.c>x.c", NULL},
        {"COPY *den /x/", ".hidden>.hidden", NULL},
        {"COPY a.tx[t] none[.]z /x/", "a.txt>a.txt", NULL},
        {"COPY none* /x/", "", NULL},
        {"COPY none/* /x/", "", NULL},
        {"COPY \\[x] /x/", NULL, "COPY: \"\\[x]\" does not exist"},
        {"COPY [[]x] /x/", "[x]>[x]", NULL},
        {"COPY [\"sp ace\", \"/x\"]", "sp ace>sp ace", NULL},
        {"COPY link /x", "src/lib>", NULL},
        {"COPY link/x.c /x", "src/lib/x.c>x.c", NULL},
        {"COPY link/*.c /x/", "src/lib/x.c>x.c", NULL},
        {"COPY deep /x/", "src/main.c>deep", NULL},
        {"COPY out /x/", "a.txt>out", NULL},
        {"COPY abs/main.c /x/", "src/main.c>main.c", NULL},
        {"COPY dee[p] /x/", "src/main.c>deep", NULL},
        {"COPY loop /x", NULL, "\"loop\" has too many links"},
        {"COPY gone /x", NULL, "COPY: \"gone\" does not exist in the build context"},
        {"COPY none /x", NULL, "COPY: \"none\" does not exist in the build context"},
        {"COPY a.txt/b /x", NULL, "COPY: \"a.txt/b\" does not exist"},
        {"COPY --from=z none /x", NULL, "COPY: \"none\" does not exist"},
        {"COPY a[ /x", NULL, "\"a[\" is not a valid pattern"},
        {"COPY a[b-] /x", NULL, "\"a[b-]\" is not a valid pattern"},
        {"ADD https://h/x git@h:y a.txt /x/", "a.txt>a.txt", NULL},
        {"COPY https://h/x /x/", NULL, "COPY: \"https://h/x\" does not exist"},
        {"COPY <<EOF a.txt /x/\nEOF", "a.txt>a.txt", NULL},
        /* --exclude */
        {"COPY --exclude=*.c src /x", "src> -src/main.c", NULL},
        {"COPY --exclude=**/*.c src /x", "src> -src/lib/x.c -src/main.c", NULL},
        {"COPY --exclude=lib src /x", "src> -src/lib", NULL},
        {"COPY --exclude=lib --exclude=!lib/x.c src /x", "src> -src/lib/x.txt", NULL},
        {"COPY --exclude=*.txt *.txt *.md /x/", "b.md>b.md", NULL},
        {"COPY --exclude=src . /x", "> -src", NULL},
        /* --parents */
        {"COPY --parents src/lib/x.c /x/", "src/lib/x.c>src/lib/x.c", NULL},
        {"COPY --parents ./src/./lib/x.c /x/", "src/lib/x.c>lib/x.c", NULL},
        {"COPY --parents src/**/*.c /x/", "src/lib/x.c>src/lib/x.c src/main.c>src/main.c", NULL},
        {"COPY --parents src/lib /x/", "src/lib>src/lib", NULL},
        {"COPY --parents s*/./main.? /x/", "src/main.c>main.c src/main.h>main.h", NULL},
        {"COPY --parents src/none /x/", NULL, "COPY: \"src/none\" does not exist"},
        {"COPY --parents src/none* /x/", "", NULL},
        {"COPY --parents --exclude=**/*.txt src/lib /x/", "src/lib>src/lib -src/lib/x.txt", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_copy_match m;
        struct atoll_error err = {0};
        char text[512];
        int r = match(tree, rows[i].text, &m, &err);
        if (rows[i].error) {
            if (r == 0 || strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
                fail_msg("%s: %s", rows[i].text, r == 0 ? "no error" : err.text);
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        describe(&m, text, sizeof(text));
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("%s: %s, not %s", rows[i].text, text, rows[i].expected);
        assert_int_equal(strlen(m.digest), 64);
        atoll_copy_match_done(&m);
    }
}

/* The digest of one COPY, of the manifest with one piece of text replaced. */
static void digest(const char *copy, const char *old, const char *new, char *out)
{
    struct atoll_copy_tree *t;
    struct atoll_copy_match m;
    struct atoll_error err = {0};
    char text[4096];
    const char *at = strstr(manifest, old);

    assert_non_null(at);
    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - manifest), manifest, new,
                   at + strlen(old));
    assert_int_equal(atoll_copy_tree_parse(text, strlen(text), &t, &err), 0);
    assert_int_equal(match(t, copy, &m, &err), 0);
    memcpy(out, m.digest, sizeof(m.digest));
    atoll_copy_match_done(&m);
    atoll_copy_tree_free(t);
}

static void test_digest(void **state)
{
    static const struct {
        const char *copy, *old, *new;
        bool same;
    } rows[] = {
        {"COPY src /x", A64 " src/main.c", B64 " src/main.c", false},
        {"COPY src /x", A64 " a.txt", B64 " a.txt", true},
        {"COPY src /x", "f 644 0 0 1 " A64 " src/main.c", "f 755 0 0 1 " A64 " src/main.c", false},
        {"COPY src /x", "f 644 0 0 1 " A64 " src/main.c", "f 644 7 0 1 " A64 " src/main.c", true},
        {"COPY --from=b src /x", "f 644 0 0 1 " A64 " src/main.c", "f 644 7 0 1 " A64 " src/main.c",
         false},
        {"COPY --exclude=*.c src /x", A64 " src/main.c", B64 " src/main.c", true},
        {"COPY src/*.c /x/", A64 " src/lib/x.c", B64 " src/lib/x.c", true},
        {"COPY . /x", "link src/lib", "link src/lib2", false},
        {"COPY src /x", "src/main.h", "src/main.i", false},
        {"COPY --parents src/lib /x", A64 " src/lib/x.c", B64 " src/lib/x.c", false},
    };
    char before[65], after[65];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        digest(rows[i].copy, rows[i].old, rows[i].old, before);
        digest(rows[i].copy, rows[i].old, rows[i].new, after);
        if ((strcmp(before, after) == 0) != rows[i].same)
            fail_msg("row %zu: %s", i, rows[i].copy);
    }
}

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern, *path;
        int match;
    } rows[] = {
        {"abc", "abc", 1},
        {"*", "abc", 1},
        {"*c", "abc", 1},
        {"a*", "a", 1},
        {"a*", "ab/c", 0},
        {"a*/b", "abc/b", 1},
        {"a*/b", "a/c/b", 0},
        {"a*b*c*d*e*", "axbxcxdxe", 1},
        {"a*b?c*x", "abxbbxdbxebxczzx", 1},
        {"a*b?c*x", "abxbbxdbxebxczzy", 0},
        {"ab[c]", "abc", 1},
        {"ab[b-d]", "abc", 1},
        {"ab[^c]", "abc", 0},
        {"ab[^e-g]", "abc", 1},
        {"a\\*b", "a*b", 1},
        {"a\\*b", "ab", 0},
        {"a?b", "aéb", 1},
        {"a[^a]b", "aéb", 1},
        {"a???b", "aéb", 0},
        {"[a-ζ]*", "α", 1},
        {"*[a-ζ]", "A", 0},
        {"a?b", "a/b", 0},
        {"a*b", "a/b", 0},
        {"[\\]a]", "]", 1},
        {"[\\-]", "-", 1},
        {"[x\\-]", "-", 1},
        {"[]a]", "]", -EINVAL},
        {"[-]", "-", -EINVAL},
        {"[x-]", "x", -EINVAL},
        {"[a-b-c]", "a", -EINVAL},
        {"[", "a", -EINVAL},
        {"[^", "a", -EINVAL},
        {"[^bc", "a", -EINVAL},
        {"a[", "ab", -EINVAL},
        {"a\\", "a", -EINVAL},
        {"*x", "xxx", 1},
        {"", "", 1},
        {"", "a", 0},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        if (atoll_copy_pattern_match(rows[i].pattern, rows[i].path) != rows[i].match)
            fail_msg("%s and %s: not %d", rows[i].pattern, rows[i].path, rows[i].match);
}

static void test_bad_manifest(void **state)
{
    struct atoll_copy_tree *t = NULL;
    struct atoll_error err = {0};

    (void)state;
    assert_true(atoll_copy_tree_parse("d 755 0 0 0 - . -\nx\n", 20, &t, &err) < 0);
    assert_string_equal(err.text, "the manifest of the files has a bad line 2");
    assert_int_equal(atoll_copy_tree_parse("", 0, &t, &err), 0);
    atoll_copy_tree_free(t);
}

/* Manifests of several contexts, one after the other. */
static void test_merged_manifests(void **state)
{
    static const char merged[] = FILE_LINE("a") DIR_LINE("b") FILE_LINE("b/c") FILE_LINE("d")
        LINK_LINE("a", "d") FILE_LINE("b") DIR_LINE("d") FILE_LINE("d/e");
    struct atoll_copy_match m;
    struct atoll_copy_tree *t = NULL;
    struct atoll_error err = {0};
    char text[100];

    (void)state;
    assert_int_equal(atoll_copy_tree_parse(merged, strlen(merged), &t, &err), 0);
    assert_int_equal(match(t, "COPY a b d/* /x/", &m, &err), 0);
    describe(&m, text, sizeof(text));
    assert_string_equal(text, "d> b>b d/e>e");
    atoll_copy_match_done(&m);
    assert_true(match(t, "COPY b/c /x", &m, &err) < 0);
    atoll_copy_tree_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources),          cmocka_unit_test(test_digest),
        cmocka_unit_test(test_patterns),         cmocka_unit_test(test_bad_manifest),
        cmocka_unit_test(test_merged_manifests),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
