/* Commands made from requests, git's words, and URLs. test_git_corpus.c has the readers on any bytes. */
#include <string.h>
#include "git/command.h"
#include "git/porcelain.h"
#include "git/problem.h"
#include "test.h"

static bool has_word(const char *const *words, const char *part)
{
    for (; *words; words++)
        if (strstr(*words, part))
            return true;
    return false;
}

/* The one promise of all requests: a password is in the input of the command and nowhere else. */
static void test_a_password_is_only_in_the_input(void **state)
{
    static const enum atoll_git_op ops[] = {ATOLL_GIT_CLONE, ATOLL_GIT_FETCH, ATOLL_GIT_PULL,
                                            ATOLL_GIT_PUSH};
    struct atoll_git_command command;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ops); i++) {
        const struct atoll_git_request request = {
            .op = ops[i],
            .url = "https://h/r.git",
            .credentials = {.username = "ann", .password = "p4ss"}};
        assert_int_equal(atoll_git_command_make(&request, &command, &error), 0);
        assert_false(has_word(command.argv, "p4ss") || has_word(command.env, "p4ss"));
        assert_memory_equal(atoll_buf_head(&command.input), "ann\np4ss\n", 9);
        atoll_git_command_done(&command);
    }
}

static void test_a_password_of_a_url(void **state)
{
    const struct atoll_git_request request = {.op = ATOLL_GIT_CLONE,
                                              .url = "https://ann:p4%25ss@h:8443/a/r.git/"};
    struct atoll_git_command command;
    struct atoll_error error;

    (void)state;
    assert_int_equal(atoll_git_command_make(&request, &command, &error), 0);
    assert_true(has_word(command.argv, "https://h:8443/a/r.git/"));
    assert_false(has_word(command.argv, "p4") || has_word(command.env, "p4"));
    assert_true(has_word(command.env, "ATOLL_GIT_SERVER=https://h:8443"));
    assert_memory_equal(atoll_buf_head(&command.input), "ann\np4%ss\n", 10);
    assert_string_equal(command.url.name, "r");
    atoll_git_command_done(&command);
}

static void test_what_git_would_take_for_options(void **state)
{
    static const struct atoll_git_request requests[] = {
        {.op = ATOLL_GIT_CLONE, .url = "--upload-pack=x"},
        {.op = ATOLL_GIT_CLONE, .url = "https://h/r", .ref = "-x"},
        {.op = ATOLL_GIT_CLONE, .url = "https://h/r", .commit = "-x"},
        {.op = ATOLL_GIT_LOG, .ref = "--output=x"},
        {.op = ATOLL_GIT_DIFF, .ref = "HEAD", .to = "--output=x"},
        {.op = ATOLL_GIT_FETCH, .remote = "--upload-pack=x"},
        {.op = ATOLL_GIT_BRANCH_CREATE, .name = "--all"},
        {.op = ATOLL_GIT_CONFIG_SET, .name = "--global", .value = "x"},
        {.op = ATOLL_GIT_STATUS, .path = "-x"},
        {.op = ATOLL_GIT_CHECKOUT, .ref = "a\nb"},
    };
    struct atoll_git_command command;
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(requests); i++) {
        assert_true(atoll_git_command_make(&requests[i], &command, &error) < 0);
        assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
        atoll_git_command_done(&command);
    }
}

static void test_urls(void **state)
{
    static const struct {
        const char *text, *name, *rest;
    } rows[] = {
        {"https://h/a/b.git", "b", "https://h/a/b.git"},
        {"git@h:a/b.git", "b", "git@h:a/b.git"},
        {"../x/y/.git", "y", "../x/y/.git"},
        {"https://u:p@h/", "", "https://h/"},
        {"https://u@h/r?x=1", "r?x=1", "https://h/r?x=1"},
        {"HTTP://a@b@h/r", "r", "HTTP://h/r"},
    };
    static struct atoll_git_url url;
    char name[ATOLL_GIT_NAME_MAX];
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_int_equal(atoll_git_url_split(rows[i].text, &url, &error), 0);
        assert_string_equal(url.name, rows[i].name);
        assert_string_equal(url.text, rows[i].rest);
    }
    atoll_git_clone_name("https://u:p@h/a/r.git", name);
    assert_string_equal(name, "r");
    atoll_git_clone_name("https://u:%0a@h/r", name);
    assert_string_equal(name, "");
    assert_true(atoll_git_url_split("https://u:%0a@h/r", &url, &error) < 0);
    assert_true(atoll_git_url_split("https://u:%zz@h/r", &url, &error) < 0);
    assert_true(atoll_git_url_split("https:///r", &url, &error) < 0);
    assert_true(atoll_git_url_split("", &url, &error) < 0);
}

static void test_words(void **state)
{
    static const struct {
        const char *words;
        enum atoll_git_problem problem;
    } rows[] = {
        {"fatal: Authentication failed for 'https://h/r/'", ATOLL_GIT_AUTH_FAILED},
        {"fatal: could not read Username for 'https://h': terminal prompts disabled",
         ATOLL_GIT_AUTH_FAILED},
        {"remote: Repository not found.\nfatal: repository 'https://h/r/' not found",
         ATOLL_GIT_REMOTE_NOT_FOUND},
        {"fatal: unable to access 'https://h/': Could not resolve host: h", ATOLL_GIT_UNREACHABLE},
        {"fatal: not a git repository (or any of the parent directories): .git",
         ATOLL_GIT_NOT_A_REPOSITORY},
        {"error: branch 'x' not found.", ATOLL_GIT_REF_NOT_FOUND},
        {"fatal: a branch named 'x' already exists", ATOLL_GIT_EXISTS},
        {"something else", ATOLL_GIT_FAILED},
        {"", ATOLL_GIT_FAILED},
    };
    static const struct {
        const char *words, *text, *hint;
    } hints[] = {
        {"Cloning into 'r'...\ngit@h: Permission denied (publickey).\r\nfatal: Could not read from remote "
         "repository.\n",
         "git clone: git@h: Permission denied (publickey).", "key of ssh"},
        {"No ED25519 host key is known for h and you have requested strict checking.\r\n"
         "Host key verification failed.\r\nfatal: Could not read from remote repository.\n",
         "git clone: Host key verification failed.", "known_hosts"},
        {"error: cannot run ssh: No such file or directory\nfatal: unable to fork\n",
         "git clone: error: cannot run ssh: No such file or directory", "install an ssh client"},
        {"fatal: Authentication failed for 'https://h/r/'",
         "git clone: fatal: Authentication failed for 'https://h/r/'", "\"credentials\" that"},
    };
    struct atoll_error error;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_int_equal(atoll_git_judge(ATOLL_GIT_CLONE, "", rows[i].words), rows[i].problem);
        (void)atoll_git_fail(&error, ATOLL_GIT_CLONE, rows[i].problem, rows[i].words);
        assert_true(error.kind != ATOLL_ERR_NONE && strncmp(error.text, "git clone", 9) == 0);
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(hints); i++) {
        enum atoll_git_problem problem = atoll_git_judge(ATOLL_GIT_CLONE, "", hints[i].words);

        (void)atoll_git_fail(&error, ATOLL_GIT_CLONE, problem, hints[i].words);
        assert_string_equal(error.text, hints[i].text);
        assert_non_null(strstr(error.hint, hints[i].hint));
    }
    /* Only a push has its reasons in its output. */
    assert_int_equal(atoll_git_judge(ATOLL_GIT_PUSH, "!\ta:b\t[rejected] (fetch first)", ""),
                     ATOLL_GIT_NON_FAST_FORWARD);
    assert_int_equal(atoll_git_judge(ATOLL_GIT_LOG, "(fetch first)", ""), ATOLL_GIT_FAILED);
}

static void test_every_problem_has_a_name_and_a_kind(void **state)
{
    struct atoll_error error;

    (void)state;
    for (int i = 0; i < ATOLL_GIT_PROBLEMS; i++) {
        (void)atoll_git_fail(&error, ATOLL_GIT_PULL, (enum atoll_git_problem)i, "fatal: x");
        assert_true(error.kind != ATOLL_ERR_NONE &&
                    *atoll_git_problem_name((enum atoll_git_problem)i));
    }
    for (int i = 0; i < ATOLL_GIT_OPS; i++)
        assert_non_null(atoll_git_op_name((enum atoll_git_op)i));
}

/* A cut record is not returned. */
static void test_cut_output(void **state)
{
    static const char text[] = "# branch.head main\0? whole\0? cut";
    struct atoll_git_cursor c = {(const uint8_t *)text, sizeof(text) - 1};
    struct atoll_git_head head;
    struct atoll_git_file file;

    (void)state;
    atoll_git_status_head(&c, &head);
    assert_string_equal(head.branch, "main");
    assert_true(atoll_git_status_next(&c, &file));
    assert_string_equal(file.path, "whole");
    assert_false(atoll_git_status_next(&c, &file));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_password_is_only_in_the_input),
        cmocka_unit_test(test_a_password_of_a_url),
        cmocka_unit_test(test_what_git_would_take_for_options),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_every_problem_has_a_name_and_a_kind),
        cmocka_unit_test(test_cut_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
