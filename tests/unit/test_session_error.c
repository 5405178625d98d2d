/* Why code failed: from what interpreters write, where the record of the command agrees. */
#include <string.h>
#include "interpreter/explain.h"
#include "test.h"

static struct atoll_session_error explain(const char *language, int code, const char *text)
{
    const struct atoll_exec_result end = {.kind = ATOLL_END_EXITED, .code = code};
    struct atoll_session_error error;

    atoll_session_explain(language, &end, (const uint8_t *)text, strlen(text), &error);
    return error;
}

static void expect(const struct atoll_session_error *e, const char *name, const char *value,
                   const char *traceback_start)
{
    assert_string_equal(e->name, name);
    assert_string_equal(e->value, value);
    assert_true(e->traceback_len >= strlen(traceback_start));
    assert_memory_equal(e->traceback, traceback_start, strlen(traceback_start));
}

static void test_python(void **state)
{
    struct atoll_session_error e;

    (void)state;
    e = explain("python", 1,
                "noise\nTraceback (most recent call last):\n  File \"x\", line 1\n    1/0\n"
                "ZeroDivisionError: division by zero\n\nDuring handling of the above exception, "
                "another exception occurred:\n\nTraceback (most recent call last):\n"
                "  File \"x\", line 6, in <module>\n    f()\na.b.Bad: two\nlines\n");
    expect(&e, "a.b.Bad", "two\nlines", "Traceback (most recent call last):\n  File \"x\", line 6");
    e = explain("python", 1,
                "  File \"x\", line 1\n    x = (\n        ^\nSyntaxError: never closed\n");
    expect(&e, "SyntaxError", "never closed", "  File \"x\"");
    e = explain("python", 1,
                "Traceback (most recent call last):\n  File \"x\", line 2\n    r\nKeyErr");
    expect(&e, "KeyErr", "", "Traceback");
    /* Not what an exception nobody caught leaves. */
    e = explain("python", 1, "bye\n");
    expect(&e, "ExitCode", "1", "");
    e = explain("python", 3, "Traceback (most recent call last):\n  File \"x\"\nA: b\n");
    expect(&e, "ExitCode", "3", "");
    e = explain("python", 1, "Traceback (most recent call last):\n  File \"x\"\n");
    expect(&e, "ExitCode", "1", "");
    e = explain("python", 1, "");
    expect(&e, "ExitCode", "1", "");
    e = explain("python", 0, "Traceback (most recent call last):\n  File \"x\"\nA: b\n");
    expect(&e, "", "", "");
    /* Another language has no such tracebacks. */
    e = explain("bash", 1, "Traceback (most recent call last):\n  File \"x\"\nA: b\n");
    expect(&e, "ExitCode", "1", "");
}

static void test_node(void **state)
{
    struct atoll_session_error e;

    (void)state;
    e = explain("javascript", 1,
                "/x.js:1\nthrow new TypeError()\n^\n\nTypeError [ERR_X]: bad\nline2\n    at Object "
                "(x)\n\nNode.js v20.20.2\n");
    expect(&e, "TypeError", "bad\nline2", "/x.js:1\nthrow new");
    e = explain("javascript", 1, "\n/x.js:1\nthrow {a:1}\n^\n{ a: 1 }\n\nNode.js v20.20.2\n");
    expect(&e, "Uncaught", "{ a: 1 }", "/x.js:1\nthrow {a:1}");
    e = explain("javascript", 1, "console says ^\n");
    expect(&e, "ExitCode", "1", "");
}

static void test_records(void **state)
{
    struct atoll_exec_result end = {.kind = ATOLL_END_OOM_KILLED, .signal = 9};
    struct atoll_session_error e;
    static const uint8_t text[] = "Traceback (most recent call last):\n  File \"x\"\nA: b\n";

    (void)state;
    (void)strcpy(end.oom_process, "python3");
    end.oom_limit_bytes = UINT64_C(64) << 20;
    atoll_session_explain("python", &end, text, sizeof(text) - 1, &e);
    assert_string_equal(e.name, "OutOfMemory");
    assert_non_null(strstr(e.value, "python3 was killed"));
    assert_non_null(strstr(e.value, "64 MiB"));
    end.kind = ATOLL_END_TIMED_OUT;
    end.duration_ms = 1500;
    atoll_session_explain("python", &end, NULL, 0, &e);
    expect(&e, "TimedOut", "stopped after 1.500 s, its time limit", "");
    end.kind = ATOLL_END_SIGNALED;
    end.signal = 11;
    atoll_session_explain("python", &end, NULL, 0, &e);
    expect(&e, "Signaled", "SIGSEGV (11)", "");
    end.kind = ATOLL_END_LOST;
    (void)strcpy(end.reason, "nobody knows");
    atoll_session_explain("python", &end, NULL, 0, &e);
    expect(&e, "Lost", "nobody knows", "");
}

static bool is_command(const char *code)
{
    return atoll_code_is_command(code, strlen(code));
}

static void test_commands(void **state)
{
    struct atoll_session_error e = {.name = "SyntaxError", .value = "invalid syntax"};

    (void)state;
    assert_true(is_command("python app.py"));
    assert_true(is_command("  ls -la\n"));
    assert_true(is_command("# first\ncd /tmp\r\n\n./configure && make"));
    assert_false(is_command(""));
    assert_false(is_command("# nothing"));
    assert_false(is_command("def f(:"));
    assert_false(is_command("ls -la\nx = 1"));
    assert_false(is_command("pipeline 5"));
    atoll_session_hint(&e);
    assert_non_null(strstr(e.value, "invalid syntax; this looks like a shell command"));
    (void)strcpy(e.name, "ValueError");
    (void)strcpy(e.value, "bad");
    atoll_session_hint(&e);
    assert_string_equal(e.value, "bad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python),
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_commands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
