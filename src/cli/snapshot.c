/* The verbs snapshot, snapshots, fork and restore. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/template.h"

#define TIMEOUT_MS (15 * 60 * 1000)

/* NAME or NAME:TAG. */
static int check_name(const char *text, struct atoll_error *err)
{
    char name[65];

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, ":"), text);
    return atoll_cli_template_check_name(name, err);
}

static int snapshot(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
                    struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = argc > 1 ? json_pack("{s:s}", "name", argv[1]) : json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = argc > 1 ? check_name(argv[1], err) : 0;

    if (r == 0)
        r = atoll_cli_post(cli, argv[0], "snapshots", request, TIMEOUT_MS, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    if (argc > 1)
        atoll_cli_template_print(reply);
    else
        (void)printf("%s\n", atoll_link_text(reply, "name", ""));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_snapshot = {
    .name = "snapshot",
    .args = "SANDBOX [NAME]",
    .summary = "create a template from the files of a sandbox",
    .help = "The sandbox continues; its processes stand still while its changes are copied.\n"
            "Processes, memory and environment variables are not part of a snapshot. Without\n"
            "NAME, a new name is printed. NAME:TAG sets a tag. Only your tenant can use the\n"
            "template; `atoll template rm` removes it.\n"
            "\n"
            "With docker the disk must not be in memory: create the sandbox with --waive disk.\n"
            "\n"
            "Examples:\n"
            "  box=$(atoll create)\n"
            "  atoll exec $box -- sh -c 'echo hello > /home/user/note'\n"
            "  atoll snapshot $box with-note\n"
            "  atoll run --template with-note -- cat /home/user/note\n",
    .min_args = 1,
    .max_args = 2,
    .run = snapshot,
};

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "TAGS", .member = "tags", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = "SANDBOX", .member = "sandbox_id", .missing = "-"},
    {.title = "SIZE", .member = "size_bytes", .form = ATOLL_CLI_FORM_BYTES},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "USED BY", .member = "sandboxes", .form = ATOLL_CLI_FORM_NUMBER},
    {.title = NULL},
};

static int snapshots(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
                     struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = argc > 0 ? atoll_link_check_id("sandbox", argv[0], err) : 0;

    if (r == 0 && argc > 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/snapshots", argv[0]);
    return r < 0 ? r
                 : atoll_cli_list(cli, argc > 0 ? target.text : "/api/snapshots", "snapshots",
                                  columns, err);
}

const struct atoll_cli_verb atoll_cli_snapshots = {
    .name = "snapshots",
    .args = "[SANDBOX]",
    .summary = "list snapshots, newest first",
    .help = "Of all sandboxes, also of those that are gone, or of one. A snapshot is a template:\n"
            "`atoll template` shows, tags, saves and removes it.\n",
    .min_args = 0,
    .max_args = 1,
    .run = snapshots,
};

/* fork */

struct fork_options {
    struct atoll_cli_common common;
    uint32_t count;
    bool memory;
};

static const struct atoll_cli_option fork_table[] = {
    {"count", 'n', ATOLL_CLI_COUNT, offsetof(struct fork_options, count), "N",
     "how many, at most 100 (default: 1)", NULL},
    {"memory", 0, ATOLL_CLI_FLAG, offsetof(struct fork_options, memory), NULL,
     "copy processes, too: no provider can, and the error says why", NULL},
    ATOLL_CLI_COMMON(struct fork_options),
    {0},
};

static int fork_sandbox(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                        char **argv, struct atoll_error *err)
{
    const struct fork_options *o = options;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:I, s:b}", "count", (json_int_t)(o->count ?: 1), "memory", o->memory);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_post(cli, argv[0], "fork", request, TIMEOUT_MS, &reply, err);
    const json_t *made;

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    made = json_object_get(reply, "sandboxes");
    for (size_t i = 0; i < json_array_size(made); i++)
        (void)printf("%s\n", atoll_link_text(json_array_get(made, i), "id", ""));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_fork = {
    .name = "fork",
    .args = "[OPTION]... SANDBOX",
    .summary = "create sandboxes with the files and settings of another",
    .help = "Prints the ids, one a line: all of them are created, or none. Files, environment,\n"
            "limits, network and user are the same; processes are not copied.\n"
            "\n"
            "Example:\n"
            "  for box in $(atoll fork --count 3 $id); do atoll exec $box -- make test; done\n",
    .options = fork_table,
    .options_size = sizeof(struct fork_options),
    .min_args = 1,
    .max_args = 1,
    .run = fork_sandbox,
};

/* restore */

static int restore(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                   char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "snapshot", argv[1]);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = atoll_cli_post(cli, argv[0], "restore", request, TIMEOUT_MS, &reply, err);

    return r < 0 || !cli->json ? r : atoll_cli_print_json(reply, err);
}

const struct atoll_cli_verb atoll_cli_restore = {
    .name = "restore",
    .args = "SANDBOX TEMPLATE",
    .summary = "bring a sandbox back to a snapshot",
    .help = "It keeps its id, name, settings and previews. All its processes end; its files are\n"
            "those of the snapshot, and the start command of the template runs again.\n"
            "\n"
            "Example:\n"
            "  atoll snapshot $id before\n"
            "  atoll exec --user root $id -- rm -rf /opt\n"
            "  atoll restore $id before\n",
    .min_args = 2,
    .max_args = 2,
    .run = restore,
};
