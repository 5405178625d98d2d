#include <stdio.h>
#include <string.h>
#include "cli/collection.h"

struct options {
    struct atoll_cli_common common;
    bool all;
};

static const struct atoll_cli_option options_table[] = {
    {"all-tenants", 0, ATOLL_CLI_FLAG, offsetof(struct options, all), NULL,
     "check the sandboxes of every tenant (needs an admin key)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static bool is_ok(const json_t *item)
{
    return strcmp(atoll_link_text(item, "status", ""), "ok") == 0;
}

static void add_status(struct atoll_cli_table *table, const json_t *item)
{
    atoll_cli_table_add(table, is_ok(item) ? ATOLL_CLI_GREEN : ATOLL_CLI_RED, "%s",
                        atoll_link_text(item, "status", "?"));
}

static void add_answered(struct atoll_cli_table *table, const json_t *item)
{
    double ms = atoll_link_number(item, "answered_ms", -1);

    if (ms < 0)
        atoll_cli_table_add(table, ATOLL_CLI_DIM, "-");
    else
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.0f ms", ms);
}

static const struct atoll_cli_column columns[] = {
    {.title = "SANDBOX", .member = "id"},
    {.title = "HEALTH", .add = add_status},
    {.title = "STATE", .member = "state"},
    {.title = "ANSWERED IN", .add = add_answered},
    {.title = "CAUSE", .member = "cause", .missing = "-"},
    {.title = NULL},
};

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOJSON json_t *items = NULL;
    struct atoll_link_target target = {"/api/health"};
    int status = ATOLL_CLI_OK, r = 0;

    if (o->all)
        (void)snprintf(target.text, sizeof(target.text), "/api/health?all=true");
    if (argc > 0)
        r = atoll_link_check_id("sandbox", argv[0], err);
    if (r == 0 && argc > 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/health", argv[0]);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    items = argc > 0 ? json_pack("[O]", reply) : json_incref(json_object_get(reply, "sandboxes"));
    for (size_t i = 0; i < json_array_size(items); i++)
        if (!is_ok(json_array_get(items, i)))
            status = ATOLL_CLI_FAILED;
    if (!cli->json) {
        atoll_cli_list_print(items, columns);
        return status;
    }
    r = atoll_cli_print_json(reply, err);
    return r < 0 ? r : status;
}

const struct atoll_cli_verb atoll_cli_health = {
    .name = "health",
    .args = "[OPTION]... [SANDBOX]",
    .summary = "check that sandboxes answer",
    .help = "The exit status is 1 if one does not. Nothing is wrong with a paused or stopped\n"
            "sandbox. `atoll status` is about the daemon, `atoll providers` about providers.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = 1,
    .run = run,
};
