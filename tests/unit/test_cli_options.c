/*
 * Unit tests of the CLI's option parser, of how it finds verbs, and of the lines of streamed answers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/code.h"
#include "cli/lines.h"
#include "cli/words.h"

struct inner {
    uint64_t size, count;
    double decimal;
};

struct outer {
    struct atoll_cli_common common;
    struct inner inner;
    const char *text;
    struct atoll_cli_list list;
    bool flag, other;
};

static const struct atoll_cli_option inner_table[] = {
    {"memory", 'm', ATOLL_CLI_SIZE, offsetof(struct inner, size), "SIZE", "", NULL},
    {"pids", 0, ATOLL_CLI_COUNT, offsetof(struct inner, count), "N", "", NULL},
    {"cpus", 0, ATOLL_CLI_DECIMAL, offsetof(struct inner, decimal), "N", "", NULL},
    {0},
};

static const struct atoll_cli_option table[] = {
    {.kind = ATOLL_CLI_TABLE, .offset = offsetof(struct outer, inner), .table = inner_table},
    {"user", 'u', ATOLL_CLI_TEXT, offsetof(struct outer, text), "NAME", "", NULL},
    {"env", 'e', ATOLL_CLI_LIST, offsetof(struct outer, list), "K=V", "", NULL},
    {"keep", 'k', ATOLL_CLI_FLAG, offsetof(struct outer, flag), NULL, "", NULL},
    {"tty", 't', ATOLL_CLI_FLAG, offsetof(struct outer, other), NULL, "", NULL},
    ATOLL_CLI_COMMON(struct outer),
    {0},
};

#define ARGS_MAX 16

/* The result of parsing a list of words. */
struct parsed {
    struct outer o;
    char *argv[ARGS_MAX + 1];
    int argc, r;
    struct atoll_error err;
};

/* argv is ordinary memory that the parser may rearrange; its strings are not touched. */
static void parse(struct parsed *p, int command_at, const char *const *words)
{
    size_t n = 0;

    memset(p, 0, sizeof(*p));
    for (; words[n]; n++) {
        assert_true(n < ARGS_MAX);
        p->argv[n] = (char *)words[n];
    }
    p->r = atoll_cli_parse(table, command_at, p->argv, &p->o, &p->argc, &p->err);
}

#define PARSE(p, command_at, ...) parse(p, command_at, (const char *const[]){__VA_ARGS__, NULL})
#define PARSE_ALL(p, ...) PARSE(p, ATOLL_CLI_NO_COMMAND, __VA_ARGS__)

static void every_kind_in_every_spelling(void **state)
{
    struct parsed p;
    (void)state;

    PARSE_ALL(&p, "--memory", "1G", "--pids=7", "--cpus", "1.5", "-u", "bob", "-eA=1", "--env=B=2",
              "-kt", "--json");
    assert_int_equal(p.r, 0);
    assert_int_equal(p.argc, 0);
    assert_true(p.o.inner.size == UINT64_C(1) << 30);
    assert_true(p.o.inner.count == 7);
    assert_true(p.o.inner.decimal == 1.5);
    assert_string_equal(p.o.text, "bob");
    assert_int_equal(p.o.list.n, 2);
    assert_string_equal(p.o.list.items[0], "A=1");
    assert_string_equal(p.o.list.items[1], "B=2");
    assert_true(p.o.flag && p.o.other && p.o.common.json && !p.o.common.help);
}

static void arguments_and_options_may_mix(void **state)
{
    struct parsed p;
    (void)state;

    PARSE_ALL(&p, "a", "-k", "b", "-", "--", "--json", "--");
    assert_int_equal(p.r, 0);
    assert_int_equal(p.argc, 5);
    assert_string_equal(p.argv[0], "a");
    assert_string_equal(p.argv[1], "b");
    assert_string_equal(p.argv[2], "-");
    assert_string_equal(p.argv[3], "--json");
    assert_string_equal(p.argv[4], "--");
    assert_null(p.argv[5]);
    assert_true(p.o.flag && !p.o.common.json);
}

static void a_command_keeps_its_own_options(void **state)
{
    struct parsed p;
    (void)state;

    PARSE(&p, 0, "-k", "ls", "-t", "--json");
    assert_int_equal(p.argc, 3);
    assert_string_equal(p.argv[1], "-t");
    assert_true(p.o.flag && !p.o.other && !p.o.common.json);

    PARSE(&p, 1, "box", "-k", "--", "ls", "--", "-t");
    assert_int_equal(p.argc, 4);
    assert_string_equal(p.argv[0], "box");
    assert_string_equal(p.argv[1], "ls");
    assert_string_equal(p.argv[2], "--");
    assert_true(p.o.flag && !p.o.other);

    PARSE(&p, 1, "-t", "box", "ls", "-k");
    assert_int_equal(p.argc, 3);
    assert_true(p.o.other && !p.o.flag);
}

static void wrong_values_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"--memory", "lots"}, {"--memory", "0"},  {"--memory", ""},  {"--memory", "-1"},
        {"--pids", "0"},      {"--pids", "1.5"},  {"--pids", "-3"},  {"--pids", "99999999999"},
        {"--cpus", "0"},      {"--cpus", "many"}, {"--cpus", "nan"}, {"--cpus", "1e99"},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++) {
        struct parsed p;
        PARSE_ALL(&p, wrong[i][0], wrong[i][1]);
        assert_int_equal(p.r, -EINVAL);
        assert_int_equal(p.err.kind, ATOLL_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(p.err.text, wrong[i][0]));
    }
}

static void times_have_units(void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } cases[] = {{"90", 90},     {"1.5", 1.5},   {"30s", 30},    {"5m", 300}, {"1h30m", 5400},
                 {"1.5h", 5400}, {"500ms", 0.5}, {"2d", 172800}, {"1m1s", 61}};
    static const char *const wrong[] = {"", "m", "5x", "5m3", "-5m", "1h-3m", "5 m", "1..5m", "5M"};
    double seconds;
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        assert_int_equal(atoll_cli_parse_time(cases[i].text, &seconds), 0);
        assert_true(seconds > cases[i].seconds * 0.999999 && seconds < cases[i].seconds * 1.000001);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(wrong); i++)
        assert_int_equal(atoll_cli_parse_time(wrong[i], &seconds), -EINVAL);
}

static void mistakes_are_explained(void **state)
{
    static const struct {
        const char *word, *text;
    } cases[] = {
        {"--memroy", "unknown option --memroy; did you mean --memory?"},
        {"--mem", "unknown option --mem; did you mean --memory?"},
        {"--memroy=1G", "unknown option --memroy; did you mean --memory?"},
        {"--xyzzy", "unknown option --xyzzy"},
        {"-z", "unknown option -z"},
        {"-kz", "unknown option -z"},
        {"--user", "--user needs a value: --user NAME"},
        {"-ku", "--user needs a value: --user NAME"},
        {"--keep=yes", "--keep takes no value"},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct parsed p;
        PARSE_ALL(&p, cases[i].word);
        assert_int_equal(p.r, -EINVAL);
        assert_string_equal(p.err.text, cases[i].text);
    }
}

static void a_list_has_a_maximum(void **state)
{
    static char *argv[2 * (ATOLL_CLI_LIST_MAX + 1) + 1];
    struct outer o = {0};
    struct atoll_error err;
    int argc;
    (void)state;

    for (size_t i = 0; i < ATOLL_CLI_LIST_MAX + 1; i++) {
        argv[2 * i] = (char *)"-e";
        argv[2 * i + 1] = (char *)"A=1";
    }
    assert_int_equal(atoll_cli_parse(table, -1, argv, &o, &argc, &err), -E2BIG);
    assert_int_equal(o.list.n, ATOLL_CLI_LIST_MAX);
}

static void tables_are_walked_with_what_they_hold(void **state)
{
    static const char *const names[] = {"memory", "pids", "cpus", "user", "env",
                                        "keep",   "tty",  "json", "ca",   "help"};
    const struct atoll_cli_option *option;
    size_t pos = 0, n = 0;
    (void)state;

    while ((option = atoll_cli_option_next(table, &pos)) != NULL) {
        assert_true(n < ATOLL_ARRAY_LEN(names));
        assert_string_equal(option->name, names[n++]);
    }
    assert_int_equal(n, ATOLL_ARRAY_LEN(names));
}

static const struct atoll_cli_verb *find(const char *first, const char *second,
                                         struct atoll_error *err)
{
    char *argv[] = {(char *)first, (char *)second, NULL};
    int words;
    const struct atoll_cli_verb *verb = atoll_cli_find_verb(argv, &words, err);

    if (verb)
        assert_int_equal(words, strchr(verb->name, ' ') ? 2 : 1);
    return verb;
}

static void verbs_are_found_by_one_word_or_two(void **state)
{
    struct atoll_error err;
    (void)state;

    assert_ptr_equal(find("run", "ls", &err), &atoll_cli_run);
    assert_ptr_equal(find("template", "ls", &err), &atoll_cli_template_ls);
    assert_ptr_equal(find("ls", NULL, &err), &atoll_cli_ls);
}

static void unknown_verbs_get_the_nearest(void **state)
{
    static const struct {
        const char *first, *second, *text;
    } cases[] = {
        {"rn", NULL, "unknown verb \"rn\"; did you mean run?"},
        {"creat", NULL, "unknown verb \"creat\"; did you mean create?"},
        {"doc", NULL, "unknown verb \"doc\"; did you mean doctor?"},
        {"xyzzy", NULL, "unknown verb \"xyzzy\""},
        {"", NULL, "unknown verb \"\""},
        {"template", "imprt", "unknown verb \"template imprt\"; did you mean template import?"},
        {"--json", "ls", "\"--json\": options must follow the verb"},
        {"template", NULL,
         "template needs a verb: ls, import, debian, build, show, history, sbom, diff, save, tag, share, rm, "
         "gc"},
    };
    (void)state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct atoll_error err = {0};
        assert_null(find(cases[i].first, cases[i].second, &err));
        assert_string_equal(err.text, cases[i].text);
    }
}

/* Whatever a verb's table says must fit the struct it describes, and have help. */
static void every_verb_is_complete(void **state)
{
    (void)state;

    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; *v; v++) {
        const struct atoll_cli_option *option;
        size_t pos = 0;
        bool json = false, help = false;
        assert_non_null((*v)->summary);
        assert_non_null((*v)->help);
        assert_non_null((*v)->run);
        assert_true((*v)->options ? (*v)->options_size >= sizeof(struct atoll_cli_common)
                                  : (*v)->options_size == 0);
        while ((option = atoll_cli_option_next(atoll_cli_options_of(*v), &pos)) != NULL) {
            assert_true(option->offset <
                        ATOLL_MAX((*v)->options_size, sizeof(struct atoll_cli_common)));
            assert_true(*option->help);
            assert_true((option->kind == ATOLL_CLI_FLAG) == (option->value == NULL));
            json |= strcmp(option->name, "json") == 0;
            help |= strcmp(option->name, "help") == 0;
        }
        assert_true(json && help);
    }
}

/* Completion and abbreviated ids depend on the words of usage lines. */
static void every_argument_is_a_known_word(void **state)
{
    char word[ATOLL_CLI_WORD_MAX];
    (void)state;

    for (const struct atoll_cli_verb *const *v = atoll_cli_verbs; *v; v++) {
        int n = 0;
        for (; n < 5 && atoll_cli_arg_word(*v, n, word); n++)
            assert_true(atoll_cli_word_find(word) || atoll_cli_word_is_choice(word));
        assert_true((*v)->max_args < 0 ? n == 5 : n <= (*v)->max_args || n == 5);
        assert_true(n >= (*v)->min_args);
    }
    assert_true(atoll_cli_arg_word(&atoll_cli_exec, 0, word));
    assert_string_equal(word, "SANDBOX");
    assert_true(atoll_cli_arg_word(&atoll_cli_exec, 7, word));
    assert_string_equal(word, "ARG");
    assert_false(atoll_cli_arg_word(&atoll_cli_version, 0, word));
}

static void join_lines(void *arg, const char *text, size_t n)
{
    char *all = arg;

    assert_int_equal(strlen(text), n);
    (void)snprintf(all + strlen(all), 64 - strlen(all), "<%s>", text);
}

static void answers_are_split_into_lines(void **state)
{
    static const char text[] = "one\n\nlonger line\nrest";
    struct atoll_cli_lines lines;

    (void)state;
    for (size_t step = 1; step < sizeof(text); step++) {
        char all[64] = "";
        atoll_cli_lines_init(&lines, 12, join_lines, all);
        for (size_t at = 0; at < sizeof(text) - 1; at += step)
            assert_int_equal(
                atoll_cli_lines_write(&lines, text + at, ATOLL_MIN(step, sizeof(text) - 1 - at)),
                0);
        assert_string_equal(all, "<one><><longer line>");
        assert_true(atoll_cli_lines_write(&lines, "too long a line", 15) < 0);
        atoll_cli_lines_done(&lines);
    }
}

static void code_has_an_exit_status(void **state)
{
    static const struct {
        const char *name, *value;
        int status;
    } rows[] = {
        {"ValueError", "3", 1},
        {"SystemExit", "5", 5},
        {"SystemExit", "bye", 1},
        {"ExitCode", "6; gone", 6},
        {"ExitStatus", "1", 1},
        {"TimedOut", "", 124},
        {"OutOfMemory", "", 137},
        {"SystemExit", "0", 0},
        {"InterpreterEnded", "the interpreter ended with status 3", 3},
        {"InterpreterEnded", "the interpreter was killed", 1},
    };

    (void)state;
    assert_int_equal(atoll_cli_code_status(NULL), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        ATOLL_AUTOJSON json_t *error =
            json_pack("{s:s, s:s}", "name", rows[i].name, "value", rows[i].value);
        assert_int_equal(atoll_cli_code_status(error), rows[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_in_every_spelling),
        cmocka_unit_test(arguments_and_options_may_mix),
        cmocka_unit_test(a_command_keeps_its_own_options),
        cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(a_list_has_a_maximum),
        cmocka_unit_test(tables_are_walked_with_what_they_hold),
        cmocka_unit_test(verbs_are_found_by_one_word_or_two),
        cmocka_unit_test(unknown_verbs_get_the_nearest),
        cmocka_unit_test(every_verb_is_complete),
        cmocka_unit_test(every_argument_is_a_known_word),
        cmocka_unit_test(answers_are_split_into_lines),
        cmocka_unit_test(code_has_an_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
