#include <errno.h>
#include <stdio.h>
#include "cli/collection.h"
#include "cli/format.h"

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
    .help = "Prints what was named and is destroyed. When it returns, their processes and\n"
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

struct prune_options {
    struct atoll_cli_common common;
    struct atoll_cli_list filters;
    bool force;
};

static const struct atoll_cli_option prune_table[] = {
    {"force", 'f', ATOLL_CLI_FLAG, offsetof(struct prune_options, force), NULL,
     "do not ask before destroying", NULL},
    {"filter", 0, ATOLL_CLI_LIST, offsetof(struct prune_options, filters), "K=V",
     "destroy only those that also fit this, as for `atoll ls`", NULL},
    ATOLL_CLI_COMMON(struct prune_options),
    {0},
};

/* Asks on the terminal. Without one, --force is the only consent. */
static int ask(size_t n, struct atoll_error *err)
{
    char answer[16] = "";

    if (!isatty(STDIN_FILENO))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%zu sandboxes would be destroyed; use --force to do so", n);
    (void)fprintf(stderr, "Destroy %zu stopped or failed sandboxes with their disks? [y/N] ", n);
    if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return 1;
    return 0;
}

/* The ids of the sandboxes to destroy, ending with NULL; borrowed from `items`. */
static char **select_ids(const json_t *items, const struct atoll_cli_list *filters, size_t *ret_n)
{
    static const struct atoll_cli_list idle = {2, {"state=stopped", "state=failed"}};
    char **ids = calloc(json_array_size(items) + 1, sizeof(*ids));

    *ret_n = 0;
    for (size_t i = 0; ids && i < json_array_size(items); i++) {
        const json_t *item = json_array_get(items, i);
        if (atoll_cli_filter(&idle, item) && atoll_cli_filter(filters, item))
            ids[(*ret_n)++] = (char *)atoll_link_text(item, "id", "");
    }
    return ids;
}

static int prune(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                 char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct prune_options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOFREE char **ids = NULL;
    size_t n;
    int r = atoll_cli_filter_check(&o->filters, err);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", "/api/sandboxes", NULL, &reply, err);
    if (r < 0)
        return r;
    ids = select_ids(json_object_get(reply, "sandboxes"), &o->filters, &n);
    if (!ids)
        return atoll_fail_errno(err, ENOMEM, "ids");
    if (n > 0 && !o->force) {
        r = ask(n, err);
        if (r <= 0)
            return r;
    }
    return atoll_cli_each(cli, ids, "destroyed", true, remove_one, NULL, err);
}

const struct atoll_cli_verb atoll_cli_prune = {
    .name = "prune",
    .args = "[OPTION]...",
    .summary = "destroy all stopped and failed sandboxes",
    .help = "Also destroys their disks. Prints the ids of the destroyed sandboxes.\n",
    .options = prune_table,
    .options_size = sizeof(struct prune_options),
    .run = prune,
};
