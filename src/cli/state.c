/* The verbs pause, resume, start, stop, restart and rename. */
#include <errno.h>
#include "base/text.h"
#include "cli/collection.h"

struct pause_options {
    struct atoll_cli_common common;
    bool discard_processes, to_disk;
};

static const struct atoll_cli_option pause_table[] = {
    {"discard-processes", 0, ATOLL_CLI_FLAG, offsetof(struct pause_options, discard_processes),
     NULL, "end its commands first; only files are kept", NULL},
    {"to-disk", 0, ATOLL_CLI_FLAG, offsetof(struct pause_options, to_disk), NULL,
     "write its memory to disk (gVisor)", NULL},
    ATOLL_CLI_COMMON(struct pause_options),
    {0},
};

/* The libatoll function to call for each sandbox. */
struct change {
    int (*act)(struct atoll_client *client, const char *id, struct atoll_client_error *error);
};

static int change_one(struct atoll_cli *cli, const char *id, const void *arg,
                      struct atoll_error *err)
{
    const struct change *change = arg;
    struct atoll_client_error error;
    int r = atoll_cli_open(cli, err);

    return r < 0 ? r : atoll_cli_take_error(cli, change->act(cli->client, id, &error), &error, err);
}

static void say_memory(const char *id, const json_t *reply)
{
    const json_t *memory = json_object_get(reply, "paused_memory");
    char before[16], after[16];

    if (!memory)
        return;
    atoll_cli_say(
        "%s: memory %s, %s before", id,
        atoll_text_format_size((uint64_t)atoll_link_number(memory, "after_bytes", 0), after),
        atoll_text_format_size((uint64_t)atoll_link_number(memory, "before_bytes", 0), before));
}

static int pause_one(struct atoll_cli *cli, const char *id, const void *arg,
                     struct atoll_error *err)
{
    const struct pause_options *o = arg;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:b, s:b}", "keepProcesses", !o->discard_processes, "toDisk", o->to_disk);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", id, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/pause", id);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r == 0 && !cli->json)
        say_memory(id, reply);
    return r;
}

static int run_pause(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                     struct atoll_error *err)
{
    return atoll_cli_each(cli, argv, "paused", false, pause_one, options, err);
}

static int run_resume(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                      int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    const struct change change = {atoll_client_sandbox_resume};
    return atoll_cli_each(cli, argv, "resumed", false, change_one, &change, err);
}

static int run_stop(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                    char **argv, struct atoll_error *err)
{
    const struct change change = {atoll_client_sandbox_stop};
    return atoll_cli_each(cli, argv, "stopped", false, change_one, &change, err);
}

static int run_start(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                     char **argv, struct atoll_error *err)
{
    const struct change change = {atoll_client_sandbox_resume};
    return atoll_cli_each(cli, argv, "started", false, change_one, &change, err);
}

static int stop_and_start(struct atoll_client *client, const char *id,
                          struct atoll_client_error *error)
{
    int r = atoll_client_sandbox_stop(client, id, error);
    return r < 0 ? r : atoll_client_sandbox_resume(client, id, error);
}

static int run_restart(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                       int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    const struct change change = {stop_and_start};
    return atoll_cli_each(cli, argv, "restarted", false, change_one, &change, err);
}

const struct atoll_cli_verb atoll_cli_pause = {
    .name = "pause",
    .args = "[OPTION]... SANDBOX...",
    .summary = "freeze all processes of a sandbox",
    .help = "Frozen processes use no CPU. As much of their memory as possible is freed: what the\n"
            "kernel can write to swap, and what it can read from files again. Until `atoll\n"
            "resume`, only `atoll logs` and `atoll rm` work on the sandbox. With --to-disk the\n"
            "memory is written to disk, where the provider can do that.\n"
            "\n"
            "Example:\n"
            "  atoll pause $id && atoll resume $id\n",
    .options = pause_table,
    .options_size = sizeof(struct pause_options),
    .min_args = 1,
    .max_args = -1,
    .run = run_pause,
};

const struct atoll_cli_verb atoll_cli_resume = {
    .name = "resume",
    .args = "SANDBOX...",
    .summary = "continue a paused sandbox, or start a stopped one",
    .help = "A stopped sandbox starts with its disk, its id and its settings.\n",
    .min_args = 1,
    .max_args = -1,
    .run = run_resume,
};

const struct atoll_cli_verb atoll_cli_stop = {
    .name = "stop",
    .args = "SANDBOX...",
    .summary = "stop a persistent sandbox and keep its disk",
    .help = "For sandboxes created with --persistent. All processes end; files are kept, even\n"
            "when the daemon or the machine restarts.\n"
            "\n"
            "Examples:\n"
            "  id=$(atoll create --persistent)\n"
            "  atoll stop $id\n"
            "  atoll resume $id\n",
    .min_args = 1,
    .max_args = -1,
    .run = run_stop,
};

const struct atoll_cli_verb atoll_cli_start = {
    .name = "start",
    .args = "SANDBOX...",
    .summary = "start a stopped sandbox, or continue a paused one",
    .help = "Same as `atoll resume`.\n",
    .min_args = 1,
    .max_args = -1,
    .run = run_start,
};

const struct atoll_cli_verb atoll_cli_restart = {
    .name = "restart",
    .args = "SANDBOX...",
    .summary = "stop a persistent sandbox and start it again",
    .help = "All processes end; files are kept. For sandboxes created with --persistent.\n",
    .min_args = 1,
    .max_args = -1,
    .run = run_restart,
};

static int run_rename(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                      int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "name", argv[1]);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0 && !request)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "the name is not valid UTF-8");
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s", argv[0]);
    if (r == 0)
        r = atoll_cli_call(cli, "PATCH", target.text, request, &reply, err);
    return r < 0 || !cli->json ? r : atoll_cli_print_json(reply, err);
}

const struct atoll_cli_verb atoll_cli_rename = {
    .name = "rename",
    .args = "SANDBOX NAME",
    .summary = "give a sandbox another name",
    .help = "An empty NAME removes it. A name is unique among the sandboxes of your tenant.\n"
            "\n"
            "Example:\n"
            "  atoll rename $id build-1\n",
    .min_args = 2,
    .max_args = 2,
    .run = run_rename,
};
