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
     "whom the key speaks for; made by its first use (default: default)", NULL},
    {"scope", 's', ATOLL_CLI_TEXT, offsetof(struct create_options, scope), "SCOPE",
     "read, write or admin (default: write)", NULL},
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

static const struct atoll_cli_column columns[] = {
    {.title = "ID", .member = "id"},
    {.title = "TENANT", .member = "tenant"},
    {.title = "SCOPE", .member = "scope"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection keys = {"/api/keys", "keys", "key", false, columns};

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
    .run = create,
};

const struct atoll_cli_verb atoll_cli_key_ls = {
    .name = "key ls",
    .args = "",
    .summary = "list the API keys, without the keys themselves",
    .help = "",
    .collection = &keys,
    .run = atoll_cli_collection_ls,
};

const struct atoll_cli_verb atoll_cli_key_rm = {
    .name = "key rm",
    .args = "ID...",
    .summary = "take API keys away",
    .help = "Requests that are under way go on; the next one is refused.\n",
    .min_args = 1,
    .max_args = -1,
    .collection = &keys,
    .run = atoll_cli_collection_rm,
};
