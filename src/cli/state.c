/* Sandboxes that rest: pause, resume, stop. */
#include <stdio.h>
#include "cli/client.h"
#include "cli/print.h"

struct pause_options {
    struct atoll_cli_common common;
    bool discard_processes;
};

static const struct atoll_cli_option pause_table[] = {
    {"discard-processes", 0, ATOLL_CLI_FLAG, offsetof(struct pause_options, discard_processes),
     NULL, "end its commands first; only files stay", NULL},
    ATOLL_CLI_COMMON(struct pause_options),
    {0},
};

/* Does one thing to each of the ids and prints those it was done to; stops at the first failure. */
static int for_each(struct atoll_cli *cli, char **ids, const char *done, bool keep_processes,
                    int (*act)(struct atoll_client *client, const char *id, bool keep_processes,
                               struct atoll_client_error *error),
                    struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *changed = json_array();
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", done, changed);
    struct atoll_client_error error;
    int r = atoll_cli_open(cli, err);

    for (; r == 0 && *ids; ids++) {
        r = atoll_cli_take_error(cli, act(cli->client, *ids, keep_processes, &error), &error, err);
        if (r < 0)
            break;
        (void)json_array_append_new(changed, json_string(*ids));
        if (!cli->json)
            (void)printf("%s\n", *ids);
    }
    return r < 0 || !cli->json ? r : atoll_cli_print_json(object, err);
}

static int resume_one(struct atoll_client *client, const char *id, bool keep_processes ATOLL_UNUSED,
                      struct atoll_client_error *error)
{
    return atoll_client_sandbox_resume(client, id, error);
}

static int stop_one(struct atoll_client *client, const char *id, bool keep_processes ATOLL_UNUSED,
                    struct atoll_client_error *error)
{
    return atoll_client_sandbox_stop(client, id, error);
}

static int run_pause(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                     struct atoll_error *err)
{
    const struct pause_options *o = options;
    return for_each(cli, argv, "paused", !o->discard_processes, atoll_client_sandbox_pause, err);
}

static int run_resume(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                      int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    return for_each(cli, argv, "resumed", true, resume_one, err);
}

static int run_stop(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                    char **argv, struct atoll_error *err)
{
    return for_each(cli, argv, "stopped", false, stop_one, err);
}

const struct atoll_cli_verb atoll_cli_pause = {
    .name = "pause",
    .args = "[--discard-processes] SANDBOX...",
    .summary = "let everything in a sandbox stand still",
    .help = "Its processes are frozen where they are and use no CPU; its memory stays in use.\n"
            "Nothing can be done with it until `atoll resume`, but `atoll logs` and\n"
            "`atoll rm` work.\n"
            "\n"
            "Example:\n"
            "  atoll pause $id && atoll resume $id\n",
    .options = pause_table,
    .options_size = sizeof(struct pause_options),
    .min_args = 1,
    .max_args = -1,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = run_pause,
};

const struct atoll_cli_verb atoll_cli_resume = {
    .name = "resume",
    .args = "SANDBOX...",
    .summary = "let a paused sandbox go on, or start a stopped one",
    .help = "A stopped one starts on the disk it had, with the same id and settings.\n",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .min_args = 1,
    .max_args = -1,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = run_resume,
};

const struct atoll_cli_verb atoll_cli_stop = {
    .name = "stop",
    .args = "SANDBOX...",
    .summary = "end a persistent sandbox, and keep its disk",
    .help = "For sandboxes made with --persistent. All processes end; files stay, also when\n"
            "the daemon or the machine is restarted.\n"
            "\n"
            "Examples:\n"
            "  id=$(atoll create --persistent)\n"
            "  atoll stop $id\n"
            "  atoll resume $id\n",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .min_args = 1,
    .max_args = -1,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = run_stop,
};
