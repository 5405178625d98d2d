#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "cli/collection.h"
#include "cli/output.h"
#include "client/result.h"

struct options {
    struct atoll_cli_common common;
    bool follow;
};

static const struct atoll_cli_option options_table[] = {
    {"follow", 'f', ATOLL_CLI_FLAG, offsetof(struct options, follow), NULL,
     "wait for more output until the command ends", NULL},
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

static int list_execs(struct atoll_cli *cli, const char *sandbox, struct atoll_error *err)
{
    static const struct atoll_cli_column columns[] = {
        {.title = "EXEC", .member = "exec_id"},
        {.title = "STATE", .add = add_state},
        {.title = "AGE", .member = "started_at", .form = ATOLL_CLI_FORM_AGE},
        {.title = "USER", .member = "user", .missing = ""},
        {.title = "COMMAND", .add = add_command},
        {.title = NULL},
    };
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", sandbox);

    return r < 0 ? r : atoll_cli_list(cli, target.text, "execs", columns, err);
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

static int show(struct atoll_cli *cli, const char *sandbox, const char *exec, bool follow,
                struct atoll_error *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct atoll_cli_outcome outcome;
    int r = check_exec(cli, sandbox, exec, err);

    if (r < 0)
        return r;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    atoll_cli_outcome_init(&outcome, false);
    (void)snprintf(outcome.sandbox_id, sizeof(outcome.sandbox_id), "%s", sandbox);
    (void)snprintf(outcome.exec_id, sizeof(outcome.exec_id), "%s", exec);
    r = cli->json ? atoll_cli_output_copy(cli, &outcome, follow, err)
                  : atoll_cli_output_read(cli, &outcome, follow, err);
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
    if (r < 0)
        return r;
    return argc > 1 ? show(cli, argv[0], argv[1], o->follow, err) : list_execs(cli, argv[0], err);
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
