/* Connectors: MCP servers by name, for agents of tasks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/client.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/request.h"

struct create_options {
    struct atoll_cli_common common;
    struct atoll_cli_env env;
    struct atoll_cli_list headers;
    const char *url, *cwd, *from_file;
    bool sse, replace;
};

#define AT(member) offsetof(struct create_options, member)
static const struct atoll_cli_option create_options[] = {
    {"url", 'u', ATOLL_CLI_TEXT, AT(url), "URL", "a server elsewhere", NULL},
    {"header", 'H', ATOLL_CLI_LIST, AT(headers), "NAME: VALUE",
     "sent to it; ${secret.NAME} in the value stands for a secret", NULL},
    {"sse", 0, ATOLL_CLI_FLAG, AT(sse), NULL, "it speaks the older protocol with SSE", NULL},
    {"cwd", 0, ATOLL_CLI_TEXT, AT(cwd), "DIR", "where COMMAND is started", NULL},
    {"from-file", 'f', ATOLL_CLI_TEXT, AT(from_file), "FILE",
     "read the definition from a file of JSON, as in \"mcpServers\"", NULL},
    {"replace", 0, ATOLL_CLI_FLAG, AT(replace), NULL, "change an existing connector", NULL},
    {.kind = ATOLL_CLI_TABLE, .offset = AT(env), .table = atoll_cli_env_options},
    ATOLL_CLI_COMMON(struct create_options),
    {0},
};
#undef AT

static int load(const char *path, json_t **ret, struct atoll_error *err)
{
    json_error_t why;

    *ret = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(*ret))
        return 0;
    json_decref(*ret);
    *ret = NULL;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s: %s", path,
                      *why.text ? why.text : "not an object of JSON");
}

static int add_header(json_t *headers, const char *text, struct atoll_error *err)
{
    const char *colon = strchr(text, ':');
    char name[128];

    if (!colon || colon == text || (size_t)(colon - text) >= sizeof(name))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--header must be as \"Name: value\" (got \"%.40s\")", text);
    memcpy(name, text, (size_t)(colon - text));
    name[colon - text] = '\0';
    colon++;
    if (json_object_set_new(headers, name, json_string(colon + strspn(colon, " "))) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--header is not valid UTF-8");
    return 0;
}

static int add_text(json_t *request, const char *name, const char *value, struct atoll_error *err)
{
    return value && json_object_set_new(request, name, json_string(value)) < 0
               ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%s is not valid UTF-8", name)
               : 0;
}

static int add_command(json_t *request, char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *args = json_array();
    int r = add_text(request, "command", argv[0], err);

    for (size_t i = 1; r == 0 && argv[0] && argv[i]; i++)
        if (json_array_append_new(args, json_string(argv[i])) < 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "COMMAND is not valid UTF-8");
    if (r == 0 && json_array_size(args) > 0)
        (void)json_object_set(request, "args", args);
    return r;
}

static int compose(json_t *request, const struct create_options *o, char **argv,
                   struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *headers = json_object();
    int r = add_text(request, "name", argv[0], err);

    if (r == 0)
        r = add_command(request, argv + 1, err);
    if (r == 0)
        r = add_text(request, "url", o->url, err);
    if (r == 0)
        r = add_text(request, "type", o->sse ? "sse" : NULL, err);
    if (r == 0)
        r = add_text(request, "cwd", o->cwd, err);
    if (r == 0)
        r = atoll_cli_add_env(request, &o->env, err);
    for (size_t i = 0; r == 0 && i < o->headers.n; i++)
        r = add_header(headers, o->headers.items[i], err);
    if (r == 0 && o->headers.n > 0)
        (void)json_object_set(request, "headers", headers);
    if (r == 0 && o->replace)
        (void)json_object_set_new(request, "replace", json_true());
    return r;
}

static int create(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                  struct atoll_error *err)
{
    const struct create_options *o = options;
    ATOLL_AUTOJSON json_t *request = NULL;
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r = 0;

    if (o->from_file)
        r = load(o->from_file, &request, err);
    else
        request = json_object();
    if (r == 0)
        r = compose(request, o, argv, err);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/connectors", request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", atoll_link_text(reply, "name", ""));
    return ATOLL_CLI_OK;
}

/* The URL, or the command with its arguments. */
static void add_server(struct atoll_cli_table *table, const json_t *item)
{
    const char *url = atoll_link_text(item, "url", NULL);

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s",
                        url ? url : atoll_link_text(item, "command", "-"));
}

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "TYPE", .member = "type", .missing = "-"},
    {.title = "SERVER", .add = add_server},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection connectors = {"/api/connectors", "connectors", "connector",
                                                       true, columns};

static int show(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_cli_collection_target(&connectors, argv[0], &target, err);

    return r < 0 ? r : atoll_cli_show(cli, target.text, err);
}

const struct atoll_cli_verb atoll_cli_connector_create = {
    .name = "connector create",
    .args = "[OPTION]... NAME [--] [COMMAND] [ARG]...",
    .summary = "store an MCP server for agents of tasks",
    .help =
        "COMMAND is started by the agent, in its sandbox; with --url the server is elsewhere.\n"
        "The daemon keeps values of variables and headers encrypted and does not show them\n"
        "again. Give credentials as secrets: other users of the host can see arguments.\n"
        "`atoll task run --mcp NAME` gives the server to the agent.\n"
        "\n"
        "Examples:\n"
        "  atoll connector create files -- npx -y @modelcontextprotocol/server-filesystem /work\n"
        "  atoll connector create linear --url https://mcp.linear.app/mcp \\\n"
        "      --header 'Authorization: Bearer ${secret.LINEAR}'\n",
    .options = create_options,
    .options_size = sizeof(struct create_options),
    .min_args = 1,
    .max_args = -1,
    .command_arg = 2,
    .run = create,
};

const struct atoll_cli_verb atoll_cli_connector_ls = {
    .name = "connector ls",
    .args = "",
    .summary = "list connectors",
    .help = "",
    .collection = &connectors,
    .run = atoll_cli_collection_ls,
};

const struct atoll_cli_verb atoll_cli_connector_show = {
    .name = "connector show",
    .args = "CONNECTOR",
    .summary = "show a connector, without the values of its variables and headers",
    .help = "",
    .min_args = 1,
    .max_args = 1,
    .run = show,
};

const struct atoll_cli_verb atoll_cli_connector_rm = {
    .name = "connector rm",
    .args = "CONNECTOR...",
    .summary = "remove connectors",
    .help = "Tasks that have not started their agent yet fail.\n",
    .min_args = 1,
    .max_args = -1,
    .collection = &connectors,
    .run = atoll_cli_collection_rm,
};
