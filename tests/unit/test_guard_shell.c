/* Commands in texts for a shell, and patterns for them. Holes are written as "@". */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "guard/match.h"
#include "test.h"

struct row {
    const char *text,
        *commands; /* separated by " ; "; "(…)" for those that only run others; NULL: refused */
};

static const struct row rows[] = {
    {"", ""},
    {"ls", "ls"},
    {"ls -l  'a b' c\\ d \"e f\"", "ls -l a b c d e f"},
    {"r'm' -\"rf\" \\/x", "rm -rf /x"},
    {"a | b |& c", "a ; b ; c"},
    {"a && b || c; d & e", "a ; b ; c ; d ; e"},
    {"a\nb # c\nd", "a ; b ; d"},
    {"a #b", "a"},
    {"a#b", "a#b"},
    {"a \\\n b", "a b"},
    {"(a; (b))", "a ; b"},
    {"{ a; b; }", "a ; b"},
    {"! a", "a"},
    {"if a; then b; elif c; then d; else e; fi", "a ; b ; c ; d ; e"},
    {"while a; do b; done < f", "a ; b"},
    {"for i in 1 $(x) 3; do rm $i; done", "x ; rm @*"},
    {"for ((i = 0; i < $(n); i++)); do a; done", "n ; a"},
    {"case $x in a|b) c ;; (d) e; f;; *) g; esac; h", "c ; e ; f ; g ; h"},
    {"case x in a) b; esac", "b"},
    {"echo $(case x in a) b;; esac)", "b ; echo @*"},
    {"f() { a; }; f", "a ; f"},
    {"function f { a; }", "a"},
    {"[[ -n $(a) && b < c ]] && d", "a ; d"},
    {"((i = $(a) + 1)); b", "a ; b"},
    {"A=1 B=$(b) c", "b ; c"},
    {"A=1", ""},
    {"a=(x $(y) z) b", "y ; b"},
    {"echo $(rm x) `rm y` \"$(rm z)\" '$(rm q)'", "rm x ; rm y ; rm z ; echo @* @* @ $(rm q)"},
    {"echo ${x:-$(rm y)}", "rm y ; echo @*"},
    {"echo $((1 + $(a)))", "a ; echo @*"},
    {"echo \"`echo \\`a\\``\"", "a ; echo @* ; echo @"},
    {"$x y", "@* y"},
    {"\"$x\" y", "@ y"},
    {"rm *.c [ab] ?", "rm @.c @ab] @"},
    {"{rm,-rf,/}", "@rm,-rf,/}*"},
    {"find . -exec rm {} \\;", "rm @ ; find . -exec rm {} ;"},
    {"a > b 2>&1 < c >> d &> e", "a"},
    {"a 2> b", "a"},
    {"a 2", "a 2"},
    {"> b", ""},
    {"diff <(a) <(b)", "a ; b ; diff @ @"},
    {"cat <<E\n$(a)\nb\nE\nc", "cat ; a ; c"},
    {"cat <<'E'\n$(a)\nE\nc", "cat ; c"},
    {"cat <<-E | b\n\tx\n\tE\nc", "cat ; b ; c"},
    {"cat <<< $(a)", "a ; cat"},
    {"sh -c 'a; b'", "a ; b ; (sh -c a; b)"},
    {"bash -xec \"a b\" c", "a b ; (bash -xec a b c)"},
    {"bash -c \"$x\"", "@* ; (bash -c @)"},
    {"/bin/sh -c 'rm x'", "rm x ; (/bin/sh -c rm x)"},
    {"bash script.sh", "bash script.sh"},
    {"bash --version", "bash --version"},
    {"bash", "@* ; (bash)"},
    {"echo rm x | sh", "echo rm x ; @* ; (sh)"},
    {"sh <<E\nrm x\nE", "@* ; (sh)"},
    {"bash -s a <<< 'rm x'", "@* ; (bash -s a)"},
    {"bash -x /dev/stdin", "@* ; (bash -x /dev/stdin)"},
    {"bash -o pipefail", "@* ; (bash -o pipefail)"},
    {"sudo bash", "@* ; (bash) ; sudo bash"},
    {". /dev/stdin", "@* ; . /dev/stdin"},
    {". ./env", ". ./env"},
    {"eval rm x", "rm x ; (eval rm x)"},
    {"eval $x", "@* ; (eval @*)"},
    {"sudo -u root A=1 rm x", "rm x ; sudo -u root A=1 rm x"},
    {"sudo --user=root rm x", "rm x ; sudo --user=root rm x"},
    {"env -i A=1 rm x", "rm x ; (env -i A=1 rm x)"},
    {"env -S 'rm x'", "@* ; (env -S rm x)"},
    {"env", "env"},
    {"nice -n 5 nohup timeout -s KILL 5 rm x",
     "rm x ; (timeout -s KILL 5 rm x) ; (nohup timeout -s KILL 5 rm x) ; "
     "(nice -n 5 nohup timeout -s KILL 5 rm x)"},
    {"ls | xargs -n 1 rm", "ls ; rm @* ; (xargs -n 1 rm)"},
    {"busybox rm x", "rm x ; (busybox rm x)"},
    {"su -c 'rm x' user", "rm x ; su -c rm x user"},
    {"trap 'rm x' EXIT", "rm x ; trap rm x EXIT"},
    {"command rm x", "rm x ; (command rm x)"},
    {"$'r\\x6d' x", "@ x"},
    {"$'rm' x", "rm x"},
    {"$\"rm\" x", "rm x"},
    {"time rm x", "rm x"},
    {"a='x", NULL},
    {"a \"b", NULL},
    {"a $(b", NULL},
    {"a `b", NULL},
    {"a ${b", NULL},
    {"a )", NULL},
    {"(a", NULL},
    {"a (b)", NULL},
    {"a >", NULL},
    {"a \\", NULL},
    {"case x in", NULL},
    {"[[ a", NULL},
    {"((1)", NULL},
    {"a \x01", NULL},
};

static void show(const struct atoll_shell *shell, struct atoll_buf *out)
{
    for (size_t i = 0; i < shell->count; i++) {
        const struct atoll_shell_command *c = &shell->commands[i];

        assert_int_equal(atoll_buf_appendf(out, "%s%s", i ? " ; " : "", c->runs_others ? "(" : ""),
                         0);
        for (size_t k = 0; k < c->count; k++) {
            assert_int_equal(atoll_buf_appends(out, k ? " " : ""), 0);
            for (const char *p = c->words[k].text; *p; p++)
                assert_int_equal(atoll_buf_append(out, *p == ATOLL_SHELL_HOLE ? "@" : p, 1), 0);
            assert_int_equal(atoll_buf_appends(out, c->words[k].many ? "*" : ""), 0);
        }
        assert_int_equal(atoll_buf_appends(out, c->runs_others ? ")" : ""), 0);
    }
}

static void test_commands(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        struct atoll_shell shell;
        struct atoll_error error;
        struct atoll_buf out;
        int r = atoll_shell_parse(rows[i].text, strlen(rows[i].text), &shell, &error);

        if (!rows[i].commands && r == 0)
            fail_msg("%s: was not refused", rows[i].text);
        if (rows[i].commands && r < 0)
            fail_msg("%s: %s", rows[i].text, error.text);
        atoll_buf_init(&out, 65536);
        show(&shell, &out);
        if (rows[i].commands && strcmp(atoll_buf_str(&out), rows[i].commands) != 0)
            fail_msg("%s:\n is     %s\n not    %s", rows[i].text, atoll_buf_str(&out),
                     rows[i].commands);
        atoll_buf_done(&out);
        atoll_shell_done(&shell);
    }
}

static void test_bounds(void **state)
{
    size_t n = ATOLL_SHELL_TEXT_MAX;
    char *text = malloc(n + 2);
    struct atoll_shell shell;
    struct atoll_error error;
    static const char *const parts[] = {"$(",     "(", "a;", "\"$(", "case x in a) ",
                                        "sh -c ", "`", "{",  "<<a "};

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(parts); i++) {
        size_t len = strlen(parts[i]);

        for (size_t k = 0; k < n; k++)
            text[k] = parts[i][k % len];
        assert_true(atoll_shell_parse(text, n, &shell, &error) < 0 || i >= 5);
        atoll_shell_done(&shell);
    }
    memset(text, 'a', n + 1);
    assert_int_equal(atoll_shell_parse(text, n, &shell, &error), 0);
    atoll_shell_done(&shell);
    assert_true(atoll_shell_parse(text, n + 1, &shell, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    atoll_shell_done(&shell);
    free(text);
}

/* The answer is about the last command of the text. */
static const struct {
    const char *pattern, *text;
    enum atoll_match match;
} matches[] = {
    {"rm *", "rm", ATOLL_MATCH_YES},
    {"rm *", "rm -rf x", ATOLL_MATCH_YES},
    {"rm *", "/bin/rm x", ATOLL_MATCH_YES},
    {"/bin/rm *", "rm x", ATOLL_MATCH_NO},
    {"rm *", "echo rm x", ATOLL_MATCH_NO},
    {"rm x", "rm x y", ATOLL_MATCH_NO},
    {"rm -rf /", "rm -rf /", ATOLL_MATCH_YES},
    {"rm -rf /", "rm -rf /tmp", ATOLL_MATCH_NO},
    {"rm -rf /", "rm -rf $X", ATOLL_MATCH_MAYBE},
    {"rm -rf /", "rm -rf /$X", ATOLL_MATCH_MAYBE},
    {"rm -rf /", "rm -rf \"/tmp/$X\"", ATOLL_MATCH_NO},
    {"rm * / *", "rm -r -f / x", ATOLL_MATCH_YES},
    {"git push *", "git push origin main", ATOLL_MATCH_YES},
    {"git push *", "git pull", ATOLL_MATCH_NO},
    {"git push *", "git commit -m \"$M\"", ATOLL_MATCH_NO},
    {"git push *", "git $X", ATOLL_MATCH_MAYBE},
    {"git push *", "$X", ATOLL_MATCH_MAYBE},
    {"git push *", "\"$X\"", ATOLL_MATCH_NO},
    {"git push", "git $X push", ATOLL_MATCH_MAYBE},
    {"git push", "git \"$X\" push", ATOLL_MATCH_NO},
    {"echo *", "echo $HOME", ATOLL_MATCH_YES},
    {"echo '*'", "echo x", ATOLL_MATCH_NO},
    {"cat *.pem", "cat a.pem", ATOLL_MATCH_YES},
    {"cat *.pem", "cat a.p", ATOLL_MATCH_NO},
    {"cat *.pem", "cat *.pem", ATOLL_MATCH_YES},
    {"cat *.pem", "cat *", ATOLL_MATCH_MAYBE},
    {"cat ?.pem", "cat a.pem", ATOLL_MATCH_YES},
    {"cat ?.pem", "cat ab.pem", ATOLL_MATCH_NO},
    {"* secret *", "curl -d secret x", ATOLL_MATCH_YES},
    {"curl *secret*", "curl a$(x)b", ATOLL_MATCH_MAYBE},
    {"mkfs*", "mkfs.ext4", ATOLL_MATCH_YES},
};

static void test_patterns(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(matches); i++) {
        struct atoll_pattern pattern;
        struct atoll_shell shell;
        struct atoll_error error;
        size_t work = 1000000;
        enum atoll_match match;

        assert_int_equal(atoll_pattern_parse(matches[i].pattern, &pattern, &error), 0);
        assert_int_equal(
            atoll_shell_parse(matches[i].text, strlen(matches[i].text), &shell, &error), 0);
        match = atoll_pattern_match(&pattern, &shell.commands[shell.count - 1], &work);
        if (match != matches[i].match)
            fail_msg("%s of %s: %d", matches[i].pattern, matches[i].text, (int)match);
        atoll_shell_done(&shell);
        atoll_pattern_done(&pattern);
    }
}

static void test_work_is_bounded(void **state)
{
    struct atoll_pattern pattern;
    struct atoll_shell shell;
    struct atoll_error error;
    size_t work = 100;
    static const char text[] = "a bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    (void)state;
    assert_int_equal(atoll_pattern_parse("a *b*b*b*b*c", &pattern, &error), 0);
    assert_int_equal(atoll_shell_parse(text, strlen(text), &shell, &error), 0);
    assert_int_equal(atoll_pattern_match(&pattern, &shell.commands[0], &work), ATOLL_MATCH_MAYBE);
    assert_int_equal(work, 0);
    atoll_shell_done(&shell);
    atoll_pattern_done(&pattern);
}

static void test_bad_patterns(void **state)
{
    static const char *const bad[] = {"", "  ", "a 'b", "a\nb", "a\x02"};
    struct atoll_pattern pattern;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_true(atoll_pattern_parse(bad[i], &pattern, &error) < 0);
}

static void test_patterns_that_never_match(void **state)
{
    static const char *const bad[] = {"curl * | sh", "a && b", "rm -rf /; ls", "ls ;", "( rm * )"};
    static const char *const good[] = {"curl *example.org/?a&b*", "grep '|' *", "find * \\;",
                                       "git push *"};
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_int_equal(atoll_pattern_check(bad[i], &error), -EINVAL);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++)
        assert_int_equal(atoll_pattern_check(good[i], &error), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),     cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_patterns),     cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_bad_patterns), cmocka_unit_test(test_patterns_that_never_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
