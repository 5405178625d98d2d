#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "image/dockerfile.h"
#include "image/e2b_toml.h"
#include "test.h"

static const char *shown(const char *text)
{
    return text ? text : "-";
}

static void test_rows(void **state)
{
    /* id|name|dockerfile|start|ready|team|cpu|memory */
    static const struct {
        const char *text, *expected, *error;
    } rows[] = {
        {"", "-|-|-|-|-|-|0|0", NULL},
        {"# x\n\n", "-|-|-|-|-|-|0|0", NULL},
        {"team_id = \"t\"\nstart_cmd = \"/s.sh\"\ndockerfile = \"e2b.Dockerfile\"\n"
         "template_name = \"n\"\ntemplate_id = \"i\"\nready_cmd = 'curl x'\ncpu_count = 2\n"
         "memory_mb = 4_096\n",
         "i|n|e2b.Dockerfile|/s.sh|curl x|t|2|4096", NULL},
        {"cpu_count=4 # four\r\nmemory_mb=1_0_0\r\n", "-|-|-|-|-|-|4|100", NULL},
        {"\"template_id\" = 'a\\b'", "a\\b|-|-|-|-|-|0|0", NULL},
        {"start_cmd = \"a\\\"b\\\\c\\u00e9\\t\"", "-|-|-|a\"b\\c\xc3\xa9\t|-|-|0|0", NULL},
        {"start_cmd = \"\"\"\na\nb\"\"\"", "-|-|-|a\nb|-|-|0|0", NULL},
        {"start_cmd = \"\"\"a \\\n   b\"\"\"", "-|-|-|a b|-|-|0|0", NULL},
        {"start_cmd = '''a\n\\b'''\ncpu_count = 1", "-|-|-|a\n\\b|-|-|1|0", NULL},
        {"start_cmd = \"\"\"say \"x\"\"\"\"", "-|-|-|say \"x\"|-|-|0|0", NULL},
        {"other = [1, 2]\nmore = true\nwhen = 2020-01-01\nx = \"#\"\ncpu_count = 1",
         "-|-|-|-|-|-|1|0", NULL},
        {"cpu_count = 1\n[table]\ncpu_count = 7\n", "-|-|-|-|-|-|1|0", NULL},
        {"cpu_count = +3", "-|-|-|-|-|-|3|0", NULL},
        {"cpu_count = \"2\"", NULL, "line 1: cpu_count must be a whole number from 1 to 1024"},
        {"\ncpu_count = 0", NULL, "line 2: cpu_count must be a whole number"},
        {"cpu_count = 1.5", NULL, "line 1: unexpected text at the end of the line"},
        {"cpu_count = 1__0", NULL, "line 1: \"_\" must be between digits"},
        {"cpu_count = 1_", NULL, "line 1: \"_\" must be between digits"},
        {"cpu_count = _1", NULL, "line 1: \"_\" must be between digits"},
        {"memory_mb = 99999999999999999999", NULL, "line 1: memory_mb must be"},
        {"cpu_count = 1\ncpu_count = 1", NULL, "line 2: cpu_count is given twice"},
        {"template_id = a", NULL, "line 1: a text needs quotes"},
        {"template_id = \"a", NULL, "line 1: a text has no closing quote"},
        {"template_id = \"a\nb\"", NULL, "line 1: a text has no closing quote"},
        {"\n\nstart_cmd = '''a\n\n", NULL, "line 3: a text has no closing quote"},
        {"template_id = \"\\q\"", NULL, "line 1: unknown escape"},
        {"template_id = \"\\ud800\"", NULL, "line 1: a character that does not exist"},
        {"template_id = \"\\u12\"", NULL, "line 1: \\u needs 4"},
        {"template_id \"a\"", NULL, "line 1: expected \"=\""},
        {"= 1", NULL, "line 1: expected a key"},
        {"template_id = \"a\" b", NULL, "line 1: unexpected text"},
        {"template_id = \"a\x01\"", NULL, "line 1: a control character"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_e2b_toml t = {0};
        struct atoll_error err = {0};
        int r = atoll_e2b_toml_parse(rows[i].text, strlen(rows[i].text), &t, &err);
        char text[512];
        if (rows[i].error) {
            if (r == 0 || strncmp(err.text, rows[i].error, strlen(rows[i].error)) != 0)
                fail_msg("%s: %s", rows[i].text, r == 0 ? "no error" : err.text);
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        (void)snprintf(text, sizeof(text), "%s|%s|%s|%s|%s|%s|%llu|%llu", shown(t.template_id),
                       shown(t.template_name), shown(t.dockerfile), shown(t.start_cmd),
                       shown(t.ready_cmd), shown(t.team_id), (unsigned long long)t.cpu_count,
                       (unsigned long long)t.memory_mb);
        assert_string_equal(text, rows[i].expected);
        atoll_e2b_toml_done(&t);
    }
}

static size_t read_example(const char *folder, const char *name, char *out, size_t cap)
{
    const char *top = getenv("ATOLL_SOURCE_DIR");
    char path[512];
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s/examples/templates/%s/%s", top ? top : ".", folder,
                   name);
    n = atoll_fd_read_file(AT_FDCWD, path, out, cap);
    if (n < 0)
        fail_msg("%s cannot be read", path);
    return strlen(out);
}

static void no_warning(const struct atoll_dockerfile_warning *w, void *arg)
{
    fail_msg("%s: line %d: %s", (const char *)arg, w->line, w->text);
}

/* The examples are what they should be, and there is nothing to advise about them. */
static void test_examples(void **state)
{
    static const char *const folders[] = {"nextjs-developer", "page-preview"};
    static char text[64 * 1024];

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(folders); i++) {
        struct atoll_e2b_toml t = {0};
        struct atoll_recipe *r = NULL;
        struct atoll_error err = {0};
        size_t n = read_example(folders[i], "e2b.toml", text, sizeof(text));
        if (atoll_e2b_toml_parse(text, n, &t, &err) < 0)
            fail_msg("%s: %s", folders[i], err.text);
        assert_string_equal(t.template_name, folders[i]);
        assert_true(t.start_cmd && t.ready_cmd && t.cpu_count && t.memory_mb);
        n = read_example(folders[i], t.dockerfile, text, sizeof(text));
        if (atoll_dockerfile_parse(text, n, &r, &err) < 0)
            fail_msg("%s: %s", folders[i], err.text);
        atoll_dockerfile_lint(r, no_warning, (void *)(uintptr_t)folders[i]);
        atoll_recipe_free(r);
        atoll_e2b_toml_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_examples)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
