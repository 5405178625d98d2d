/*
 * Unit tests of what the CLI makes of the daemon's answers: exit statuses, output, names from
 * sandboxes that nobody can trust.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/base64.h"
#include "cli/child.h"
#include "cli/copy.h"
#include "cli/outcome.h"
#include "cli/print.h"
#include "cli/request.h"
#include "client/follow.h"
#include "client/result.h"

static void records_become_exit_statuses(void **state)
{
    static const struct {
        const char *record;
        int status;
    } cases[] = {
        {"{\"kind\":\"exited\",\"exit_code\":0}", 0},
        {"{\"kind\":\"exited\",\"exit_code\":3}", 3},
        {"{\"kind\":\"exited\",\"exit_code\":255}", 255},
        {"{\"kind\":\"signaled\",\"signal\":\"SIGKILL\"}", 137},
        {"{\"kind\":\"signaled\",\"signal\":11}", 139},
        {"{\"kind\":\"killed_by\",\"signal\":\"SIGTERM\",\"who\":\"api\"}", 143},
        {"{\"kind\":\"killed_by\",\"who\":\"destroy\"}", 137},
        {"{\"kind\":\"timed_out\",\"signal\":\"SIGKILL\"}", 124},
        {"{\"kind\":\"oom_killed\"}", 137},
        {"{\"kind\":\"lost\",\"reason\":\"x\"}", 125},
        /* What we do not understand is never a success. */
        {"{\"kind\":\"exited\"}", 125},
        {"{\"kind\":\"exited\",\"exit_code\":\"0\"}", 125},
        {"{\"kind\":\"exited\",\"exit_code\":-1}", 125},
        {"{\"kind\":\"ascended\",\"exit_code\":0}", 125},
        {"{}", 125},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        json_t *record = atoll_link_parse_json(cases[i].record, strlen(cases[i].record));
        assert_non_null(record);
        assert_int_equal(atoll_result_status(record), cases[i].status);
        json_decref(record);
    }
}

static void signals_have_names_and_numbers(void **state)
{
    char name[ATOLL_LINK_SIGNAL_MAX];
    json_t *value = json_string("SIGUSR1");
    (void)state;

    assert_int_equal(atoll_link_signal_number(value), SIGUSR1);
    json_decref(value);
    value = json_string("SIGNONSENSE");
    assert_int_equal(atoll_link_signal_number(value), 0);
    json_decref(value);
    value = json_integer(4711);
    assert_int_equal(atoll_link_signal_number(value), 0);
    json_decref(value);
    assert_int_equal(atoll_link_signal_number(NULL), 0);
    assert_string_equal(atoll_link_signal_name(SIGTERM, name), "SIGTERM");
    assert_string_equal(atoll_link_signal_name(40, name), "SIGRTMIN+6");
    value = json_string("SIGRTMIN+6");
    assert_int_equal(atoll_link_signal_number(value), 40);
    json_decref(value);
    value = json_string("9");
    assert_int_equal(atoll_link_signal_number(value), SIGKILL);
    json_decref(value);
}

static void captured_output_is_counted_and_kept(void **state)
{
    struct atoll_cli_outcome outcome;
    (void)state;

    atoll_cli_outcome_init(&outcome, true);
    assert_true(atoll_cli_outcome_take(&outcome, ATOLL_CLIENT_STDOUT, "ab", 2));
    assert_true(atoll_cli_outcome_take(&outcome, ATOLL_CLIENT_STDERR, "c", 1));
    assert_true(atoll_cli_outcome_take(&outcome, ATOLL_CLIENT_STDOUT, "\0d", 2));
    assert_true(outcome.seen[ATOLL_CLIENT_STDOUT] == 4 && outcome.seen[ATOLL_CLIENT_STDERR] == 1);
    assert_int_equal(atoll_buf_size(&outcome.captured[ATOLL_CLIENT_STDOUT]), 4);
    assert_memory_equal(atoll_buf_head(&outcome.captured[ATOLL_CLIENT_STDOUT]), "ab\0d", 4);
    assert_false(outcome.truncated[ATOLL_CLIENT_STDOUT]);
    atoll_cli_outcome_done(&outcome);

    atoll_cli_outcome_init(&outcome, false);
    assert_false(atoll_cli_outcome_take(&outcome, ATOLL_CLIENT_STDOUT, "ab", 2));
    outcome.closed[ATOLL_CLIENT_STDOUT] = true;
    assert_true(atoll_cli_outcome_take(&outcome, ATOLL_CLIENT_STDOUT, "ab", 2));
    atoll_cli_outcome_done(&outcome);
}

static void gaps_are_noted(void **state)
{
    struct atoll_cli_outcome outcome;
    json_t *gap = json_pack("{s:s, s:i, s:i}", "stream", "stderr", "from", 10, "to", 30);
    uint64_t from, to;
    int stream;
    (void)state;

    assert_false(atoll_follow_gap(NULL, &stream, &from, &to));
    assert_true(atoll_follow_gap(gap, &stream, &from, &to));
    assert_true(stream == ATOLL_CLIENT_STDERR && from == 10 && to == 30);
    atoll_cli_outcome_init(&outcome, true);
    assert_false(outcome.truncated[ATOLL_CLIENT_STDERR]);
    atoll_cli_outcome_gap(&outcome, stream, from, to, true);
    assert_true(outcome.truncated[ATOLL_CLIENT_STDERR]);
    assert_true(outcome.seen[ATOLL_CLIENT_STDERR] == 30);
    json_decref(gap);
    atoll_cli_outcome_done(&outcome);
}

static void base64_goes_both_ways(void **state)
{
    static const struct {
        const char *plain, *coded;
    } cases[] = {{"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
                 {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfd", "//79"}};
    struct atoll_buf buf;
    (void)state;

    atoll_buf_init(&buf, 64);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        size_t n = strlen(cases[i].plain);
        atoll_buf_clear(&buf);
        assert_int_equal(atoll_base64_encode(&buf, cases[i].plain, n), 0);
        assert_string_equal(atoll_buf_str(&buf), cases[i].coded);
        atoll_buf_clear(&buf);
        assert_int_equal(atoll_base64_decode(&buf, cases[i].coded, strlen(cases[i].coded)), 0);
        assert_int_equal(atoll_buf_size(&buf), n);
        if (n > 0)
            assert_memory_equal(atoll_buf_head(&buf), cases[i].plain, n);
    }
    atoll_buf_done(&buf);
}

static void bad_base64_is_refused(void **state)
{
    static const char *const wrong[] = {
        "A", "AA", "AAA", "=", "====", "A===", "AA=A", "Zh==", "Zm9=", "Zm 9", "Zm9v\n"};
    struct atoll_buf buf;
    (void)state;

    atoll_buf_init(&buf, 64);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++)
        assert_int_equal(atoll_base64_decode(&buf, wrong[i], strlen(wrong[i])), -EINVAL);
    assert_int_equal(atoll_buf_size(&buf), 0);
    atoll_buf_done(&buf);
}

static void names_from_sandboxes_are_checked(void **state)
{
    char longest[257], out[256];
    (void)state;

    memset(longest, 'x', 256);
    longest[256] = '\0';
    assert_true(atoll_cli_copy_is_name("a b\n"));
    assert_true(atoll_cli_copy_is_name("..."));
    assert_false(atoll_cli_copy_is_name(""));
    assert_false(atoll_cli_copy_is_name("."));
    assert_false(atoll_cli_copy_is_name(".."));
    assert_false(atoll_cli_copy_is_name("a/b"));
    assert_false(atoll_cli_copy_is_name("/"));
    assert_false(atoll_cli_copy_is_name(longest));

    assert_string_equal(atoll_cli_copy_basename("/a/b", out, sizeof(out)), "b");
    assert_string_equal(atoll_cli_copy_basename("a/b//", out, sizeof(out)), "b");
    assert_string_equal(atoll_cli_copy_basename("b", out, sizeof(out)), "b");
    assert_null(atoll_cli_copy_basename("/", out, sizeof(out)));
    assert_null(atoll_cli_copy_basename("a/..", out, sizeof(out)));
    assert_null(atoll_cli_copy_basename(".", out, sizeof(out)));
    assert_null(atoll_cli_copy_basename(longest, out, sizeof(out)));
}

static void only_links_that_stay_inside_are_made(void **state)
{
    static const struct {
        const char *target;
        size_t depth;
        bool inner;
    } cases[] = {
        {"a", 0, true},          {"a/b/c", 0, true},        {"./a", 0, true}, {"../a", 1, true},
        {".././../a", 2, true},  {"a//b/", 0, true},        {"..", 0, false}, {"../a", 0, false},
        {"../../a", 1, false},   {"/etc/passwd", 9, false}, {"", 9, false},   {"a/../b", 9, false},
        {"a/../../b", 9, false}, {"../a/../b", 9, false},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++)
        assert_int_equal(atoll_cli_copy_is_inner_link(cases[i].target, cases[i].depth),
                         cases[i].inner);
}

/* What `write` puts into a stream, as a string the caller frees. */
static char *printed(void (*write)(FILE *stream, const void *arg), const void *arg)
{
    char *text = NULL;
    size_t n;
    FILE *stream = open_memstream(&text, &n);

    assert_non_null(stream);
    write(stream, arg);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void put(FILE *stream, const void *text)
{
    atoll_cli_put(stream, text);
}

static void put_lines(FILE *stream, const void *text)
{
    atoll_cli_put_lines(stream, text, "  ");
}

static void lines_are_indented(void **state)
{
    static const char *const cases[][2] = {
        {"", ""}, {"a\n", "a"}, {"a\tb\n\nc\033\n\n", "a\tb\n  \n  c\\x1b"}};
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        char *text = printed(put_lines, cases[i][0]);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

static void what_people_read_is_escaped(void **state)
{
    static const struct {
        const char *raw, *shown;
    } cases[] = {
        {"plain", "plain"},
        {"\033[2J\a", "\\x1b[2J\\x07"},
        {"a\nb\r\x7f", "a\\x0ab\\x0d\\x7f"},
        {"\xc3\xa9\xe2\x9c\x93", "\xc3\xa9\xe2\x9c\x93"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* CSI as one character */
        {"\xe2\x80\xae"
         "exe",
         "\\xe2\\x80\\xaeexe"}, /* right-to-left override */
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        char *text = printed(put, cases[i].raw);
        assert_string_equal(text, cases[i].shown);
        free(text);
    }
}

static void two_rows(FILE *stream, const void *arg)
{
    static const char *const names[] = {"ID", "NAME", NULL};
    struct atoll_cli_table table;
    (void)arg;

    atoll_cli_table_init(&table, names);
    for (int i = 9; i < 11; i++) {
        atoll_cli_table_add(&table, ATOLL_CLI_RED, "%d", i);
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", i == 9 ? "\xc3\xa9" : "\033");
    }
    atoll_cli_table_finish(&table, stream);
}

static void tables_are_aligned_and_plain_in_files(void **state)
{
    char *text = printed(two_rows, NULL);
    (void)state;

    assert_string_equal(text, "ID  NAME\n9   \xc3\xa9\n10  \\x1b\n");
    free(text);
}

static void ages_are_short(void **state)
{
    char out[16];
    (void)state;

    assert_string_equal(atoll_cli_format_age(0, out), "0 s");
    assert_string_equal(atoll_cli_format_age(119, out), "119 s");
    assert_string_equal(atoll_cli_format_age(300, out), "5 min");
    assert_string_equal(atoll_cli_format_age(7200, out), "2 h");
    assert_string_equal(atoll_cli_format_age(864000, out), "10 d");
    assert_string_equal(atoll_cli_format_age(-1, out), "-");
    assert_true(atoll_cli_age_of("2001-01-01T00:00:00.123Z") > 7e8);
    assert_true(atoll_cli_age_of("yesterday") < 0);
    assert_true(atoll_cli_age_of(NULL) < 0);
}

static void targets_are_percent_encoded(void **state)
{
    struct atoll_link_target target;
    struct atoll_error err;
    char path[4096];
    (void)state;

    assert_int_equal(atoll_link_target(&target, &err, "/x/%s?path=%s", "a b", "/é&?#%"), 0);
    assert_string_equal(target.text, "/x/a%20b?path=%2F%C3%A9%26%3F%23%25");
    memset(path, '/', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_true(atoll_link_target(&target, &err, "/%s", path) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
}

static void requests_hold_only_what_was_said(void **state)
{
    char *const argv[] = {(char *)"true", NULL};
    struct atoll_cli_sandbox_options sandbox = {.memory_bytes = 1024 * 1024 + 1, .cpus = 0.5};
    struct atoll_cli_command_options command = {.timeout_seconds = 30};
    struct atoll_error err;
    json_t *request = json_object();
    char *text;
    (void)state;

    command.env.items.items[command.env.items.n++] = "A=b=c";
    sandbox.waive.items[sandbox.waive.n++] = "memory,cpu";
    assert_int_equal(atoll_cli_add_sandbox(request, &sandbox, 0, &err), 0);
    assert_int_equal(atoll_cli_add_command(request, &command, argv, &err), 0);
    text = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, "{\"cmd\":[\"true\"],\"env\":{\"A\":\"b=c\"},"
                              "\"limits\":{\"cpuCores\":0.5,\"memoryMB\":2},"
                              "\"timeoutSeconds\":30,\"waive\":[\"memory\",\"cpu\"]}");
    free(text);

    sandbox.waive.items[sandbox.waive.n++] = "gravity";
    assert_true(atoll_cli_add_sandbox(request, &sandbox, 0, &err) < 0);
    assert_non_null(strstr(err.text, "gravity"));
    command.env.items.items[command.env.items.n++] = "=x";
    assert_true(atoll_cli_add_command(request, &command, argv, &err) < 0);
    command.env.items.n = 1;
    command.cwd = "\xff";
    assert_true(atoll_cli_add_command(request, &command, argv, &err) < 0);
    json_decref(request);
}

static int run_child(const char *script, char *out, size_t cap, struct atoll_error *err)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)script, NULL};
    struct atoll_cli_child child;
    ssize_t n;
    size_t len = 0;

    assert_int_equal(atoll_cli_child_start(&child, argv, err), 0);
    while ((n = atoll_cli_child_read(&child, out + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    return n < 0 ? (int)n : atoll_cli_child_finish(&child, err);
}

static void a_failed_program_is_no_end_of_file(void **state)
{
    char *const missing[] = {(char *)"no-such-program-here", NULL};
    struct atoll_cli_child child;
    struct atoll_error err;
    char out[64];
    (void)state;

    assert_int_equal(run_child("printf whole", out, sizeof(out), &err), 0);
    assert_string_equal(out, "whole");
    assert_int_equal(run_child("printf half; exit 3", out, sizeof(out), &err), -ECHILD);
    assert_string_equal(out, "half");
    assert_int_equal(run_child("kill -9 $$", out, sizeof(out), &err), -ECHILD);
    assert_true(atoll_cli_child_start(&child, missing, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_become_exit_statuses),
        cmocka_unit_test(signals_have_names_and_numbers),
        cmocka_unit_test(captured_output_is_counted_and_kept),
        cmocka_unit_test(gaps_are_noted),
        cmocka_unit_test(base64_goes_both_ways),
        cmocka_unit_test(bad_base64_is_refused),
        cmocka_unit_test(names_from_sandboxes_are_checked),
        cmocka_unit_test(only_links_that_stay_inside_are_made),
        cmocka_unit_test(what_people_read_is_escaped),
        cmocka_unit_test(lines_are_indented),
        cmocka_unit_test(tables_are_aligned_and_plain_in_files),
        cmocka_unit_test(ages_are_short),
        cmocka_unit_test(targets_are_percent_encoded),
        cmocka_unit_test(requests_hold_only_what_was_said),
        cmocka_unit_test(a_failed_program_is_no_end_of_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
