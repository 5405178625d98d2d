#include <errno.h>
#include <stdio.h>
#include "cli/print.h"
#include "cli/request.h"
#include "cli/session.h"

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_command_options command;
    bool detach;
};

static const struct atoll_cli_option options_table[] = {
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, command),
     .table = atoll_cli_command_options},
    {"workdir", 0, ATOLL_CLI_TEXT, offsetof(struct options, command.cwd), "PATH", "same as --cwd",
     NULL},
    {"detach", 'd', ATOLL_CLI_FLAG, offsetof(struct options, detach), NULL,
     "start the command, print its exec id and return", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int start(struct atoll_cli *cli, const char *sandbox, json_t *request,
                 struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOJSON json_t *answer = NULL;
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", sandbox);

    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json) {
        answer = json_pack("{s:s}", "exec_id", atoll_link_text(reply, "exec_id", ""));
        return atoll_cli_print_json(answer, err);
    }
    atoll_cli_put(stdout, atoll_link_text(reply, "exec_id", ""));
    (void)fputc('\n', stdout);
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object();
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = o->detach ? atoll_cli_add_detached(request, &o->command, argv + 1, err)
                      : atoll_cli_add_command(request, &o->command, argv + 1, err);
    if (r < 0)
        return r;
    if (o->detach)
        return start(cli, argv[0], request, err);
    return atoll_cli_session_attach(cli, argv[0], request, o->command.interactive, o->command.tty,
                                    err);
}

const struct atoll_cli_verb atoll_cli_exec = {
    .name = "exec",
    .args = "[OPTION]... SANDBOX [--] COMMAND [ARG]...",
    .summary = "run a command in an existing sandbox",
    .help = "Input, output and exit status are those of the command, as for `atoll run`. With\n"
            "--detach the command runs in the background; `atoll logs` shows its output and\n"
            "how it ended, at any time.\n"
            "\n"
            "Examples:\n"
            "  atoll exec $id -- sh -c 'ls -l > listing'\n"
            "  atoll exec --user root $id -- chown user /srv\n"
            "  job=$(atoll exec --detach $id -- ./long-job)\n"
            "  atoll logs --follow $id $job\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 2,
    .max_args = -1,
    .command_arg = 2,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};
