/* The verbs of the registry: environments, agents, tools and prompts that the operator has defined. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/collection.h"

#define KINDS "environments|agents|tools|prompts"

static const char *const kinds[] = {"environments", "agents", "tools", "prompts"};

static int check_kind(const char *kind, struct atoll_error *err)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i], kind) == 0)
            return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "\"%.40s\" must be environments, agents, tools or prompts", kind);
}

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "LANGUAGE", .member = "language", .missing = "-"},
    {.title = "DESCRIPTION", .member = "description", .missing = "-"},
    {.title = NULL},
};

/* Files that the daemon refused. */
static void print_problems(const json_t *registry)
{
    const json_t *problems = json_object_get(registry, "problems");

    for (size_t i = 0; i < json_array_size(problems); i++) {
        const json_t *problem = json_array_get(problems, i);
        atoll_cli_say("%s (in force: %s)", atoll_link_text(problem, "message", "?"),
                      atoll_link_text(problem, "in_force", "?"));
    }
}

static int list_all(struct atoll_cli *cli, struct atoll_error *err)
{
    static const char *const titles[] = {"KIND", "NAME", NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_cli_table table;
    int r = atoll_cli_call(cli, "GET", "/api/registry", NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_table_init(&table, titles);
    for (size_t k = 0; k < ATOLL_ARRAY_LEN(kinds); k++) {
        const json_t *names = json_object_get(reply, kinds[k]);
        for (size_t i = 0; i < json_array_size(names); i++) {
            atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", kinds[k]);
            atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s",
                                json_string_value(json_array_get(names, i)));
        }
    }
    atoll_cli_table_finish(&table, stdout);
    print_problems(reply);
    return ATOLL_CLI_OK;
}

static int list(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
                struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = argc > 0 ? check_kind(argv[0], err) : 0;

    if (r == 0 && argc == 0)
        return list_all(cli, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/registry/%s", argv[0]);
    return r < 0 ? r : atoll_cli_list(cli, target.text, argv[0], columns, err);
}

const struct atoll_cli_verb atoll_cli_registry_ls = {
    .name = "registry ls",
    .args = "[" KINDS "]",
    .summary = "list what the registry has, and the files that were refused",
    .help = "Example:\n"
            "  atoll registry ls environments\n",
    .max_args = 1,
    .run = list,
};

static int show(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = check_kind(argv[0], err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/registry/%s/%s", argv[0], argv[1]);
    return r < 0 ? r : atoll_cli_show(cli, target.text, err);
}

const struct atoll_cli_verb atoll_cli_registry_show = {
    .name = "registry show",
    .args = KINDS " NAME",
    .summary = "show an object of the registry, as JSON",
    .help = "Example:\n"
            "  atoll registry show environments Python3\n",
    .min_args = 2,
    .max_args = 2,
    .run = show,
};
