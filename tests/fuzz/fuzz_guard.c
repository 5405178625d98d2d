/*
 * The guard of tool calls: commands of models, patterns and policies of clients, texts for records, pages of the web. The
 * first line of the input is a pattern, and the rest a command; all of it is also a policy, a text and a page.
 */
#include <stdlib.h>
#include <string.h>
#include "api/tool/tool_internal.h"
#include "fuzz.h"
#include "guard/match.h"
#include "guard/policy.h"
#include "guard/redact.h"

static void check_commands(const char *pattern_text, const char *text, size_t n)
{
    struct atoll_pattern pattern = {0}, all = {0};
    struct atoll_shell shell;
    struct atoll_error err;
    int r = atoll_shell_parse(text, n, &shell, &err);
    bool usable = atoll_pattern_parse(pattern_text, &pattern, &err) == 0;
    size_t work = 1000000;

    FUZZ_CHECK(r == 0 || strnlen(err.text, sizeof(err.text)) < sizeof(err.text));
    FUZZ_CHECK(shell.count <= ATOLL_SHELL_COMMANDS_MAX);
    FUZZ_CHECK(atoll_pattern_parse("*", &all, &err) == 0);
    for (size_t i = 0; i < shell.count; i++) {
        FUZZ_CHECK(shell.commands[i].count > 0);
        if (i < 8)
            FUZZ_CHECK(atoll_pattern_match(&all, &shell.commands[i], &work) != ATOLL_MATCH_NO);
        if (usable)
            (void)atoll_pattern_match(&pattern, &shell.commands[i], &work);
    }
    atoll_pattern_done(&pattern);
    atoll_pattern_done(&all);
    atoll_shell_done(&shell);
}

/* What is shown of a policy is no secret; its decisions are the same for the same call. */
static void check_policy(const char *bytes, size_t n, const char *command)
{
    json_t *json = json_loadb(bytes, n, 0, NULL);
    struct atoll_guard_policy *policy = NULL;
    struct atoll_guard_decision one, two;
    struct atoll_error err;
    json_t *shown;
    char *text;

    if (json && atoll_guard_policy_parse(json, &policy, &err) == 0) {
        static const char *const like[] = {"Write", NULL};
        struct atoll_guard_subject subject = {.tool = "Bash",
                                              .mcp_name = "run_command",
                                              .command = command,
                                              .path = "/home/user/../x/./y",
                                              .home = "/home/user"};
        atoll_guard_decide(policy, &subject, &one);
        atoll_guard_decide(policy, &subject, &two);
        FUZZ_CHECK(one.verdict == two.verdict && strcmp(one.by, two.by) == 0);
        FUZZ_CHECK(one.verdict == ATOLL_GUARD_ALLOW || *one.reason);
        /* More paths and names make no decision weaker. */
        subject.like = like;
        subject.with_content = true;
        subject.target = "/etc/passwd";
        subject.files = json_object_get(json, "rules");
        atoll_guard_decide(policy, &subject, &two);
        FUZZ_CHECK(two.verdict >= one.verdict);
        FUZZ_CHECK(two.verdict == ATOLL_GUARD_ALLOW || *two.reason);
        shown = atoll_guard_policy_show(policy);
        text = json_dumps(shown, JSON_COMPACT);
        FUZZ_CHECK(text && !strstr(text, "\"secret\""));
        free(text);
        json_decref(shown);
    }
    (void)atoll_guard_policy_free(policy);
    if (json) {
        text = atoll_guard_redact(json);
        FUZZ_CHECK(!text || strlen(text) <= ATOLL_GUARD_ARGS_MAX);
        free(text);
    }
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *line;
    struct atoll_buf out;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    atoll_buf_init(&out, 16 * size + 64);
    FUZZ_CHECK(atoll_guard_redact_text(text, size, &out) == 0);
    atoll_buf_clear(&out);
    atoll_tool_html_text(text, size, &out);
    FUZZ_CHECK(atoll_buf_size(&out) <= 4 * size + 4);
    atoll_buf_done(&out);
    line = memchr(text, '\n', size);
    check_policy(text, size, "sh -c \"rm $X\"; (git push)");
    if (line) {
        *line = '\0';
        check_commands(text, line + 1, size - (size_t)(line + 1 - text));
    }
    free(text);
    return 0;
}
