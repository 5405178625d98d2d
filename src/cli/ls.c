#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/client.h"
#include "cli/print.h"

struct options {
    struct atoll_cli_common common;
    bool all;
};

static const struct atoll_cli_option options_table[] = {
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct options, all), NULL,
     "those of every tenant; for admins", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static enum atoll_cli_colour colour_of(const char *state)
{
    if (strcmp(state, "running") == 0)
        return ATOLL_CLI_GREEN;
    return strcmp(state, "failed") == 0 ? ATOLL_CLI_RED : ATOLL_CLI_YELLOW;
}

static void add_megabytes(struct atoll_cli_table *table, const json_t *limits, const char *key)
{
    double megabytes = atoll_link_number(limits, key, 0);
    char text[16];

    if (megabytes > 0 && megabytes < 1e9)
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                            atoll_text_format_size((uint64_t)(megabytes * 1024 * 1024), text));
    else
        atoll_cli_table_add(table, ATOLL_CLI_DIM, "-");
}

static void join_waived(const json_t *sandbox, char *out, size_t cap)
{
    const json_t *waived = json_object_get(sandbox, "waived");
    size_t len = 0;

    (void)snprintf(out, cap, "-");
    for (size_t i = 0; i < json_array_size(waived); i++) {
        const char *word = json_string_value(json_array_get(waived, i));
        if (word && len < cap)
            len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? "," : "", word);
    }
}

static void add_sandbox(struct atoll_cli_table *table, const json_t *sandbox)
{
    const json_t *limits = json_object_get(sandbox, "limits");
    const char *state = atoll_link_text(sandbox, "state", "?");
    double cpus = atoll_link_number(limits, "cpuCores", 0);
    double age = atoll_cli_age_of(atoll_link_text(sandbox, "created_at", NULL));
    double left = -atoll_cli_age_of(atoll_link_text(sandbox, "expires_at", NULL));
    char text[64];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(sandbox, "id", "?"));
    atoll_cli_table_add(table, colour_of(state), "%s", state);
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(sandbox, "provider", "?"));
    atoll_cli_table_add(
        table, ATOLL_CLI_PLAIN, "%s",
        atoll_link_text(sandbox, "image", atoll_link_text(sandbox, "template", "?")));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_cli_format_age(age, text));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        json_is_string(json_object_get(sandbox, "expires_at"))
                            ? atoll_cli_format_age(left, text)
                            : "-");
    add_megabytes(table, limits, "memoryMB");
    (void)snprintf(text, sizeof(text), "%g", cpus);
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", cpus > 0 ? text : "-");
    add_megabytes(table, limits, "diskMB");
    join_waived(sandbox, text, sizeof(text));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", text);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    static const char *const names[] = {"SANDBOX", "STATE",   "PROVIDER", "TEMPLATE",
                                        "AGE",     "ENDS IN", "MEMORY",   "CPUS",
                                        "DISK",    "WAIVED",  NULL};
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_cli_table table;
    const json_t *sandboxes;
    int r = atoll_cli_call(cli, "GET", o->all ? "/api/sandboxes?all=true" : "/api/sandboxes", NULL,
                           &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    sandboxes = json_object_get(reply, "sandboxes");
    atoll_cli_table_init(&table, names);
    for (size_t i = 0; i < json_array_size(sandboxes); i++)
        add_sandbox(&table, json_array_get(sandboxes, i));
    atoll_cli_table_finish(&table, stdout);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_ls = {
    .name = "ls",
    .args = "[--all]",
    .summary = "list the sandboxes",
    .help = "WAIVED names limits that the host could not give and the creator did without.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 0,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = run,
};
