/* Decisions of rules about paths, about tools that do the same as others, and about commands that are made of arguments. */
#include <stdlib.h>
#include <string.h>
#include "guard/policy.h"
#include "test.h"

#define ALLOW ATOLL_GUARD_ALLOW
#define ASK ATOLL_GUARD_ASK
#define DENY ATOLL_GUARD_DENY

static struct atoll_guard_policy *policy_of(const char *text)
{
    struct atoll_guard_policy *policy = NULL;
    struct atoll_error error;
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (atoll_guard_policy_parse(json, &policy, &error) < 0)
        fail_msg("%s: %s", text, error.text);
    json_decref(json);
    return policy;
}

static void decides(const char *rules, const struct atoll_guard_subject *subject,
                    enum atoll_guard_verdict verdict)
{
    struct atoll_guard_policy *policy = policy_of(rules);
    struct atoll_guard_decision decision;

    atoll_guard_decide(policy, subject, &decision);
    if (decision.verdict != verdict)
        fail_msg("%s, %s: %s by %s", rules, subject->path ? subject->path : subject->command,
                 atoll_guard_verdict_name(decision.verdict), decision.by);
    (void)atoll_guard_policy_free(policy);
}

/* What is moved or removed with its content. */
static void test_directories(void **state)
{
    static const struct {
        const char *pattern, *path;
        enum atoll_guard_verdict whole, alone;
    } rows[] = {
        {"~/.ssh/**", "/home/user/.ssh", DENY, ALLOW},
        {"~/.ssh/**", "/home/user/.ssh/", DENY, ALLOW},
        {"~/.ssh/**", "/home/user/x/../.ssh/.", DENY, ALLOW},
        {"~/.ssh/**", "/home/user", DENY, ALLOW},
        {"~/.ssh/**", "/home", DENY, ALLOW},
        {"~/.ssh/**", "/", DENY, ALLOW},
        {"~/.ssh/**", "/home/user/.ssh/id", DENY, DENY},
        {"~/.ssh/**", "/home/user/.ss", ALLOW, ALLOW},
        {"~/.ssh/**", "/home/user/.sshd", ALLOW, ALLOW},
        {"~/.ssh/**", "/home/other", ALLOW, ALLOW},
        {"~/.ssh/**", "/home/user/a/b/c/d", ALLOW, ALLOW},
        {"/etc/", "/etc", DENY, ALLOW},
        {"/etc/passwd", "/etc", DENY, ALLOW},
        {"/etc/passwd", "/etc/passwd", DENY, DENY},
        {"/home/*/.ssh/**", "/home/ann", DENY, ALLOW},
        {"/home/*/.ssh/**", "/home/ann/.ssh", DENY, ALLOW},
        {"/home/*/.ssh/**", "/home/ann/x", ALLOW, ALLOW},
        {"/srv/**/keys", "/srv", DENY, ALLOW},
        {"/srv/**/keys", "/srv/a", ALLOW, ALLOW},
        {"**/.env", "/home/user/app", ALLOW, ALLOW},
        {"**/.env", "/home/user/app/.env", DENY, DENY},
        {"/a//b", "/a/x", ALLOW, ALLOW},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        for (int whole = 0; whole < 2; whole++) {
            struct atoll_guard_subject subject = {.mcp_name = "delete_file",
                                                  .path = rows[i].path,
                                                  .with_content = whole,
                                                  .home = "/home/user"};
            char rules[200], allows[200];

            (void)snprintf(rules, sizeof(rules),
                           "{\"rules\": [{\"decision\": \"deny\", \"path\": \"%s\"}]}",
                           rows[i].pattern);
            decides(rules, &subject, whole ? rows[i].whole : rows[i].alone);
            /* A directory is not allowed because of what is in it. */
            (void)snprintf(
                allows, sizeof(allows),
                "{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"path\": \"%s\"}]}",
                rows[i].pattern);
            decides(allows, &subject, rows[i].alone == DENY ? ALLOW : DENY);
        }
}

static void test_targets(void **state)
{
    struct atoll_guard_subject subject = {.mcp_name = "move_file",
                                          .path = "/tmp/x",
                                          .target = "/home/user/.ssh",
                                          .with_content = true,
                                          .home = "/home/user"};

    (void)state;
    decides("{\"rules\": [{\"decision\": \"ask\", \"path\": \"~/.ssh/**\"}]}", &subject, ASK);
    subject.target = "/home/user/ssh";
    decides("{\"rules\": [{\"decision\": \"ask\", \"path\": \"~/.ssh/**\"}]}", &subject, ALLOW);
}

static void test_files(void **state)
{
    static const char denies[] = "{\"rules\": [{\"decision\": \"deny\", \"path\": \"**/.env\"},"
                                 "{\"decision\": \"deny\", \"path\": \"/repo/secret/**\"}]}";
    static const char allows[] =
        "{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"path\": \"/repo\"},"
        "{\"decision\": \"deny\", \"path\": \"/repo/x\"}, {\"decision\": \"allow\", \"path\": "
        "\"/**\"}]}";
    static const struct {
        const char *file;
        enum atoll_guard_verdict denied, allowed;
    } rows[] = {
        {"a", ALLOW, ALLOW},      {"sub/.env", DENY, ALLOW},    {"secret/k", DENY, ALLOW},
        {"x", ALLOW, DENY},       {"/repo/x", ALLOW, DENY},     {"b/../secret/k", DENY, ALLOW},
        {"/a/.env", DENY, ALLOW}, {"../other/x", ALLOW, ALLOW},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        json_t *files = json_pack("[s, s]", "first", rows[i].file);
        const struct atoll_guard_subject subject = {
            .mcp_name = "git_add", .path = "/repo", .files = files, .home = "/home/user"};

        decides(denies, &subject, rows[i].denied);
        decides(allows, &subject, rows[i].allowed);
        json_decref(files);
    }
}

/* What cannot be compared asks or is denied, and is not allowed. */
static void test_files_without_end(void **state)
{
    static const char denies[] =
        "{\"rules\": [{\"decision\": \"deny\", \"path\": \"/nowhere/**\"}]}";
    static const char allows[] =
        "{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"path\": \"/**\"}]}";
    char long_name[5000], many_rules[8000] = "{\"rules\": [";
    json_t *files = json_array(), *many = json_array();
    struct atoll_guard_subject subject = {
        .mcp_name = "git_add", .path = "/repo", .files = files, .home = "/home/user"};

    (void)state;
    memset(long_name, 'a', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    assert_int_equal(json_array_append_new(files, json_string(long_name)), 0);
    decides(denies, &subject, DENY);
    decides(allows, &subject, DENY);
    long_name[4000] = '\0';
    for (int i = 0; i < 100; i++)
        assert_int_equal(json_array_append_new(many, json_string(long_name)), 0);
    for (int i = 0; i < 40; i++)
        (void)snprintf(many_rules + strlen(many_rules), sizeof(many_rules) - strlen(many_rules),
                       "%s{\"decision\": \"ask\", \"path\": \"/nowhere/at/all/here/or/there/**\"}",
                       i ? ", " : "");
    strcat(many_rules, "]}");
    subject.files = many;
    decides(denies, &subject, ALLOW);
    decides(allows, &subject, ALLOW);
    decides(many_rules, &subject, ASK);
    json_decref(files);
    json_decref(many);
}

static void test_tools_that_do_the_same(void **state)
{
    static const char *const like[] = {"Write", "write_file", NULL};
    const struct atoll_guard_subject subject = {
        .mcp_name = "upload_file", .path = "/home/user/.env", .like = like, .home = "/home/user"};

    (void)state;
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": [\"Write\", \"Edit\"], \"path\": "
            "\"**/.env\"}]}",
            &subject, DENY);
    decides("{\"rules\": [{\"decision\": \"ask\", \"tools\": \"write_*\"}]}", &subject, ASK);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"Edit\"}]}", &subject, ALLOW);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"upload_file\"}]}", &subject, DENY);
    /* Such a tool is not allowed because another one is. */
    decides("{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"tools\": \"Write\"}]}",
            &subject, DENY);
}

static void test_made_commands(void **state)
{
    struct atoll_guard_subject subject = {.mcp_name = "git_push",
                                          .command = "git push 'origin' 'main'",
                                          .command_is_made = true,
                                          .home = "/home/user"};

    (void)state;
    decides("{\"rules\": [{\"decision\": \"ask\", \"command\": \"git push *\"}]}", &subject, ASK);
    decides("{\"rules\": [{\"decision\": \"deny\", \"command\": \"git push * main\"}]}", &subject,
            DENY);
    decides("{\"rules\": [{\"decision\": \"deny\", \"command\": \"git pull *\"}]}", &subject,
            ALLOW);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"Bash\", \"command\": \"git *\"}]}",
            &subject, DENY);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"git_*\", \"command\": \"git *\"}]}",
            &subject, DENY);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"Bash\"}]}", &subject, ALLOW);
    decides("{\"rules\": [{\"decision\": \"deny\", \"tools\": \"Read\", \"command\": \"git *\"}]}",
            &subject, ALLOW);
    /* A rule that allows a command allows no tool, and changes nothing for one that is allowed. */
    decides("{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"command\": \"git "
            "*\"}]}",
            &subject, DENY);
    decides("{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"tools\": \"git_*\"}, "
            "{\"decision\": \"allow\", \"command\": \"echo *\"}]}",
            &subject, ALLOW);
    decides("{\"default\": \"deny\", \"rules\": [{\"decision\": \"allow\", \"tools\": \"git_*\"}, "
            "{\"decision\": \"deny\", \"command\": \"git push *\"}]}",
            &subject, DENY);
    subject.command = "git push '";
    decides("{\"rules\": [{\"decision\": \"deny\", \"command\": \"rm *\"}]}", &subject, ASK);
    decides("{\"rules\": [{\"decision\": \"allow\", \"command\": \"rm *\"}]}", &subject, ALLOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_files_without_end),
        cmocka_unit_test(test_tools_that_do_the_same),
        cmocka_unit_test(test_made_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
