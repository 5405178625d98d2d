#include <errno.h>
#include <stdio.h>
#include "cli/collection.h"

struct options {
    struct atoll_cli_common common;
    bool all, all_tenants;
};

static const struct atoll_cli_option options_table[] = {
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct options, all), NULL,
     "destroy all sandboxes of your tenant", NULL},
    {"all-tenants", 0, ATOLL_CLI_FLAG, offsetof(struct options, all_tenants), NULL,
     "destroy all sandboxes of all tenants (needs an admin key)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int remove_all(struct atoll_cli *cli, bool all_tenants, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r =
        atoll_cli_call(cli, "DELETE", all_tenants ? "/api/sandboxes?all=true" : "/api/sandboxes",
                       NULL, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%.0f destroyed\n", atoll_link_number(reply, "destroyed", 0));
    return ATOLL_CLI_OK;
}

static int remove_one(struct atoll_cli *cli, const char *id, const void *arg ATOLL_UNUSED,
                      struct atoll_error *err)
{
    struct atoll_client_error error;
    int r = atoll_cli_open(cli, err);

    if (r < 0)
        return r;
    r = atoll_client_sandbox_destroy(cli->client, id, &error);
    return atoll_cli_take_error(cli, r, &error, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    bool all = o->all || o->all_tenants;

    if (all != (argc == 0))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          all ? "--all and ids exclude each other"
                              : "name the sandboxes to destroy, or use --all");
    if (all)
        return remove_all(cli, o->all_tenants, err);
    /* Continues after a failure, so that the other sandboxes are destroyed. */
    return atoll_cli_each(cli, argv, "destroyed", true, remove_one, NULL, err);
}

const struct atoll_cli_verb atoll_cli_rm = {
    .name = "rm",
    .args = "[OPTION]... [SANDBOX]...",
    .summary = "destroy sandboxes with everything in them",
    .help = "Prints the ids of the destroyed sandboxes. When it returns, their processes and\n"
            "files are gone.\n"
            "\n"
            "Examples:\n"
            "  atoll rm $id\n"
            "  atoll rm --all\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = -1,
    .run = run,
};
