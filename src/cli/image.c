/* Images of registries: pull and list. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/progress.h"

struct pull_options {
    struct atoll_cli_common common;
    const char *registry_user;
    bool quiet;
};

static const struct atoll_cli_option pull_options[] = {
    {"registry-user", 0, ATOLL_CLI_TEXT, offsetof(struct pull_options, registry_user), "NAME",
     "user for the image registry; set ATOLL_REGISTRY_PASSWORD, too", NULL},
    {"quiet", 'q', ATOLL_CLI_FLAG, offsetof(struct pull_options, quiet), NULL,
     "print only the digest of the image", NULL},
    ATOLL_CLI_COMMON(struct pull_options),
    {0},
};

static int print_pulled(struct atoll_cli *cli, const json_t *made, bool quiet,
                        struct atoll_error *err)
{
    double bytes = atoll_link_number(made, "size_bytes", 0);
    char size[16];

    if (cli->json)
        return atoll_cli_print_json(made, err);
    if (quiet)
        (void)printf("sha256:");
    else
        (void)printf("image ");
    atoll_cli_put(stdout, atoll_link_text(made, quiet ? "digest" : "reference", "?"));
    if (!quiet)
        (void)printf(" is ready, %s",
                     atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, size));
    (void)putchar('\n');
    return ATOLL_CLI_OK;
}

static int pull(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    const struct pull_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "image", argv[0]), *reply = NULL;
    int r = request ? atoll_cli_add_registry(request, argv[0], o->registry_user, err)
                    : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                 "the name of an image must be UTF-8");

    if (r == 0)
        r = atoll_cli_post_progress(cli, "/api/images/pull", request, argv[0],
                                    o->quiet || cli->json, &reply, err);
    return r < 0 ? r : print_pulled(cli, json_object_get(reply, "image"), o->quiet, err);
}

const struct atoll_cli_verb atoll_cli_pull = {
    .name = "pull",
    .args = "IMAGE",
    .summary = "get an image from its registry",
    .help = "Names are as for Docker: `debian:12` is docker.io/library/debian:12. Registries that\n"
            "want a login get the one that `docker login` made. `atoll run --image` pulls a\n"
            "missing image itself; this command also gets a newer one with the same name.\n"
            "\n"
            "Examples:\n"
            "  atoll pull python:3.12\n"
            "  atoll run --image python:3.12 -- python3 -V\n"
            "  atoll pull ghcr.io/org/app@sha256:…\n",
    .options = pull_options,
    .options_size = sizeof(struct pull_options),
    .min_args = 1,
    .max_args = 1,
    .run = pull,
};

static const struct atoll_cli_column columns[] = {
    {.title = "IMAGE", .member = "name"},
    {.title = "TAGS", .member = "tags", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = "SIZE", .member = "size_bytes", .form = ATOLL_CLI_FORM_BYTES, .missing = "-"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "DIGEST", .member = "digest", .missing = "-", .colour = ATOLL_CLI_DIM, .width = 19},
    {.title = NULL},
};

static int images(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                  char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    return atoll_cli_list(cli, "/api/images", "images", columns, err);
}

const struct atoll_cli_verb atoll_cli_images = {
    .name = "images",
    .args = "",
    .summary = "list images that were pulled",
    .help = "They are templates with the name of the image; `atoll template rm` removes them.\n",
    .run = images,
};
