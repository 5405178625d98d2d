#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/client.h"
#include "cli/collection.h"
#include "cli/print.h"

struct create_options {
    struct atoll_cli_common common;
    const char *tenant, *scope;
    bool e2b;
};

static const struct atoll_cli_option create_options[] = {
    {"tenant", 't', ATOLL_CLI_TEXT, offsetof(struct create_options, tenant), "NAME",
     "whom the key speaks for; made by its first use (default)", NULL},
    {"scope", 's', ATOLL_CLI_TEXT, offsetof(struct create_options, scope), "SCOPE",
     "read, write or admin (write)", NULL},
    {"e2b", 0, ATOLL_CLI_FLAG, offsetof(struct create_options, e2b), NULL,
     "print it as E2B's SDKs want keys to look", NULL},
    ATOLL_CLI_COMMON(struct create_options),
    {0},
};

/* SDKs of E2B check that a key is "e2b_" and hex digits: ours, spelled so, is the same key. */
static int spell_for_e2b(json_t *reply, struct atoll_error *err)
{
    static const char prefix[] = "atl_";
    const char *key = atoll_link_text(reply, "key", "");
    char text[256] = "e2b_";
    size_t n = sizeof(prefix) - 1;

    if (strncmp(key, prefix, n) != 0 || strlen(key) > 100)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO, "the daemon's answer is no key");
    for (const char *p = key + n; *p; p++)
        (void)snprintf(text + 4 + 2 * (p - key - (ptrdiff_t)n), 3, "%02x", (unsigned char)*p);
    if (json_object_set_new(reply, "key", json_string(text)) < 0)
        return atoll_fail_errno(err, ENOMEM, "key");
    return 0;
}

/* The key alone on standard output, so that a script can take it as it is. */
static int create(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                  char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct create_options *o = options;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:s, s:s}", "tenant", o->tenant ? o->tenant : "default", "scope",
                  o->scope ? o->scope : "write");
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    if (!request)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of the tenant is no UTF-8 text");
    r = atoll_cli_call(cli, "POST", "/api/keys", request, &reply, err);
    if (r == 0 && o->e2b)
        r = spell_for_e2b(reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", atoll_link_text(reply, "key", ""));
    return ATOLL_CLI_OK;
}

static void add_key(struct atoll_cli_table *table, const json_t *key)
{
    double age = atoll_cli_age_of(atoll_link_text(key, "created_at", NULL));
    char text[16];

    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(key, "id", "?"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(key, "tenant", "?"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(key, "scope", "?"));
    atoll_cli_table_add(table, ATOLL_CLI_PLAIN, "%s", atoll_cli_format_age(age, text));
}

static int list(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    static const char *const names[] = {"ID", "TENANT", "SCOPE", "AGE", NULL};
    return atoll_cli_collection_list(cli, "/api/keys", "keys", names, add_key, err);
}

static int target_of(const char *name, struct atoll_link_target *ret, struct atoll_error *err)
{
    int r = atoll_link_check_id("key", name, err);
    return r < 0 ? r : atoll_link_target(ret, err, "/api/keys/%s", name);
}

static int remove_each(struct atoll_cli *cli, const void *options ATOLL_UNUSED,
                       int argc ATOLL_UNUSED, char **argv, struct atoll_error *err)
{
    return atoll_cli_collection_remove(cli, argv, target_of, err);
}

const struct atoll_cli_verb atoll_cli_key_create = {
    .name = "key create",
    .args = "[--tenant NAME] [--scope SCOPE] [--e2b]",
    .summary = "make an API key and print it, once",
    .help = "Only a hash of the key is kept: what is printed here cannot be shown again.\n"
            "A key of scope read may look, one of scope write may also create, run and\n"
            "destroy what is its tenant's; admin is for keys, templates and all tenants.\n"
            "\n"
            "Examples:\n"
            "  atoll key create --tenant acme --scope write\n"
            "  ATOLL_URL=http://host:7070 ATOLL_API_KEY=$key atoll ls\n"
            "  export E2B_API_KEY=$(atoll key create --e2b)\n",
    .options = create_options,
    .options_size = sizeof(struct create_options),
    .max_args = 0,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = create,
};

const struct atoll_cli_verb atoll_cli_key_ls = {
    .name = "key ls",
    .args = "",
    .summary = "list the API keys, without the keys themselves",
    .help = "",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .max_args = 0,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = list,
};

const struct atoll_cli_verb atoll_cli_key_rm = {
    .name = "key rm",
    .args = "ID...",
    .summary = "take API keys away",
    .help = "Requests that are under way go on; the next one is refused.\n",
    .options = atoll_cli_plain_options,
    .options_size = sizeof(struct atoll_cli_plain),
    .min_args = 1,
    .max_args = -1,
    .command_at = ATOLL_CLI_NO_COMMAND,
    .run = remove_each,
};
