#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/print.h"
#include "cli/publish.h"
#include "cli/request.h"

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_env env;
    struct atoll_cli_list mcp;
    double timeout_seconds;
    bool get_or_create;
};

static const struct atoll_cli_option options_table[] = {
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, sandbox),
     .table = atoll_cli_sandbox_options},
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, env),
     .table = atoll_cli_env_options},
    {"timeout", 0, ATOLL_CLI_TIME, offsetof(struct options, timeout_seconds), "TIME",
     "destroy the sandbox after this time", NULL},
    {"get-or-create", 0, ATOLL_CLI_FLAG, offsetof(struct options, get_or_create), NULL,
     "if a sandbox has the name, print its id and ignore the other options", NULL},
    {"mcp", 0, ATOLL_CLI_LIST, offsetof(struct options, mcp), "NAME",
     "an MCP server to run in it, of the environment mcp-gateway or a connector; prints its URL and token too",
     NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* A connector of that name, or a server that the program mcp-gateway knows. */
static int add_servers(struct atoll_cli *cli, json_t *request, const struct atoll_cli_list *names,
                       struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOJSON json_t *servers = json_object();
    const json_t *connectors;
    int r = atoll_cli_call(cli, "GET", "/api/connectors", NULL, &reply, err);

    connectors = r == 0 ? json_object_get(reply, "connectors") : NULL;
    for (size_t i = 0; r == 0 && i < names->n; i++) {
        json_t *value = NULL;
        for (size_t k = 0; !value && k < json_array_size(connectors); k++)
            if (strcmp(atoll_link_text(json_array_get(connectors, k), "name", ""),
                       names->items[i]) == 0)
                value = json_string(names->items[i]);
        if (json_object_set_new(servers, names->items[i], value ? value : json_object()) < 0)
            r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--mcp is not valid UTF-8");
    }
    if (r == 0)
        (void)json_object_set(request, "mcp", servers);
    return r;
}

static void print_gateway(const json_t *gateway)
{
    const json_t *problems = json_object_get(gateway, "problems");

    for (size_t i = 0; i < json_array_size(problems); i++)
        atoll_cli_say("warning: %s", json_string_value(json_array_get(problems, i)));
    (void)printf("%s\n%s\n", atoll_link_text(gateway, "url", ""),
                 atoll_link_text(gateway, "token", ""));
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *warnings;
    int r = atoll_cli_add_sandbox(request, &o->sandbox, o->timeout_seconds, err);

    if (r == 0)
        r = atoll_cli_add_env(request, &o->env, err);
    if (r == 0 && o->get_or_create && !o->sandbox.name)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--get-or-create needs --name");
    if (r == 0 && o->mcp.n > 0) {
        r = add_servers(cli, request, &o->mcp, err);
        atoll_cli_set_timeout(cli, -1); /* servers may have to be installed */
    }
    if (r == 0 && o->get_or_create)
        (void)json_object_set_new(request, "getOrCreate", json_true());
    if (r == 0)
        r = atoll_cli_publish_check(&o->sandbox.publish, err);
    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/sandboxes", request, &reply, err);
    if (r == 0)
        r = atoll_cli_publish(cli, atoll_link_text(reply, "id", ""), &o->sandbox.publish, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    warnings = json_object_get(reply, "warnings");
    for (size_t i = 0; i < json_array_size(warnings); i++)
        atoll_cli_say("warning: %s", json_string_value(json_array_get(warnings, i)));
    atoll_cli_put(stdout, atoll_link_text(reply, "id", ""));
    (void)fputc('\n', stdout);
    if (json_object_get(reply, "mcp"))
        print_gateway(json_object_get(reply, "mcp"));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_create = {
    .name = "create",
    .args = "[OPTION]...",
    .summary = "create a sandbox and print its id",
    .help = "The sandbox runs until `atoll rm`, or until one of --timeout, --idle and --lease\n"
            "expires. --env sets variables for all commands in it.\n"
            "\n"
            "Examples:\n"
            "  id=$(atoll create --memory 1G --cpus 2)\n"
            "  atoll exec $id -- make test\n"
            "  atoll rm $id\n"
            "  atoll create --name work --get-or-create && atoll shell work\n"
            "  atoll create --mcp time --mcp fetch --network bridge\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};
