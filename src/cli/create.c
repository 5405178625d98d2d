#include <errno.h>
#include <stdio.h>
#include "cli/print.h"
#include "cli/publish.h"
#include "cli/request.h"

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_env env;
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
    ATOLL_CLI_COMMON(struct options),
    {0},
};

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
            "  atoll create --name work --get-or-create && atoll shell work\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};
