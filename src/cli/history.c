/* The verbs history, undo and blame. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/print.h"

#define TIMEOUT_MS (15 * 60 * 1000)

struct history_options {
    struct atoll_cli_common common;
    uint32_t limit;
};

static const struct atoll_cli_option history_table[] = {
    {"limit", 'n', ATOLL_CLI_COUNT, offsetof(struct history_options, limit), "N",
     "how many commands, at most 100 (default: 20)", NULL},
    ATOLL_CLI_COMMON(struct history_options),
    {0},
};

static void print_changes(const json_t *command)
{
    const json_t *changes = json_object_get(command, "changes");
    char size[16];

    if (!json_is_object(changes))
        (void)printf("%-28s", "not kept");
    else
        (void)printf("+%-5llu ~%-5llu -%-5llu %-7s",
                     (unsigned long long)atoll_link_count(changes, "added"),
                     (unsigned long long)atoll_link_count(changes, "changed"),
                     (unsigned long long)atoll_link_count(changes, "removed"),
                     atoll_text_format_size(atoll_link_count(changes, "bytes"), size));
}

static void print_command(const json_t *command)
{
    (void)printf("%6llu  ", (unsigned long long)atoll_link_count(command, "number"));
    print_changes(command);
    (void)printf(" %s%s\n", json_is_true(json_object_get(command, "shared")) ? "(shared) " : "",
                 atoll_link_text(command, "command", ""));
}

static int history(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                   struct atoll_error *err)
{
    const struct history_options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const json_t *commands;
    char limit[16];
    int r = atoll_link_check_id("sandbox", argv[0], err);

    (void)snprintf(limit, sizeof(limit), "%u", o->limit ? o->limit : 20);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/history?limit=%s", argv[0], limit);
    atoll_cli_set_timeout(cli, TIMEOUT_MS);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    commands = json_object_get(reply, "commands");
    for (size_t i = 0; i < json_array_size(commands); i++)
        print_command(json_array_get(commands, i));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_history = {
    .name = "history",
    .args = "[OPTION]... SANDBOX",
    .summary = "list the commands of a sandbox with what each changed",
    .help = "Newest first: number, files added (+), changed (~) and removed (-), bytes, command.\n"
            "For sandboxes created with --checkpoints command.\n"
            "\n"
            "Example:\n"
            "  id=$(atoll create --checkpoints command)\n"
            "  atoll exec $id -- touch a b\n"
            "  atoll history $id\n",
    .options = history_table,
    .options_size = sizeof(struct history_options),
    .min_args = 1,
    .max_args = 1,
    .run = history,
};

/* undo */

struct undo_options {
    struct atoll_cli_common common;
    bool force;
};

static const struct atoll_cli_option undo_table[] = {
    {"force", 'f', ATOLL_CLI_FLAG, offsetof(struct undo_options, force), NULL,
     "end commands that run", NULL},
    ATOLL_CLI_COMMON(struct undo_options),
    {0},
};

static int undo(struct atoll_cli *cli, const void *options, int argc, char **argv,
                struct atoll_error *err)
{
    const struct undo_options *o = options;
    ATOLL_AUTOJSON json_t *request = NULL;
    ATOLL_AUTOJSON json_t *reply = NULL;
    uint64_t count = 1;
    int r;

    if (argc > 1 && atoll_text_u64(argv[1], 1, 1000, &count) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the number of commands must be 1 to 1000");
    request = json_pack("{s:I, s:b}", "commands", (json_int_t)count, "force", o->force);
    r = atoll_cli_post(cli, argv[0], "undo", request, TIMEOUT_MS, &reply, err);
    return r < 0 || !cli->json ? r : atoll_cli_print_json(reply, err);
}

const struct atoll_cli_verb atoll_cli_undo = {
    .name = "undo",
    .args = "[OPTION]... SANDBOX [N]",
    .summary = "bring the files of a sandbox back to before its last commands",
    .help = "N: how many commands (default: 1). They leave the history. All processes of the\n"
            "sandbox end; it keeps its id, name and settings.\n"
            "\n"
            "Example:\n"
            "  atoll exec $id -- sh -c 'rm -rf *'\n"
            "  atoll undo $id\n",
    .options = undo_table,
    .options_size = sizeof(struct undo_options),
    .min_args = 1,
    .max_args = 2,
    .run = undo,
};

/* blame */

/* Makes the path absolute, as commands in the sandbox would: it may be that of a file which is not there any more. */
static int find_path(struct atoll_cli *cli, const char *sandbox, const char *path, char *ret,
                     size_t cap, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const char *top = "";
    int r = 0;

    while (path[0] == '.' && (path[1] == '/' || path[1] == '\0'))
        path += path[1] ? 2 : 1;
    if (*path != '/') {
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/files/stat?path=.", sandbox);
        if (r == 0)
            r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
        if (r < 0)
            return r;
        top = atoll_link_text(reply, "path", "");
    }
    if ((size_t)snprintf(ret, cap, "%s%s%s", top, *top && *path ? "/" : "", path) >= cap)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

static int blame(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                 char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const json_t *command;
    char path[PATH_MAX];
    int r = atoll_link_check_id("sandbox", argv[0], err);

    atoll_cli_set_timeout(cli, TIMEOUT_MS);
    if (r == 0)
        r = find_path(cli, argv[0], argv[1], path, sizeof(path), err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/blame?path=%s", argv[0], path);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    command = json_object_get(reply, "command");
    (void)printf("%llu  %s  %s\n", (unsigned long long)atoll_link_count(command, "number"),
                 atoll_link_text(reply, "kind", ""), atoll_link_text(command, "command", ""));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_blame = {
    .name = "blame",
    .args = "SANDBOX PATH",
    .summary = "show which command of a sandbox last changed a file",
    .help = "Prints the command's number, what it did to the file and the command. Of a\n"
            "directory: the last command that changed something in it. A relative PATH is one in\n"
            "the directory in which commands of the sandbox start.\n"
            "For sandboxes created with --checkpoints command.\n",
    .min_args = 2,
    .max_args = 2,
    .run = blame,
};
