/*
 * `atoll approvals`: calls of tools that wait for a human.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/map.h"
#include "base/memory.h"
#include "cli/collection.h"

#define WATCH_SECONDS 1

struct options {
    struct atoll_cli_common common;
    bool watch;
};

static const struct atoll_cli_option options_table[] = {
    {"watch", 'w', ATOLL_CLI_FLAG, offsetof(struct options, watch), NULL,
     "show calls as they come, until Ctrl-C", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* What the model wants to do: the command, the path, or all arguments. */
static void add_what(struct atoll_cli_table *table, const json_t *item)
{
    static const char *const names[] = {"command", "file_path", "path", "url", "code"};
    const json_t *args = json_object_get(item, "arguments");
    const char *text = "";
    char *all = NULL;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names) && !*text; i++)
        text = atoll_link_text(args, names[i], "");
    if (!*text && args)
        text = all = json_dumps(args, JSON_COMPACT);
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.300s", text ? text : "");
    free(all);
}

static const struct atoll_cli_column columns[] = {
    {.title = "CALL", .member = "id"},
    {.title = "SANDBOX", .member = "sandbox_id", .missing = "-"},
    {.title = "TOOL", .member = "tool"},
    {.title = "WAITS", .member = "asked_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "WHAT", .add = add_what},
    {.title = "REASON", .member = "reason"},
    {.title = NULL},
};

/* One call at a time, each once. */
static int show_new(struct atoll_cli *cli, struct atoll_map *seen, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *item, *list;
    size_t i;
    int r = atoll_cli_call(cli, "GET", "/api/approvals", NULL, &reply, err);

    list = json_object_get(reply, "approvals");
    json_array_foreach(list, i, item)
    {
        const char *id = atoll_link_text(item, "id", "");
        ATOLL_AUTOJSON json_t *one = NULL;
        char *copy;

        if (r < 0 || atoll_map_get(seen, id))
            continue;
        copy = strdup(id);
        if (!copy || atoll_map_put(seen, copy, copy) < 0)
            abort();
        one = json_pack("[O]", item);
        if (cli->json)
            r = atoll_cli_print_json(item, err);
        else
            atoll_cli_list_print(one, columns);
        (void)fflush(stdout);
    }
    return r;
}

static int watch(struct atoll_cli *cli, struct atoll_error *err)
{
    struct atoll_map seen;
    size_t pos = 0;
    char *id;
    int r = 0;

    atoll_map_init(&seen);
    while (r >= 0) {
        r = show_new(cli, &seen, err);
        if (r >= 0)
            (void)sleep(WATCH_SECONDS);
    }
    while ((id = atoll_map_next(&seen, &pos)))
        free(id);
    atoll_map_done(&seen);
    return r;
}

static int answer(struct atoll_cli *cli, int argc, char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "decision", argv[0]), *reply = NULL;
    struct atoll_link_target target;
    int r;

    if (argc < 2)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "name a call: atoll approvals %s CALL [REASON]", argv[0]);
    if (argc > 2 && json_object_set_new(request, "reason", json_string(argv[2])) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the reason is not UTF-8 text");
    r = atoll_link_check_id("call", argv[1], err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/approvals/%s", argv[1]);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", argv[1]);
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;

    if (argc > 0 && (strcmp(argv[0], "allow") == 0 || strcmp(argv[0], "deny") == 0))
        return answer(cli, argc, argv, err);
    if (argc > 1 || (argc == 1 && strcmp(argv[0], "ls") != 0))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the action is ls, allow or deny (got \"%.40s\")", argv[0]);
    if (o->watch)
        return watch(cli, err);
    return atoll_cli_list(cli, "/api/approvals", "approvals", columns, err);
}

const struct atoll_cli_verb atoll_cli_approvals = {
    .name = "approvals",
    .args = "[OPTION]... [ACTION [CALL [REASON]]]",
    .summary = "answer calls of tools that wait for a human",
    .help = "ACTION is ls (the default), allow or deny. A call waits because a tool policy or an\n"
            "interceptor asks; the agent that made it gets the REASON if it is denied.\n"
            "\n"
            "Examples:\n"
            "  atoll approvals --watch\n"
            "  atoll approvals allow x7k2b9\n"
            "  atoll approvals deny x7k2b9 'not on this branch'\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 0,
    .max_args = 3,
    .run = run,
};
