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
     "tenant of the key; created on first use (default: default)", NULL},
    {"scope", 's', ATOLL_CLI_TEXT, offsetof(struct create_options, scope), "read|tools|write|admin",
     "what the key allows (default: write)", NULL},
    {"e2b", 0, ATOLL_CLI_FLAG, offsetof(struct create_options, e2b), NULL,
     "print the key in the format that E2B's SDKs accept", NULL},
    ATOLL_CLI_COMMON(struct create_options),
    {0},
};

/* E2B's SDKs accept only keys of "e2b_" and hex digits. The daemon accepts its own key in this form:
 * the bytes after "atl_" in hex. */
static int spell_for_e2b(json_t *reply, struct atoll_error *err)
{
    static const char prefix[] = "atl_";
    const char *key = atoll_link_text(reply, "key", "");
    char text[256] = "e2b_";
    size_t n = sizeof(prefix) - 1;

    if (strncmp(key, prefix, n) != 0 || strlen(key) > 100)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EPROTO,
                          "the daemon did not return a valid key");
    for (const char *p = key + n; *p; p++)
        (void)snprintf(text + 4 + 2 * (p - key - (ptrdiff_t)n), 3, "%02x", (unsigned char)*p);
    if (json_object_set_new(reply, "key", json_string(text)) < 0)
        return atoll_fail_errno(err, ENOMEM, "key");
    return 0;
}

/* Prints only the key on standard output, for use in scripts. */
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
                          "the name of the tenant is not valid UTF-8");
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
    .args = "[OPTION]...",
    .summary = "create an API key and print it once",
    .help =
        "The daemon stores only a hash of the key, so it cannot be shown again.\n"
        "Scopes: read may list and inspect; tools may also call tools, by REST and MCP, and is\n"
        "for agents; write may also create, run and destroy, within its tenant; admin may\n"
        "manage keys, templates and all tenants.\n"
        "\n"
        "Examples:\n"
        "  atoll key create --tenant acme --scope write\n"
        "  ATOLL_URL=http://host:8000 ATOLL_API_KEY=$key atoll ls\n"
        "  export E2B_API_KEY=$(atoll key create --e2b)\n",
    .options = create_options,
    .options_size = sizeof(struct create_options),
    .run = create,
};

const struct atoll_cli_verb atoll_cli_key_ls = {
    .name = "key ls",
    .args = "",
    .summary = "list API keys (ids, not the secrets)",
    .help = "",
    .collection = &keys,
    .run = atoll_cli_collection_ls,
};

const struct atoll_cli_verb atoll_cli_key_rm = {
    .name = "key rm",
    .args = "KEY...",
    .summary = "revoke API keys",
    .help = "Requests in progress continue; new requests with the key are refused.\n",
    .min_args = 1,
    .max_args = -1,
    .collection = &keys,
    .run = atoll_cli_collection_rm,
};
