#include "cli/request.h"
#include "cli/session.h"
#include "cli/terminal.h"

struct options {
    struct atoll_cli_common common;
    const char *user;
};

static const struct atoll_cli_option options_table[] = {
    {"user", 'u', ATOLL_CLI_TEXT, offsetof(struct options, user), "NAME",
     "user to run the shell as (default: user, uid 1000)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    static char find_and_start[] = "for s in \"$SHELL\" bash sh; do"
                                   " command -v \"$s\" >/dev/null 2>&1 && exec \"$s\" -l; done";
    static char sh[] = "sh", dash_c[] = "-c";
    char *const command[] = {sh, dash_c, find_and_start, NULL};
    const struct options *o = options;
    const struct atoll_cli_command_options as = {.user = o->user};
    ATOLL_AUTOJSON json_t *request = json_object();
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = atoll_cli_add_command(request, &as, command, err);
    if (r < 0)
        return r;
    return atoll_cli_session_attach(cli, argv[0], request, false, atoll_cli_terminal_is_ours(),
                                    err);
}

const struct atoll_cli_verb atoll_cli_shell = {
    .name = "shell",
    .args = "[OPTION]... SANDBOX",
    .summary = "start an interactive shell in a sandbox",
    .help = "A login shell on a pseudo-terminal: the first of $SHELL, bash and sh that exists.\n"
            "If standard input is not a terminal, the shell reads commands from it.\n"
            "\n"
            "Examples:\n"
            "  atoll shell $id\n"
            "  atoll shell --user root $id\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 1,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};
