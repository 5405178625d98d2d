/*
 * Unit tests of src/task: names of branches, subjects of commits, command lines of agents and what is
 * found in their output.
 */
#include <errno.h>
#include <string.h>
#include "api/rest/rest.h"
#include "api/rest/task/tasks.h"
#include "task/task_internal.h"
#include "test.h"

static void branches_are_named_after_the_instruction(void **state)
{
    char name[ATOLL_TASK_BRANCH_MAX];

    (void)state;
    atoll_task_branch_name("Fix the login page!", "abcdefghij", name);
    assert_string_equal(name, "atoll/fix-the-login-page-abcdef");
    atoll_task_branch_name("../..//~^: \\ \x7f\n", "abcdefghij", name);
    assert_string_equal(name, "atoll/abcdef");
    atoll_task_branch_name("Änderung an äöü and a very long instruction that goes on and on",
                           "abcdefghij", name);
    assert_string_equal(name, "atoll/nderung-an-and-a-very-long-instruction-t-abcdef");
}

static void subjects_are_one_short_line(void **state)
{
    char subject[80];

    (void)state;
    atoll_task_subject("  \n Add a page\nwith details", subject);
    assert_string_equal(subject, "Add a page");
    atoll_task_subject("", subject);
    assert_string_equal(subject, "Work of an agent");
    atoll_task_subject("ääääääääääääääääääääääääääääääääääääääääääääääääääää", subject);
    assert_int_equal(strlen(subject), 68 + strlen("…"));
    assert_string_equal(subject + 68, "…");
}

static struct atoll_task *task_of(const char *request)
{
    static struct atoll_task task;

    task = (struct atoll_task){.request = json_loads(request, 0, NULL), .facts = json_object()};
    assert_non_null(task.request);
    return &task;
}

static void task_done(struct atoll_task *task)
{
    json_decref(task->request);
    json_decref(task->facts);
}

/* A command of a step may take as long as the step. */
static void steps_have_their_own_time(void **state)
{
    struct atoll_task *task = task_of("{\"steps\": {\"check\": {\"timeoutSeconds\": 7200}}}");

    (void)state;
    task->at = atoll_task_step_find("check");
    assert_int_equal(atoll_task_step_ms(task), 7200 * 1000);
    task->at = atoll_task_step_find("setup");
    assert_int_equal(atoll_task_step_ms(task), 1800 * 1000);
    task->at = atoll_task_step_find("run");
    assert_int_equal(atoll_task_step_ms(task), 0);
    task_done(task);
}

static void the_command_line_has_what_the_task_gives(void **state)
{
    json_t *agent = json_loads("{\"command\": [\"x\", \"-p\", \"{instruction}\", \"{other}\"],"
                               " \"options\": {\"model\": [\"-m={model}\"], \"resume\": [\"-r\"]},"
                               " \"last\": [\"--\"]}",
                               0, NULL);
    struct atoll_task *task = task_of("{\"instruction\": \"say {model}\", \"model\": \"m1\"}");
    char **argv = atoll_task_agent_argv(task, agent);

    (void)state;
    assert_non_null(argv);
    assert_string_equal(argv[2], "say {model}"); /* what a task gives is not looked at again */
    assert_string_equal(argv[3], "{other}");
    assert_string_equal(argv[4], "-m=m1");
    assert_string_equal(argv[5], "--");
    assert_null(argv[6]);
    atoll_task_strings_free(argv);
    task_done(task);
    json_decref(agent);
}

static void say(struct atoll_task *task, const json_t *agent, const char *line)
{
    atoll_task_agent_line(task, agent, line, strlen(line));
}

static void lines_of_output_become_facts(void **state)
{
    json_t *agent = json_loads(
        "{\"output\": [{\"match\": {\"type\": \"result\", \"ok\": true}, \"output\": \"a/0/text\","
        " \"inputTokens\": \"usage/in\", \"costUsd\": \"cost\"},"
        " {\"match\": {\"type\": \"error\"}, \"error\": \"message\"}]}",
        0, NULL);
    struct atoll_task *task = task_of("{}");
    const json_t *usage;

    (void)state;
    say(task, agent, "not JSON");
    say(task, agent, "{\"type\": \"result\", \"ok\": false, \"a\": [{\"text\": \"no\"}]}");
    say(task, agent, "{\"type\": 7}");
    say(task, agent,
        "{\"type\": \"result\", \"ok\": true, \"a\": {\"0\": 3}, \"usage\": {\"in\": -4}}");
    assert_string_equal(atoll_task_fact(task, "output"), "");
    for (int i = 0; i < 2; i++)
        say(task, agent,
            "{\"type\": \"result\", \"ok\": true, \"a\": [{\"text\": \"yes\"}],"
            " \"usage\": {\"in\": 3}, \"cost\": 0.25}");
    assert_string_equal(atoll_task_fact(task, "output"), "yes");
    usage = json_object_get(task->facts, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "input_tokens")), 6);
    assert_true(json_number_value(json_object_get(usage, "cost_usd")) == 0.5);
    say(task, agent, "{\"type\": \"error\", \"message\": \"refused\"}");
    assert_string_equal(atoll_task_fact(task, "agent_error"), "refused");
    task_done(task);
    json_decref(agent);
}

/* A message in several lines counts once, whatever comes between them; the total at the end is what counts. */
static void usage_is_not_counted_twice(void **state)
{
    json_t *agent = json_loads(
        "{\"output\": [{\"match\": {\"type\": \"part\"}, \"id\": \"id\", \"inputTokens\": \"in\"},"
        " {\"match\": {\"type\": \"end\"}, \"total\": true, \"inputTokens\": \"in\"}]}",
        0, NULL);
    struct atoll_task *task = task_of("{}");
    const char *const lines[] = {"{\"type\": \"part\", \"id\": \"a\", \"in\": 10}",
                                 "{\"type\": \"part\", \"id\": \"b\", \"in\": 3}",
                                 "{\"type\": \"part\", \"id\": \"a\", \"in\": 12}",
                                 "{\"type\": \"part\", \"in\": 5}"};
    json_t *usage;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lines); i++)
        say(task, agent, lines[i]);
    usage = json_object_get(task->facts, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "input_tokens")), 12 + 3 + 5);
    say(task, agent, "{\"type\": \"end\", \"in\": 18}");
    assert_int_equal(json_integer_value(json_object_get(usage, "input_tokens")), 18);
    /* Another try counts beside that one, and never less than nothing. */
    task->tries = 1;
    atoll_task_output_forget(task);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(lines); i++)
        say(task, agent, lines[i]);
    assert_int_equal(json_integer_value(json_object_get(usage, "input_tokens")), 18 + 20);
    say(task, agent, "{\"type\": \"end\", \"in\": 1}");
    say(task, agent, "{\"type\": \"part\", \"id\": \"a\", \"in\": 2}");
    assert_int_equal(json_integer_value(json_object_get(usage, "input_tokens")), 18);
    assert_true(atoll_task_used(task, "input_tokens") == 18);
    atoll_task_used_earlier(task);
    assert_true(atoll_task_used(task, "input_tokens") == 0);
    task_done(task);
    json_decref(agent);
}

/* Of a budget, what the agent does not report is refused by its name. */
static void a_budget_is_for_what_the_agent_reports(void **state)
{
    struct atoll_task_agent agent = {
        "counter", json_loads("{\"output\": [{\"match\": {}, \"outputTokens\": \"n\"}]}", 0, NULL)};
    json_t *tokens = json_loads("{\"tokens\": 5, \"cpuSeconds\": 1}", 0, NULL),
           *cost = json_loads("{\"costUsd\": 5}", 0, NULL);
    struct atoll_error error;

    (void)state;
    assert_int_equal(atoll_task_budget_check(tokens, &agent, &error), 0);
    assert_int_equal(atoll_task_budget_check(NULL, &agent, &error), 0);
    assert_true(atoll_task_budget_check(cost, &agent, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "budget.costUsd: the agent counter does not report it"));
    json_decref((json_t *)(uintptr_t)agent.object);
    json_decref(tokens);
    json_decref(cost);
}

/* A value without a place in the agent's file is refused by its name, and {prompt} has two. */
static void a_value_needs_a_place(void **state)
{
    struct atoll_task_agent agent = {
        "placing",
        json_loads(
            "{\"command\": [\"x\", \"{prompt}\"], \"model\": \"m0\", \"instructions\": \"Be brief.\","
            " \"options\": {\"model\": [\"{model}\"]}, \"env\": {\"SESSION\": \"{resume}\"}}",
            0, NULL)};
    struct atoll_task *task = task_of("{\"instruction\": \"do it\", \"resume\": \"s\"}");
    json_t *tools = json_loads("{\"allowedTools\": \"Read\"}", 0, NULL);
    struct atoll_error error;
    char **argv;

    (void)state;
    assert_int_equal(atoll_task_agent_defaults(NULL, task->request, &agent, &error), 0);
    assert_int_equal(atoll_task_agent_takes(task->request, &agent, &error), 0);
    argv = atoll_task_agent_argv(task, agent.object);
    assert_string_equal(argv[1], "Be brief.\n\ndo it");
    assert_string_equal(argv[2], "m0");
    atoll_task_strings_free(argv);
    assert_true(atoll_task_agent_takes(tools, &agent, &error) < 0);
    assert_int_equal(error.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, "the agent placing takes no allowedTools"));
    json_decref(tools);
    task_done(task);
    json_decref((json_t *)(uintptr_t)agent.object);
}

/* A new task may not have it; one that an earlier version has stored goes on. */
static void a_rule_that_never_matches_is_refused_in_new_requests(void **state)
{
    json_t *policy =
        json_pack("{s:[{s:s, s:s}]}", "rules", "command", "curl * | sh", "decision", "deny");
    json_t *sandbox = json_pack("{s:O}", "toolPolicy", policy);
    json_t *request = json_pack("{s:s, s:O}", "instruction", "x", "sandbox", sandbox);
    struct atoll_body body = {0};
    struct atoll_options options;
    struct atoll_error error;
    void *hold = NULL;

    (void)state;
    assert_int_equal(atoll_rest_task_check(&body, request, "", &error), -EINVAL);
    assert_non_null(strstr(error.text, "sandbox: toolPolicy: rules[0]"));
    assert_int_equal(atoll_rest_task_decode(sandbox, &options, &hold, &error), 0);
    assert_non_null(strstr(options.tool_policy_json, "curl * | sh"));
    atoll_rest_task_release(hold);
    atoll_body_done(&body);
    json_decref(policy);
    json_decref(sandbox);
    json_decref(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_named_after_the_instruction),
        cmocka_unit_test(subjects_are_one_short_line),
        cmocka_unit_test(steps_have_their_own_time),
        cmocka_unit_test(the_command_line_has_what_the_task_gives),
        cmocka_unit_test(lines_of_output_become_facts),
        cmocka_unit_test(usage_is_not_counted_twice),
        cmocka_unit_test(a_budget_is_for_what_the_agent_reports),
        cmocka_unit_test(a_value_needs_a_place),
        cmocka_unit_test(a_rule_that_never_matches_is_refused_in_new_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
