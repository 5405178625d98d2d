/* Tasks: an agent works on an instruction in a sandbox (docs/agents.md). */
#include "cli/task.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/collection.h"
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/request.h"

#define LINE_MAX_BYTES ((size_t)256 * 1024)

/* --- the log --- */

struct printing {
    FILE *stream;
    char step[32];
};

static void print_line(void *arg, const char *text, size_t n)
{
    struct printing *p = arg;
    ATOLL_AUTOJSON json_t *line = json_loadb(text, n, 0, NULL);
    const char *step = atoll_link_text(line, "step", "");
    const char *level = atoll_link_text(line, "level", "");
    char head[64];

    if (*step && strcmp(step, p->step) != 0) {
        (void)snprintf(p->step, sizeof(p->step), "%s", step);
        (void)snprintf(head, sizeof(head), "[%3lld%%] %s",
                       (long long)atoll_link_number(line, "percent", 0), step);
        atoll_cli_put_colour(p->stream, ATOLL_CLI_BOLD, head);
        (void)fputc('\n', p->stream);
    }
    (void)fputs(strcmp(level, "command") == 0 ? "  $ " : "  ", p->stream);
    atoll_cli_put_lines(p->stream, atoll_link_text(line, "message", ""), "    ");
    (void)fputc('\n', p->stream);
}

static int follow(struct atoll_cli *cli, const char *id, bool until_end, FILE *stream,
                  struct atoll_error *err)
{
    struct printing printing = {.stream = stream};
    struct atoll_http_transfer transfer = {.length = -1, .write = atoll_cli_lines_write};
    struct atoll_cli_lines lines;
    struct atoll_link_target target;
    int r = atoll_link_check_id("task", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/tasks/%s/log?follow=%s", id,
                              until_end ? "true" : "false");
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, -1); /* an agent may be silent for long */
    atoll_cli_lines_init(&lines, LINE_MAX_BYTES, print_line, &printing);
    transfer.arg = &lines;
    r = atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    atoll_cli_lines_done(&lines);
    return r;
}

/* --- run --- */

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_env env;
    const char *instruction, *agent, *model, *system_prompt, *environment, *repo, *base, *branch;
    const char *username, *setup, *check, *cleanup, *author, *trailer, *resume, *keys;
    struct atoll_cli_list capture, mcp, budget, requirements;
    const char *type, *pr_title, *tools;
    double timeout, stall, priority;
    bool no_push, detach, pr;
};

#define AT(member) offsetof(struct options, member)
#define TEXT(name, letter, member, value, help)                     \
    {                                                               \
        name, letter, ATOLL_CLI_TEXT, AT(member), value, help, NULL \
    }
static const struct atoll_cli_option run_table[] = {
    TEXT("instruction", 'i', instruction, "TEXT", "what the agent is to do"),
    TEXT("agent", 'a', agent, "NAME", "agent of the registry (default: shell)"),
    TEXT("model", 0, model, "NAME", "model of the agent"),
    TEXT("system-prompt", 0, system_prompt, "TEXT", "added to the agent's own"),
    TEXT("environment", 0, environment, "NAME",
         "environment of the registry (default: the agent's)"),
    TEXT("repo", 'r', repo, "URL|DIR",
         "a repository to work on; a directory of this machine needs no server"),
    TEXT("base", 0, base, "BRANCH", "where to begin (default: the repository's)"),
    TEXT("branch", 'b', branch, "NAME", "new branch (default: from the instruction)"),
    TEXT("username", 0, username, "NAME",
         "at the git server, with the password in ATOLL_GIT_PASSWORD"),
    TEXT("setup", 0, setup, "COMMAND", "before the agent runs; none, or auto (default)"),
    TEXT("check", 0, check, "COMMAND", "after the agent has run; if it fails, the task fails"),
    TEXT("cleanup", 0, cleanup, "always|success|never",
         "when the sandbox is removed (default: success)"),
    TEXT("author", 0, author, "NAME", "of the commit, as \"Ann <ann@example.org>\""),
    TEXT("trailer", 0, trailer, "LINE",
         "of the message of the commit, as \"Reviewed-by: Ann <ann@example.org>\""),
    TEXT("resume", 0, resume, "ID", "a session of the agent to go on with"),
    TEXT("keys", 0, keys, "egress|environment",
         "where the agent's key is (default: outside of the sandbox if possible)"),
    {"priority", 0, ATOLL_CLI_DECIMAL, AT(priority), "N",
     "of tasks that wait for a place, the highest begins first", NULL},
    {"capture", 0, ATOLL_CLI_LIST, AT(capture), "PATTERN", "files to keep", NULL},
    {"mcp", 0, ATOLL_CLI_LIST, AT(mcp), "CONNECTOR", "an MCP server for the agent", NULL},
    {"timeout", 0, ATOLL_CLI_TIME, AT(timeout), "TIME", "end the agent after this time", NULL},
    {"stall", 0, ATOLL_CLI_TIME, AT(stall), "TIME", "end the agent if it prints nothing so long",
     NULL},
    {"budget", 0, ATOLL_CLI_LIST, AT(budget), "NAME=N",
     "end the task when it has used more: tokens, costUsd, cpuSeconds, wallSeconds", NULL},
    TEXT("type", 0, type, "NAME", "chooses the runtime, by a table of the registry"),
    {"require", 0, ATOLL_CLI_LIST, AT(requirements), "NAME", "likewise: what the runtime must have",
     NULL},
    TEXT("tools", 0, tools, "LIST", "tools that the agent may use, separated by commas"),
    {"pr", 0, ATOLL_CLI_FLAG, AT(pr), NULL,
     "write a pull request, and let the operator's program open it", NULL},
    TEXT("pr-title", 0, pr_title, "TEXT", "its title (default: the first line of the instruction)"),
    {"no-push", 0, ATOLL_CLI_FLAG, AT(no_push), NULL, "only commit", NULL},
    {"detach", 'd', ATOLL_CLI_FLAG, AT(detach), NULL, "print the id and do not wait", NULL},
    {.kind = ATOLL_CLI_TABLE, .offset = AT(env), .table = atoll_cli_env_options},
    {.kind = ATOLL_CLI_TABLE, .offset = AT(sandbox), .table = atoll_cli_sandbox_options},
    ATOLL_CLI_COMMON(struct options),
    {0},
};
#undef TEXT
#undef AT

static void add_text(json_t *request, const char *name, const char *text)
{
    if (text)
        (void)json_object_set_new(request, name, json_string(text));
}

/* NAME=N of --budget. */
static int add_budget(json_t *request, const struct atoll_cli_list *list, struct atoll_error *err)
{
    json_t *budget = list->n ? json_object() : NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');
        char *end = NULL;
        double value = equals ? strtod(equals + 1, &end) : 0;
        if (!equals || end == equals + 1 || *end)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                           "--budget must be as tokens=100000 (got \"%.100s\")", list->items[i]);
        else
            (void)json_object_setn_new(budget, list->items[i], (size_t)(equals - list->items[i]),
                                       json_real(value));
    }
    if (r == 0 && budget)
        (void)json_object_set(request, "budget", budget);
    json_decref(budget);
    return r;
}

static void add_list(json_t *request, const char *name, const struct atoll_cli_list *list)
{
    json_t *array = json_array();

    for (size_t i = 0; i < list->n; i++)
        (void)json_array_append_new(array, json_string(list->items[i]));
    if (list->n)
        (void)json_object_set(request, name, array);
    json_decref(array);
}

static void add_pull_request(json_t *request, const struct options *o)
{
    json_t *wanted;

    if (!o->pr && !o->pr_title)
        return;
    wanted = json_object();
    add_text(wanted, "title", o->pr_title);
    add_text(wanted, "base", o->base);
    (void)json_object_set_new(request, "pullRequest", wanted);
}

static int add_repo(json_t *request, const struct options *o, struct atoll_error *err)
{
    const char *password = getenv("ATOLL_GIT_PASSWORD");
    json_t *repo;

    if (!o->repo)
        return 0;
    repo = atoll_cli_task_is_local(o->repo) ? json_pack("{s:b}", "upload", 1)
                                            : json_pack("{s:s}", "url", o->repo);
    if (!repo)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "--repo is not valid UTF-8");
    add_text(repo, "branch", o->base);
    if (json_object_get(repo, "url")) {
        add_text(repo, "username", o->username);
        add_text(repo, "password", password && *password ? password : NULL);
    }
    (void)json_object_set_new(request, "repo", repo);
    return 0;
}

static int add_author(json_t *commit, const char *author, struct atoll_error *err)
{
    const char *open = author ? strchr(author, '<') : NULL,
               *close = open ? strchr(open, '>') : NULL;
    size_t n = open ? (size_t)(open - author) : 0;

    if (!author)
        return 0;
    while (n > 0 && author[n - 1] == ' ')
        n--;
    if (!close || n == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--author must be as \"Ann <ann@example.org>\"");
    (void)json_object_set_new(commit, "authorName", json_stringn(author, n));
    (void)json_object_set_new(commit, "authorEmail",
                              json_stringn(open + 1, (size_t)(close - open - 1)));
    return 0;
}

static int add_commit(json_t *request, const struct options *o, struct atoll_error *err)
{
    json_t *commit = json_object();
    int r = add_author(commit, o->author, err);

    add_text(commit, "trailer", o->trailer);
    if (json_object_size(commit) > 0)
        (void)json_object_set(request, "commit", commit);
    json_decref(commit);
    return r;
}

static int compose(const struct options *o, json_t *request, struct atoll_error *err)
{
    json_t *sandbox = json_object();
    int r = atoll_cli_add_sandbox(sandbox, &o->sandbox, 0, err);

    add_text(request, "instruction", o->instruction);
    add_text(request, "agent", o->agent ? o->agent : "shell");
    add_text(request, "model", o->model);
    add_text(request, "systemPrompt", o->system_prompt);
    add_text(request, "environment", o->environment);
    add_text(request, "branch", o->branch);
    add_text(request, "setup", o->setup);
    add_text(request, "check", o->check);
    add_text(request, "cleanup", o->cleanup);
    add_text(request, "type", o->type);
    add_text(request, "resume", o->resume);
    add_text(request, "keys", o->keys);
    if (o->priority > 0)
        (void)json_object_set_new(request, "priority", json_real(o->priority));
    add_text(request, "allowedTools", o->tools);
    add_list(request, "requirements", &o->requirements);
    add_list(request, "capturePatterns", &o->capture);
    add_list(request, "mcpServers", &o->mcp);
    add_pull_request(request, o);
    if (o->timeout > 0)
        (void)json_object_set_new(request, "timeoutSeconds", json_real(o->timeout));
    if (o->stall > 0)
        (void)json_object_set_new(request, "stallSeconds", json_real(o->stall));
    if (o->no_push)
        (void)json_object_set_new(request, "push", json_false());
    if (json_object_size(sandbox) > 0)
        (void)json_object_set(request, "sandbox", sandbox);
    json_decref(sandbox);
    if (r == 0)
        r = add_budget(request, &o->budget, err);
    if (r == 0)
        r = atoll_cli_add_env(request, &o->env, err);
    if (r == 0)
        r = add_commit(request, o, err);
    return r < 0 ? r : add_repo(request, o, err);
}

static void print_branch(const json_t *task)
{
    (void)printf("branch %s, commit %.12s\n", atoll_link_text(task, "branch", ""),
                 atoll_link_text(task, "commit", ""));
}

static void print_end(const json_t *task)
{
    const char *commit = atoll_link_text(task, "commit", "");
    const json_t *files = json_object_get(task, "files");
    const char *url = atoll_link_text(json_object_get(task, "pull_request"), "url", "");
    const char *output = atoll_link_text(task, "output", "");
    size_t n = strlen(output);

    (void)fputs(output, stdout);
    if (n > 0 && output[n - 1] != '\n' && (json_array_size(files) > 0 || *commit || *url))
        (void)fputc('\n', stdout);
    for (size_t i = 0; i < json_array_size(files); i++)
        (void)printf("file %s\n", atoll_link_text(json_array_get(files, i), "path", ""));
    if (*commit)
        print_branch(task);
    if (*url)
        (void)printf("pull request %s\n", url);
}

/* The text of the pull request, for one that the user opens. */
static int write_pull_request(const json_t *task, struct atoll_error *err)
{
    const json_t *request = json_object_get(task, "pull_request");
    const char *body = atoll_link_text(request, "body", NULL);
    char name[64];
    FILE *file;

    if (!body || json_object_get(request, "url"))
        return 0;
    (void)snprintf(name, sizeof(name), "pull-request-%.32s.md", atoll_link_text(task, "id", ""));
    file = fopen(name, "wxe");
    if (!file)
        return atoll_fail_errno(err, errno, "%s", name);
    (void)fprintf(file, "# %s\n\n%s", atoll_link_text(request, "title", ""), body);
    if (fclose(file) != 0)
        return atoll_fail_errno(err, errno, "%s", name);
    (void)fprintf(stderr, "the text of the pull request is in %s\n", name);
    return 0;
}

/* The message with `--repo DIR` of its advice as the user has to write it. Owned by the caller. */
static char *name_directory(const char *message, const char *repo)
{
    static const char word[] = " --repo DIR";
    const char *at = repo ? strstr(message, word) : NULL;
    char *named = NULL;
    int n = at ? asprintf(&named, "%.*s --repo %s%s", (int)(at - message), message, repo,
                          at + sizeof(word) - 1)
               : asprintf(&named, "%s", message);

    if (n < 0)
        abort();
    return named;
}

/* Says why the task has failed, and how it is tried again, unless the daemon has said that. */
static int fail(struct atoll_cli *cli, const char *repo, const char *id, const json_t *task,
                struct atoll_error *err)
{
    const json_t *error = json_object_get(task, "error");
    const char *hint = atoll_link_text(error, "hint", "");
    ATOLL_AUTOFREE char *message = name_directory(atoll_link_text(error, "message", "?"), repo);
    bool canceled = strcmp(atoll_link_text(task, "state", ""), "canceled") == 0;
    int r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ECHILD, "task %s %s: %s", id,
                       canceled ? "was canceled" : "has failed", message);

    if (*hint)
        (void)snprintf(cli->hint, sizeof(cli->hint), "%s", hint);
    else if (!strstr(err->text, "task retry"))
        (void)snprintf(cli->hint, sizeof(cli->hint), "`atoll task retry %s%s%s` tries again", id,
                       repo ? " --repo " : "", repo ? repo : "");
    return r;
}

/* repo: of this machine, which gets the branch; or NULL. */
static int conclude(struct atoll_cli *cli, const char *repo, const char *id,
                    struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *task = NULL;
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/tasks/%s", id);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &task, err);
    if (r < 0)
        return r;
    if (cli->json)
        (void)!atoll_cli_print_json(task, err);
    if (strcmp(atoll_link_text(task, "state", ""), "succeeded") != 0)
        return fail(cli, repo, id, task, err);
    if (repo)
        r = atoll_cli_task_fetch(cli, task, repo, err);
    if (r == 0)
        r = write_pull_request(task, err);
    if (r == 0 && !cli->json)
        print_end(task);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    struct options o = *(const struct options *)options;
    ATOLL_AUTOJSON json_t *request = json_object(), *started = NULL;
    bool local = o.repo && atoll_cli_task_is_local(o.repo);
    const char *id;
    int r = 0;

    if (argc > 0 && !o.instruction)
        o.instruction = argv[0];
    if (!o.instruction)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "what is the agent to do? Give --instruction TEXT");
    if (local && o.detach)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--detach cannot bring the branch back to a repository of this machine");
    if (o.repo && !local)
        r = atoll_cli_task_refuse(o.repo, err);
    if (r == 0 && local)
        r = atoll_cli_task_check(o.repo, o.base, err);
    if (r == 0 && local)
        r = atoll_cli_task_look(o.repo, o.base, o.branch, err);
    if (r == 0)
        r = compose(&o, request, err);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/tasks", request, &started, err);
    if (r < 0)
        return r;
    id = atoll_link_text(started, "id", "");
    if (o.detach && !cli->json)
        (void)printf("%s\n", id);
    if (o.detach)
        return cli->json ? atoll_cli_print_json(started, err) : ATOLL_CLI_OK;
    (void)fprintf(stderr, "task %s\n", id);
    if (local)
        r = atoll_cli_task_send(cli, id, o.repo, o.base, err);
    if (r == 0)
        r = follow(cli, id, true, stderr, err);
    return r < 0 ? r : conclude(cli, local ? o.repo : NULL, id, err);
}

const struct atoll_cli_verb atoll_cli_task_run = {
    .name = "task run",
    .args = "[OPTION]... [INSTRUCTION]",
    .summary = "let an agent work on an instruction in a sandbox",
    .help = "With a repository: clones it, makes a branch, runs the agent, commits and pushes.\n"
            "Without: --capture keeps the files that the agent makes. If the daemon is killed\n"
            "meanwhile, the task continues when the daemon is started again.\n"
            "\n"
            "Examples:\n"
            "  atoll task run --repo . --agent shell 'sed -i s/teh/the/ README.md'\n"
            "  atoll secret create ANTHROPIC_API_KEY < key\n"
            "  atoll task run --repo https://git.example.org/site.git --agent claude-code \\\n"
            "      --check 'npm test' 'Add a dark mode'\n",
    .options = run_table,
    .options_size = sizeof(struct options),
    .max_args = 1,
    .run = run,
};

/* --- the others --- */

static const struct atoll_cli_column columns[] = {
    {.title = "ID", .member = "id"},
    {.title = "STATE", .member = "state"},
    {.title = "STEP", .member = "step", .missing = "-"},
    {.title = "AGENT", .member = "agent", .missing = "-"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "BRANCH", .member = "branch", .missing = "-", .width = 40},
    {.title = "INSTRUCTION", .member = "instruction", .width = 50},
    {.title = NULL},
};

static const struct atoll_cli_collection collection = {"/api/tasks", "tasks", "task", false,
                                                       columns};

const struct atoll_cli_verb atoll_cli_task_ls = {
    .name = "task ls",
    .args = "",
    .summary = "list tasks, newest first",
    .help = "",
    .collection = &collection,
    .run = atoll_cli_collection_ls,
};

static int show(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_cli_collection_target(&collection, argv[0], &target, err);

    return r < 0 ? r : atoll_cli_show(cli, target.text, err);
}

const struct atoll_cli_verb atoll_cli_task_show = {
    .name = "task show",
    .args = "TASK",
    .summary = "show a task and what came of it",
    .help = "",
    .min_args = 1,
    .max_args = 1,
    .run = show,
};

struct logs_options {
    struct atoll_cli_common common;
    bool follow;
};

static const struct atoll_cli_option logs_table[] = {
    {"follow", 'f', ATOLL_CLI_FLAG, offsetof(struct logs_options, follow), NULL,
     "until the task has ended", NULL},
    ATOLL_CLI_COMMON(struct logs_options),
    {0},
};

static int logs(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    return follow(cli, argv[0], ((const struct logs_options *)options)->follow, stdout, err);
}

const struct atoll_cli_verb atoll_cli_task_logs = {
    .name = "task logs",
    .args = "[OPTION]... TASK",
    .summary = "show the log of a task",
    .help = "",
    .options = logs_table,
    .options_size = sizeof(struct logs_options),
    .min_args = 1,
    .max_args = 1,
    .run = logs,
};

static int act(struct atoll_cli *cli, const char *id, const char *what, json_t *request,
               struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("task", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/tasks/%s/%s", id, what);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    return r < 0 || !cli->json ? r : atoll_cli_print_json(reply, err);
}

static int cancel(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                  char **argv, struct atoll_error *err)
{
    return act(cli, argv[0], "cancel", NULL, err);
}

const struct atoll_cli_verb atoll_cli_task_cancel = {
    .name = "task cancel",
    .args = "TASK",
    .summary = "end a task",
    .help = "",
    .min_args = 1,
    .max_args = 1,
    .run = cancel,
};

static int get_task(struct atoll_cli *cli, const char *id, json_t **ret, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_check_id("task", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/tasks/%s", id);
    return r < 0 ? r : atoll_cli_call(cli, "GET", target.text, NULL, ret, err);
}

struct retry_options {
    struct atoll_cli_common common;
    struct atoll_cli_list budget;
    const char *repo;
    double timeout;
    uint64_t memory_bytes;
};

static const struct atoll_cli_option retry_table[] = {
    {"repo", 'r', ATOLL_CLI_TEXT, offsetof(struct retry_options, repo), "DIR",
     "the repository of this machine that the task works on", NULL},
    {"budget", 0, ATOLL_CLI_LIST, offsetof(struct retry_options, budget), "NAME=N",
     "replaces that of the task", NULL},
    {"timeout", 0, ATOLL_CLI_TIME, offsetof(struct retry_options, timeout), "TIME",
     "end the agent after this time", NULL},
    {"memory", 'm', ATOLL_CLI_SIZE, offsetof(struct retry_options, memory_bytes), "SIZE",
     "memory limit of the sandbox", NULL},
    ATOLL_CLI_COMMON(struct retry_options),
    {0},
};

/* A task that works on a repository of this machine needs it again, and the branch has to come back. */
static int check_repo(const json_t *task, const char *id, const char *repo, struct atoll_error *err)
{
    bool uploaded = json_is_true(json_object_get(task, "repo_upload"));

    if (uploaded && !repo)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the task works on a repository of a client's machine: `atoll task retry "
                          "%s --repo DIR` sends it again if need be, and brings the branch back",
                          id);
    if (repo && !uploaded)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the task has no repository of a client's machine: leave out --repo");
    if (repo && !atoll_cli_task_is_local(repo))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOTDIR,
                          "--repo must be a directory of this machine (got \"%.200s\")", repo);
    return 0;
}

static void add_limits(json_t *request, const struct retry_options *o)
{
    if (o->timeout > 0)
        (void)json_object_set_new(request, "timeoutSeconds", json_real(o->timeout));
    if (o->memory_bytes > 0)
        (void)json_object_set_new(
            request, "limits", json_pack("{s:f}", "memoryMB", (double)o->memory_bytes / 1048576));
}

static int retry(struct atoll_cli *cli, const void *options, int argc, char **argv,
                 struct atoll_error *err)
{
    const struct retry_options *o = options;
    ATOLL_AUTOJSON json_t *request = argc > 1 ? json_pack("{s:s}", "step", argv[1]) : json_object();
    ATOLL_AUTOJSON json_t *task = NULL, *reply = NULL;
    struct atoll_link_target target;
    const char *branch;
    int r = add_budget(request, &o->budget, err);

    add_limits(request, o);
    if (r == 0)
        r = get_task(cli, argv[0], &task, err);
    if (r == 0)
        r = check_repo(task, argv[0], o->repo, err);
    branch = atoll_link_text(task, "repo_branch", NULL);
    if (r == 0 && o->repo)
        r = atoll_cli_task_check(o->repo, branch, err);
    if (r < 0 || !o->repo)
        return r < 0 ? r : act(cli, argv[0], "retry", request, err);
    r = atoll_link_target(&target, err, "/api/tasks/%s/retry", argv[0]);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r == 0)
        r = atoll_cli_task_send(cli, argv[0], o->repo, branch, err);
    if (r == 0)
        r = follow(cli, argv[0], true, stderr, err);
    return r < 0 ? r : conclude(cli, o->repo, argv[0], err);
}

const struct atoll_cli_verb atoll_cli_task_retry = {
    .name = "task retry",
    .args = "[OPTION]... TASK [STEP]",
    .summary = "start a failed or canceled task again",
    .help =
        "From the step that failed, or from an earlier one: sandbox, install, clone, branch,\n"
        "setup, run, check, capture, commit, push, open, cleanup. If its sandbox is gone or has\n"
        "failed, from the first. With --repo it waits for the end, and brings the branch back.\n",
    .options = retry_table,
    .options_size = sizeof(struct retry_options),
    .min_args = 1,
    .max_args = 2,
    .run = retry,
};

struct take_options {
    struct atoll_cli_common common;
    const char *repo;
};

static const struct atoll_cli_option take_table[] = {
    {"repo", 'r', ATOLL_CLI_TEXT, offsetof(struct take_options, repo), "DIR",
     "a repository of this machine (default: the current directory)", NULL},
    ATOLL_CLI_COMMON(struct take_options),
    {0},
};

static int take(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    const struct take_options *o = options;
    ATOLL_AUTOJSON json_t *task = NULL;
    int r = get_task(cli, argv[0], &task, err);

    if (r == 0 && !json_object_get(task, "bundle"))
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOENT,
                       "the task is %s and has no branch for a repository of this machine",
                       atoll_link_text(task, "state", "?"));
    if (r == 0)
        r = atoll_cli_task_fetch(cli, task, o->repo ? o->repo : ".", err);
    if (r == 0 && cli->json)
        return atoll_cli_print_json(task, err);
    if (r == 0)
        print_branch(task);
    return r;
}

const struct atoll_cli_verb atoll_cli_task_take = {
    .name = "task take",
    .args = "[OPTION]... TASK",
    .summary = "bring the branch of a task into a repository of this machine",
    .help = "For a task that was started with a directory as --repo.\n",
    .options = take_table,
    .options_size = sizeof(struct take_options),
    .min_args = 1,
    .max_args = 1,
    .run = take,
};

const struct atoll_cli_verb atoll_cli_task_rm = {
    .name = "task rm",
    .args = "TASK...",
    .summary = "remove ended tasks and their logs",
    .help = "",
    .min_args = 1,
    .max_args = -1,
    .collection = &collection,
    .run = atoll_cli_collection_rm,
};
