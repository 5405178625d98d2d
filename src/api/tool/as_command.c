#include <string.h>
#include "api/tool/tool_internal.h"
#include "base/memory.h"
#include "guard/policy.h"

/*
 * What a call would be as a command of a shell, so that rules about commands hold for tools that do the same. Lines are
 * forms of one command: a rule about any of them is about the call.
 */
#define WORDS_MAX 6

static const struct form {
    const char *tool, *command;
    struct {
        const char *arg;
        const char *option; /* in front of the value, or for true; NULL: the value alone */
    } words[WORDS_MAX];
} forms[] = {
    {"git_clone", "git clone", {{"branch", "--branch"}, {"url", NULL}, {"path", NULL}}},
    {"git_status", "git status", {{NULL, NULL}}},
    {"git_diff",
     "git diff",
     {{"staged", "--staged"}, {"ref", NULL}, {"to", NULL}, {"files", NULL}}},
    {"git_log", "git log", {{"ref", NULL}, {"files", NULL}}},
    {"git_branches", "git branch", {{NULL, NULL}}},
    {"git_checkout", "git checkout", {{"create", "-b"}, {"ref", NULL}}},
    {"git_add", "git add", {{"all", "--all"}, {"files", NULL}}},
    {"git_add", "git add", {{"all", "-A"}, {"files", NULL}}},
    {"git_commit", "git commit", {{"all", "-a"}, {"message", "-m"}, {"files", NULL}}},
    {"git_pull", "git pull", {{"rebase", "--rebase"}, {"remote", NULL}, {"branch", NULL}}},
    {"git_push",
     "git push",
     {{"set_upstream", "--set-upstream"},
      {"remote", NULL},
      {"branch", NULL},
      {"force", "--force"}}},
    {"git_push",
     "git push",
     {{"force", "--force"}, {"set_upstream", "-u"}, {"remote", NULL}, {"branch", NULL}}},
    {"git_push",
     "git push",
     {{"force", "-f"}, {"set_upstream", "-u"}, {"remote", NULL}, {"branch", NULL}}},
    {"create_folder", "mkdir -p", {{"path", NULL}}},
    {"create_folder", "mkdir", {{"path", NULL}}},
    {"delete_file", "rm", {{"recursive", "-r"}, {"path", NULL}}},
    {"delete_file", "rm", {{"recursive", "-rf"}, {"path", NULL}}},
    {"move_file", "mv", {{"source", NULL}, {"destination", NULL}}},
};

/* A text that is longer than the guard reads is cut there: the guard says that it is too long. */
struct writer {
    char *text;
    size_t n;
};

static void put(struct writer *w, const char *bytes)
{
    for (; *bytes && w->n <= ATOLL_GUARD_COMMAND_MAX; bytes++)
        w->text[w->n++] = *bytes;
}

static void put_quoted(struct writer *w, const char *word)
{
    char one[2] = {0};

    put(w, " '");
    for (; *word && w->n <= ATOLL_GUARD_COMMAND_MAX; word++) {
        *one = *word;
        put(w, *word == '\'' ? "'\\''" : one);
    }
    put(w, "'");
}

static void put_argument(struct writer *w, const json_t *value, const char *option)
{
    if (option && value && !json_is_false(value)) {
        put(w, " ");
        put(w, option);
    }
    if (json_is_string(value))
        put_quoted(w, json_string_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        put_quoted(w, json_string_value(json_array_get(value, i)));
}

char *atoll_tool_as_command(const struct atoll_tool *tool, const json_t *args)
{
    struct writer w = {0};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(forms) && tool->mcp_name && !tool->object; i++) {
        const struct form *form = &forms[i];

        if (strcmp(form->tool, tool->mcp_name) != 0)
            continue;
        if (!w.text)
            w.text = atoll_alloc(ATOLL_GUARD_COMMAND_MAX + 2);
        put(&w, w.n > 0 ? "\n" : "");
        put(&w, form->command);
        for (size_t k = 0; k < WORDS_MAX && form->words[k].arg; k++)
            put_argument(&w, json_object_get(args, form->words[k].arg), form->words[k].option);
    }
    return w.text;
}
