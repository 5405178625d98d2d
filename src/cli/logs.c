#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/output.h"
#include "client/result.h"

#define TAIL_MAX 1000000

struct options {
    struct atoll_cli_common common;
    const char *tail, *since;
    bool follow;
};

static const struct atoll_cli_option options_table[] = {
    {"follow", 'f', ATOLL_CLI_FLAG, offsetof(struct options, follow), NULL,
     "wait for more output until the command ends", NULL},
    {"tail", 'n', ATOLL_CLI_TEXT, offsetof(struct options, tail), "N",
     "show only the last N lines of the output so far, or all", NULL},
    {"since", 0, ATOLL_CLI_TEXT, offsetof(struct options, since), "TIME",
     "list only commands started since then: 10m (ago), or 2026-01-31T12:00:00Z", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Joins the arguments of the command with spaces. */
static void join_command(const json_t *exec, char *out, size_t cap)
{
    const json_t *cmd = json_object_get(exec, "cmd");
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(cmd); i++) {
        const char *text = json_string_value(json_array_get(cmd, i));
        if (text && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", i ? " " : "", text);
    }
}

static void add_state(struct atoll_cli_table *table, const json_t *exec)
{
    const json_t *result = json_object_get(exec, "result");
    const char *kind = atoll_link_text(result, "kind", NULL);

    if (!kind)
        atoll_cli_table_add(table, ATOLL_CLI_GREEN, "running");
    else if (strcmp(kind, "exited") == 0)
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "exited %.0f",
                            atoll_link_number(result, "exit_code", -1));
    else
        atoll_cli_table_add(table, ATOLL_CLI_RED, "%s", kind);
}

static void add_command(struct atoll_cli_table *table, const json_t *exec)
{
    char command[60];

    join_command(exec, command, sizeof(command));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", command);
}

/* Seconds from `since` to now. */
static int parse_since(const char *since, double *ret_age, struct atoll_error *err)
{
    *ret_age = atoll_cli_age_of(since);
    if (*ret_age >= 0 || atoll_cli_parse_time(since, ret_age) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "--since: \"%.40s\" must be a time such as 10m or 2026-01-31T12:00:00Z",
                      since);
}

/* Removes commands that were started before. */
static void drop_older(json_t *execs, double age)
{
    for (size_t i = json_array_size(execs); i-- > 0;)
        if (atoll_cli_age_of(atoll_link_text(json_array_get(execs, i), "started_at", "")) > age)
            (void)json_array_remove(execs, i);
}

static int list_execs(struct atoll_cli *cli, const char *sandbox, const char *since,
                      struct atoll_error *err)
{
    static const struct atoll_cli_column columns[] = {
        {.title = "EXEC", .member = "exec_id"},
        {.title = "STATE", .add = add_state},
        {.title = "AGE", .member = "started_at", .form = ATOLL_CLI_FORM_AGE},
        {.title = "USER", .member = "user", .missing = ""},
        {.title = "COMMAND", .add = add_command},
        {.title = NULL},
    };
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    double age = 0;
    int r = since ? parse_since(since, &age, err) : 0;

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs?ended=true", sandbox);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (since)
        drop_older(json_object_get(reply, "execs"), age);
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_list_print(json_object_get(reply, "execs"), columns);
    return ATOLL_CLI_OK;
}

/* Called before the output is read, so that a wrong id or a missing daemon is an immediate error
 * (reading the output retries). */
static int check_exec(struct atoll_cli *cli, const char *sandbox, const char *exec,
                      struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/%s", sandbox, exec);
    return r < 0 ? r : atoll_cli_call(cli, "GET", target.text, NULL, NULL, err);
}

static int parse_tail(const char *text, bool *ret_all, uint64_t *ret_lines, struct atoll_error *err)
{
    *ret_all = !text || strcmp(text, "all") == 0;
    if (*ret_all || atoll_text_u64(text, 0, TAIL_MAX, ret_lines) == 0)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "--tail: \"%.40s\" must be a number of lines up to %d, or all", text,
                      TAIL_MAX);
}

static int show(struct atoll_cli *cli, const char *sandbox, const char *exec,
                const struct options *o, struct atoll_error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct atoll_cli_outcome outcome;
    uint64_t lines = 0;
    bool all;
    int r = parse_tail(o->tail, &all, &lines, err);

    if (r == 0)
        r = check_exec(cli, sandbox, exec, err);
    if (r < 0)
        return r;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    atoll_cli_outcome_init(&outcome, false);
    (void)snprintf(outcome.sandbox_id, sizeof(outcome.sandbox_id), "%s", sandbox);
    (void)snprintf(outcome.exec_id, sizeof(outcome.exec_id), "%s", exec);
    if (cli->json)
        r = atoll_cli_output_copy(cli, &outcome, o->follow, err);
    else if (all)
        r = atoll_cli_output_read(cli, &outcome, o->follow, err);
    else
        r = atoll_cli_output_tail(cli, &outcome, lines, o->follow, err);
    if (r == 0 && outcome.result)
        r = cli->json ? atoll_result_status(outcome.result)
                      : atoll_cli_outcome_report(&outcome, err);
    atoll_cli_outcome_done(&outcome);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0 && argc > 1)
        r = atoll_link_check_id("exec", argv[1], err);
    else if (r == 0 && o->follow)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "--follow needs an EXEC; omit --follow to list the commands");
    else if (r == 0 && o->tail)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--tail needs an EXEC");
    if (r == 0 && argc > 1 && o->since)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "--since selects commands: the output of one has no times");
    if (r < 0)
        return r;
    return argc > 1 ? show(cli, argv[0], argv[1], o, err) : list_execs(cli, argv[0], o->since, err);
}

const struct atoll_cli_verb atoll_cli_logs = {
    .name = "logs",
    .args = "[OPTION]... SANDBOX [EXEC]",
    .summary = "show the output of a command, and how it ended",
    .help = "Shows all output of EXEC, while it runs and after it has ended. If it has ended,\n"
            "the exit status is that of the command, as for `atoll run`. Without EXEC, lists\n"
            "the commands of the sandbox. With --json: one JSON object per line, as the daemon\n"
            "stores them.\n"
            "\n"
            "Examples:\n"
            "  atoll logs $id                     the commands\n"
            "  atoll logs --follow $id $exec      output of one command, until it ends\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};
