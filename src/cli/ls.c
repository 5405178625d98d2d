#include <string.h>
#include "cli/collection.h"

struct options {
    struct atoll_cli_common common;
    bool all;
};

static const struct atoll_cli_option options_table[] = {
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct options, all), NULL,
     "list the sandboxes of every tenant (needs an admin key)", NULL},
    {"all-tenants", 0, ATOLL_CLI_FLAG, offsetof(struct options, all), NULL, "same as --all", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static enum atoll_cli_colour colour_of(const char *state)
{
    if (strcmp(state, "running") == 0)
        return ATOLL_CLI_GREEN;
    return strcmp(state, "failed") == 0 ? ATOLL_CLI_RED : ATOLL_CLI_YELLOW;
}

static void add_state(struct atoll_cli_table *table, const json_t *sandbox)
{
    const char *state = atoll_link_text(sandbox, "state", "?");
    atoll_cli_table_add(table, colour_of(state), "%s", state);
}

static void add_origin(struct atoll_cli_table *table, const json_t *sandbox)
{
    atoll_cli_table_add(
        table, ATOLL_CLI_PLAIN, "%s",
        atoll_link_text(sandbox, "image", atoll_link_text(sandbox, "template", "?")));
}

static void add_rest(struct atoll_cli_table *table, const json_t *sandbox)
{
    const char *end = atoll_link_text(sandbox, "expires_at", NULL);
    char text[16];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        end ? atoll_cli_format_age(-atoll_cli_age_of(end), text) : "-");
}

static const struct atoll_cli_column columns[] = {
    {.title = "SANDBOX", .member = "id"},
    {.title = "STATE", .add = add_state},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "TEMPLATE", .add = add_origin},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "ENDS IN", .add = add_rest},
    {"MEMORY", "limits.memoryMB", ATOLL_CLI_FORM_MEGABYTES, "-", ATOLL_CLI_PLAIN, 0, NULL},
    {"CPUS", "limits.cpuCores", ATOLL_CLI_FORM_NUMBER, "-", ATOLL_CLI_PLAIN, 0, NULL},
    {"DISK", "limits.diskMB", ATOLL_CLI_FORM_MEGABYTES, "-", ATOLL_CLI_PLAIN, 0, NULL},
    {.title = "WAIVED", .member = "waived", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = NULL},
};

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    return atoll_cli_list(cli, o->all ? "/api/sandboxes?all=true" : "/api/sandboxes", "sandboxes",
                          columns, err);
}

const struct atoll_cli_verb atoll_cli_ls = {
    .name = "ls",
    .args = "[OPTION]...",
    .summary = "list sandboxes",
    .help = "WAIVED lists limits that the host cannot enforce and that --waive gave up.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};
