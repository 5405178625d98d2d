/* Versions and tags of templates: show, history, diff, tag, share, rm, gc. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/template.h"

static int target_of(const char *reference, const char *rest, struct atoll_link_target *ret,
                     struct atoll_error *err)
{
    int r;

    if (!*reference)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the name of the template is empty");
    r = atoll_link_target(ret, err, "/api/templates/%s", reference);
    if (r == 0 && strlen(ret->text) + strlen(rest) >= sizeof(ret->text))
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                       "the name of the template is too long");
    if (r == 0)
        memcpy(ret->text + strlen(ret->text), rest, strlen(rest) + 1);
    return r;
}

static int show(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = target_of(argv[0], "", &target, err);

    return r < 0 ? r : atoll_cli_show(cli, target.text, err);
}

static const struct atoll_cli_column version_columns[] = {
    {.title = "DIGEST", .member = "digest", .missing = "-", .width = 19},
    {.title = "TAGS", .member = "tags", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = "SOURCE", .member = "source", .missing = "-"},
    {.title = "SIZE", .member = "size_bytes", .form = ATOLL_CLI_FORM_BYTES, .missing = "-"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "SANDBOXES", .member = "sandboxes", .form = ATOLL_CLI_FORM_NUMBER},
    {.title = NULL},
};

static int history(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                   char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = target_of(argv[0], "/versions", &target, err);

    return r < 0 ? r : atoll_cli_list(cli, target.text, "versions", version_columns, err);
}

/* Its packages. */

static const struct atoll_cli_column package_columns[] = {
    {.title = "PACKAGE", .member = "name"},
    {.title = "VERSION", .member = "version", .missing = "-"},
    {.title = "PURL", .member = "purl", .missing = "-"},
    {.title = NULL},
};

static int sbom(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = target_of(argv[0], "/sbom", &target, err);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_list_print(json_object_get(reply, "components"), package_columns);
    return ATOLL_CLI_OK;
}

/* The difference of two versions. */

static void print_layers(const json_t *layers, const char *member, const char *sign,
                         enum atoll_cli_colour colour)
{
    const json_t *names = json_object_get(layers, member);

    for (size_t i = 0; i < json_array_size(names); i++) {
        atoll_cli_put_colour(stdout, colour, sign);
        (void)fputs(" layer ", stdout);
        atoll_cli_put(stdout, json_string_value(json_array_get(names, i)));
        (void)putchar('\n');
    }
}

static void print_change(const char *key, const json_t *change)
{
    static const char *const sides[] = {"from", "to"};

    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(change, sides[i]);
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

        if (text && !json_is_null(value)) {
            atoll_cli_put_colour(stdout, i ? ATOLL_CLI_GREEN : ATOLL_CLI_RED, i ? "+ " : "- ");
            atoll_cli_put(stdout, key);
            (void)fputs(": ", stdout);
            atoll_cli_put(stdout, text);
            (void)putchar('\n');
        }
        free(text);
    }
}

static int diff(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    const char *key;
    json_t *change;
    int r = atoll_link_target(&target, err, "/api/templates/%s/diff?with=%s", argv[0], argv[1]);

    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("  %zu layers are the same\n",
                 json_array_size(json_object_get(json_object_get(reply, "layers"), "same")));
    print_layers(json_object_get(reply, "layers"), "removed", "-", ATOLL_CLI_RED);
    print_layers(json_object_get(reply, "layers"), "added", "+", ATOLL_CLI_GREEN);
    json_object_foreach(json_object_get(reply, "changed"), key, change) print_change(key, change);
    return ATOLL_CLI_OK;
}

/* Changes. */

static int tag(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
               char **argv, struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = target_of(argv[0], "/tags", &target, err);

    for (char **name = argv + 1; r >= 0 && *name; name++) {
        ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "tag", *name);
        r = request ? atoll_cli_call(cli, "POST", target.text, request, NULL, err)
                    : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a tag is UTF-8 text");
    }
    return r < 0 ? r : ATOLL_CLI_OK;
}

struct share_options {
    struct atoll_cli_common common;
    bool public;
};

static const struct atoll_cli_option share_options[] = {
    {"public", 0, ATOLL_CLI_FLAG, offsetof(struct share_options, public), NULL,
     "share it with all tenants", NULL},
    ATOLL_CLI_COMMON(struct share_options),
    {0},
};

static int share(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                 struct atoll_error *err)
{
    const struct share_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_pack("{s:b, s:[]}", "public", o->public, "tenants");
    struct atoll_link_target target;
    int r = target_of(argv[0], "/shares", &target, err);

    for (char **name = argv + 1; *name; name++)
        (void)json_array_append_new(json_object_get(request, "tenants"), json_string(*name));
    if (r == 0)
        r = atoll_cli_call(cli, "PUT", target.text, request, NULL, err);
    return r < 0 ? r : ATOLL_CLI_OK;
}

static int remove_one(struct atoll_cli *cli, const char *name, const void *arg ATOLL_UNUSED,
                      struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = target_of(name, "", &target, err);

    return r < 0 ? r : atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, err);
}

static int rm(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
              char **argv, struct atoll_error *err)
{
    return atoll_cli_each(cli, argv, "removed", false, remove_one, NULL, err);
}

struct gc_options {
    struct atoll_cli_common common;
    bool cache, all;
};

static const struct atoll_cli_option gc_options[] = {
    {"cache", 0, ATOLL_CLI_FLAG, offsetof(struct gc_options, cache), NULL,
     "remove the cached steps of builds too", NULL},
    {"all", 'a', ATOLL_CLI_FLAG, offsetof(struct gc_options, all), NULL,
     "of all tenants; for admins", NULL},
    ATOLL_CLI_COMMON(struct gc_options),
    {0},
};

static int gc(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
              char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    const struct gc_options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    char target[64], size[16];
    double bytes;
    int r;

    (void)snprintf(target, sizeof(target), "/api/templates/gc?cache=%s%s",
                   o->cache ? "true" : "false", o->all ? "&all=true" : "");
    r = atoll_cli_call(cli, "POST", target, NULL, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    bytes = atoll_link_number(reply, "bytes", 0);
    (void)printf("removed %.0f versions, %.0f cached steps and %.0f layers, %s\n",
                 atoll_link_number(reply, "versions", 0), atoll_link_number(reply, "steps", 0),
                 atoll_link_number(reply, "layers", 0),
                 atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, size));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_template_show = {
    .name = "template show",
    .args = "TEMPLATE",
    .summary = "show one version of a template",
    .help = "TEMPLATE is NAME, NAME:TAG or NAME@sha256:DIGEST; TENANT/NAME names a template that\n"
            "another tenant shares. NAME alone means the tag latest, or the newest version.\n",
    .min_args = 1,
    .max_args = 1,
    .run = show,
};

const struct atoll_cli_verb atoll_cli_template_history = {
    .name = "template history",
    .args = "TEMPLATE",
    .summary = "list the versions of a template, newest first",
    .help =
        "A template keeps the versions that a tag points to or that sandboxes use, and of builds\n"
        "some older ones (--template-history of atolld).\n",
    .min_args = 1,
    .max_args = 1,
    .run = history,
};

const struct atoll_cli_verb atoll_cli_template_sbom = {
    .name = "template sbom",
    .args = "TEMPLATE",
    .summary = "list the packages of a version",
    .help =
        "Packages of dpkg, apk, pip and npm that are in its layers. With --json: the whole list as\n"
        "CycloneDX JSON. The daemon makes the list after a version was made, or now.\n",
    .min_args = 1,
    .max_args = 1,
    .run = sbom,
};

const struct atoll_cli_verb atoll_cli_template_diff = {
    .name = "template diff",
    .args = "TEMPLATE TEMPLATE",
    .summary = "compare two versions",
    .help = "Examples:\n"
            "  atoll template diff app:stable app\n",
    .min_args = 2,
    .max_args = 2,
    .run = diff,
};

const struct atoll_cli_verb atoll_cli_template_tag = {
    .name = "template tag",
    .args = "TEMPLATE TAG...",
    .summary = "point tags to a version",
    .help = "Examples:\n"
            "  atoll template tag app stable             the newest version\n"
            "  atoll template tag app@sha256:0123456789ab latest   back to an older one\n",
    .min_args = 2,
    .max_args = -1,
    .run = tag,
};

const struct atoll_cli_verb atoll_cli_template_share = {
    .name = "template share",
    .args = "TEMPLATE [TENANT...]",
    .summary = "say which other tenants may use a template",
    .help = "They use it as TENANT/NAME, where TENANT is its owner. Without tenants and without\n"
            "--public only its owner can use it. Definitions and logs of builds are not shared.\n",
    .options = share_options,
    .options_size = sizeof(struct share_options),
    .min_args = 1,
    .max_args = -1,
    .run = share,
};

const struct atoll_cli_verb atoll_cli_template_rm = {
    .name = "template rm",
    .args = "TEMPLATE...",
    .summary = "remove templates, tags or versions",
    .help = "NAME removes a template with all its versions, NAME:TAG only the tag, and\n"
            "NAME@sha256:DIGEST one version. A version that sandboxes use is not removed: destroy\n"
            "those sandboxes first.\n",
    .min_args = 1,
    .max_args = -1,
    .run = rm,
};

const struct atoll_cli_verb atoll_cli_template_gc = {
    .name = "template gc",
    .args = "",
    .summary = "remove versions without a tag that no sandbox uses",
    .help =
        "What a name means is kept. Layers go with the last version, sandbox or cached step that\n"
        "uses them; the daemon removes cached steps beyond --template-cache-max by itself.\n",
    .options = gc_options,
    .options_size = sizeof(struct gc_options),
    .run = gc,
};
