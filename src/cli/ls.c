#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/format.h"

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_list filters;
    const char *format;
    bool ended, all_tenants, quiet;
};

static const struct atoll_cli_option options_table[] = {
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct options, ended), NULL,
     "also list ended sandboxes, as long as their records are kept", NULL},
    {"all-tenants", 0, ATOLL_CLI_FLAG, offsetof(struct options, all_tenants), NULL,
     "list the sandboxes of every tenant (needs an admin key)", NULL},
    {"quiet", 'q', ATOLL_CLI_FLAG, offsetof(struct options, quiet), NULL, "print only ids", NULL},
    {"filter", 'f', ATOLL_CLI_LIST, offsetof(struct options, filters), "K=V",
     "list only those with name=, state=, template=, provider=, image=, label=K or label=K=V",
     NULL},
    {"format", 0, ATOLL_CLI_TEXT, offsetof(struct options, format), "TEXT",
     "print this for each, such as '{{.ID}} {{.State}}', or json", NULL},
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
    const char *end = atoll_link_text(sandbox, "end", NULL);

    if (end)
        atoll_cli_table_add(table, ATOLL_CLI_DIM, "%s (%s)", state, end);
    else
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
    bool ended = json_object_get(sandbox, "ended_at") != NULL;
    const char *end = ended ? NULL : atoll_link_text(sandbox, "expires_at", NULL);
    char text[16];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        end ? atoll_cli_format_age(-atoll_cli_age_of(end), text) : "-");
}

/* A limit that was waived is not enforced, so it is not shown as one. */
static void add_limit(struct atoll_cli_table *table, const json_t *sandbox, const char *limit,
                      const char *member, bool mega)
{
    const json_t *waived = json_object_get(sandbox, "waived");
    double n = atoll_link_number(json_object_get(sandbox, "limits"), member, 0);
    char text[16];

    for (size_t i = 0; i < json_array_size(waived); i++)
        if (strcmp(json_string_value(json_array_get(waived, i)), limit) == 0)
            n = 0;
    if (!(n > 0 && n < 9e12))
        atoll_cli_table_add(table, ATOLL_CLI_DIM, "-");
    else if (mega)
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                            atoll_text_format_size((uint64_t)n * 1024 * 1024, text));
    else
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.15g", n);
}

static void add_memory(struct atoll_cli_table *table, const json_t *sandbox)
{
    add_limit(table, sandbox, "memory", "memoryMB", true);
}

static void add_cpus(struct atoll_cli_table *table, const json_t *sandbox)
{
    add_limit(table, sandbox, "cpu", "cpuCores", false);
}

static void add_disk(struct atoll_cli_table *table, const json_t *sandbox)
{
    add_limit(table, sandbox, "disk", "diskMB", true);
}

static const struct atoll_cli_column columns[] = {
    {.title = "SANDBOX", .member = "id"},
    {.title = "NAME", .member = "name", .missing = "-"},
    {.title = "STATE", .add = add_state},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "TEMPLATE", .add = add_origin},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "ENDS IN", .add = add_rest},
    {.title = "MEMORY", .add = add_memory},
    {.title = "CPUS", .add = add_cpus},
    {.title = "DISK", .add = add_disk},
    {.title = "WAIVED", .member = "waived", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = NULL},
};

/* Adds the sandboxes of a list that fit the filters to *chosen. */
static int collect(struct atoll_cli *cli, const struct options *o, const char *query,
                   json_t *chosen, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *items = json_array();
    char path[100];
    int r;

    (void)snprintf(path, sizeof(path), "/api/sandboxes?%s%s", query,
                   o->all_tenants ? "&all=true" : "");
    r = atoll_cli_pages(cli, path, "sandboxes", items, err);
    for (size_t i = 0; r == 0 && i < json_array_size(items); i++)
        if (atoll_cli_filter(&o->filters, json_array_get(items, i)))
            (void)json_array_append(chosen, json_array_get(items, i));
    return r;
}

static int print(struct atoll_cli *cli, const struct options *o, json_t *items,
                 struct atoll_error *err)
{
    const char *format = o->quiet ? "{{.ID}}" : o->format;
    ATOLL_AUTOJSON json_t *object = json_pack("{s:O}", "sandboxes", items);
    int r = 0;

    if (cli->json)
        return atoll_cli_print_json(object, err);
    if (!format)
        atoll_cli_list_print(items, columns);
    for (size_t i = 0; r == 0 && format && i < json_array_size(items); i++)
        r = atoll_cli_format(format, json_array_get(items, i), err);
    return r;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *items = json_array();
    int r = atoll_cli_filter_check(&o->filters, err);

    if (r == 0 && o->ended)
        r = collect(cli, o, "state=ended&limit=500", items, err);
    if (r == 0)
        r = collect(cli, o, "limit=1000", items, err);
    return r < 0 ? r : print(cli, o, items, err);
}

const struct atoll_cli_verb atoll_cli_ls = {
    .name = "ls",
    .args = "[OPTION]...",
    .summary = "list sandboxes",
    .help = "WAIVED lists limits that the host cannot enforce and that --waive gave up. The\n"
            "fields of --format are the members of `atoll ls --json`. Records of ended sandboxes\n"
            "say how they ended: by request, deadline, idle, lease, connection, or failed.\n"
            "\n"
            "Examples:\n"
            "  atoll ls --filter state=running --filter label=task=42\n"
            "  atoll ls --format '{{.ID}} {{.State}} {{.Labels}}'\n"
            "  atoll rm $(atoll ls -q --filter label=task=42)\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

const struct atoll_cli_verb atoll_cli_ps = {
    .name = "ps",
    .args = "[OPTION]...",
    .summary = "same as ls",
    .help = "`atoll top` lists the processes of a sandbox.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

struct inspect_options {
    struct atoll_cli_common common;
    const char *format;
};

static const struct atoll_cli_option inspect_table[] = {
    {"format", 'f', ATOLL_CLI_TEXT, offsetof(struct inspect_options, format), "TEXT",
     "print this for each, such as '{{.State}}', or json", NULL},
    ATOLL_CLI_COMMON(struct inspect_options),
    {0},
};

static int inspect(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                   struct atoll_error *err)
{
    const struct inspect_options *o = options;
    ATOLL_AUTOJSON json_t *items = json_array();
    int r = 0;

    for (; r == 0 && *argv; argv++) {
        struct atoll_link_target target;
        json_t *reply = NULL;
        r = atoll_link_check_id("sandbox", *argv, err);
        if (r == 0)
            r = atoll_link_target(&target, err, "/api/sandboxes/%s?ended=true", *argv);
        if (r == 0)
            r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
        if (r == 0)
            (void)json_array_append_new(items, reply);
    }
    for (size_t i = 0; r == 0 && o->format && i < json_array_size(items); i++)
        r = atoll_cli_format(o->format, json_array_get(items, i), err);
    return r < 0 || o->format ? r : atoll_cli_show_value(cli, items, err);
}

const struct atoll_cli_verb atoll_cli_inspect = {
    .name = "inspect",
    .args = "[OPTION]... SANDBOX...",
    .summary = "show all that the daemon knows about sandboxes, as JSON",
    .help = "Also about an ended sandbox, by its whole id, as long as its record is kept.\n"
            "\n"
            "Examples:\n"
            "  atoll inspect $id\n"
            "  atoll inspect --format '{{.Limits.memoryMB}} {{.Provider}}' $id\n",
    .options = inspect_table,
    .options_size = sizeof(struct inspect_options),
    .min_args = 1,
    .max_args = -1,
    .run = inspect,
};
