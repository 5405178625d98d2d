#include <stdio.h>
#include <string.h>
#include "cli/collection.h"

static enum atoll_cli_colour colour_of(const char *state)
{
    if (strcmp(state, "up") == 0)
        return ATOLL_CLI_GREEN;
    return strcmp(state, "down") == 0 ? ATOLL_CLI_RED : ATOLL_CLI_YELLOW;
}

/* Capabilities that only some providers have; the others are not worth a column. */
static bool is_special(const char *word)
{
    static const char *const special[] = {"templates", "images",    "pause",  "persistent",
                                          "builds",    "snapshots", "volumes"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(special); i++)
        if (strcmp(word, special[i]) == 0)
            return true;
    return false;
}

static bool is_any(const char *word ATOLL_UNUSED)
{
    return true;
}

/* Joins the words of a list for which wanted() is true. */
static void add_list(struct atoll_cli_table *table, const json_t *list,
                     bool (*wanted)(const char *))
{
    char text[128] = "-";
    size_t len = 0;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (word && wanted(word) && len < sizeof(text))
            len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", word);
    }
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", text);
}

static void add_state(struct atoll_cli_table *table, const json_t *p)
{
    const char *state = atoll_link_text(p, "state", "?");

    atoll_cli_table_add(table, colour_of(state), "%s%s", state,
                        json_is_true(json_object_get(p, "removed")) ? ", removed" : "");
}

static void add_sandboxes(struct atoll_cli_table *table, const json_t *p)
{
    double most = atoll_link_number(p, "max_sandboxes", 0);
    double count = atoll_link_number(p, "sandboxes", 0);

    if (most > 0)
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.0f / %.0f", count, most);
    else
        atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.0f", count);
}

static void add_latency(struct atoll_cli_table *table, const json_t *p)
{
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%.1f ms", atoll_link_number(p, "latency_ms", 0));
}

static void add_capabilities(struct atoll_cli_table *table, const json_t *p)
{
    add_list(table, json_object_get(p, "capabilities"), is_special);
}

static void add_networks(struct atoll_cli_table *table, const json_t *p)
{
    add_list(table, json_object_get(p, "networks"), is_any);
}

static void add_words(struct atoll_cli_table *table, const json_t *p)
{
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        atoll_link_text(p, "reason", atoll_link_text(p, "detail", "-")));
}

static void add_source(struct atoll_cli_table *table, const json_t *p)
{
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(p, "source", "-"));
}

static const struct atoll_cli_column columns[] = {
    {.title = "PROVIDER", .member = "name"},       {.title = "STATE", .add = add_state},
    {.title = "ISOLATION", .member = "isolation"}, {.title = "SANDBOXES", .add = add_sandboxes},
    {.title = "LATENCY", .add = add_latency},      {.title = "NETWORKS", .add = add_networks},
    {.title = "CAN", .add = add_capabilities},     {.title = "FROM", .add = add_source},
    {.title = "SAYS", .add = add_words},           {.title = NULL},
};

static int run(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const char *error;
    int r = atoll_cli_call(cli, "GET", "/api/providers", NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_list_print(json_object_get(reply, "providers"), columns);
    error = atoll_link_text(json_object_get(reply, "reload"), "error", NULL);
    if (error)
        atoll_cli_say("the providers file was rejected; the previous providers stay in use: %s",
                      error);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_providers = {
    .name = "providers",
    .args = "",
    .summary = "list providers and their state",
    .help =
        "Providers make sandboxes; they are listed in the order the daemon tries them. A\n"
        "provider that is down gets no new sandboxes until it answers again. A removed\n"
        "provider is listed while it still has sandboxes. Providers are configured in\n"
        "providers.yaml in the daemon's state directory, or in the file of atolld --providers.\n"
        "Without a file there are native and, for requests that name them, e2b, daytona and\n"
        "vercel (E2B_API_KEY, DAYTONA_API_KEY, and VERCEL_TOKEN with VERCEL_TEAM_ID and\n"
        "VERCEL_PROJECT_ID in the daemon's environment) and docker (a Docker socket that\n"
        "answers). FROM shows which.\n",
    .run = run,
};
