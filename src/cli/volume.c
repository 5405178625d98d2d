/* Volumes: data that outlives sandboxes. */
#include <stdio.h>
#include "cli/client.h"
#include "cli/collection.h"
#include "cli/print.h"

#define MIB ((uint64_t)1024 * 1024)

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "USED", .member = "used_bytes", .form = ATOLL_CLI_FORM_BYTES, .missing = "-"},
    {.title = "SIZE", .member = "size_bytes", .form = ATOLL_CLI_FORM_BYTES, .missing = "-"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection volumes = {"/api/volumes", "volumes", "volume", true,
                                                    columns};

const struct atoll_cli_verb atoll_cli_volume_ls = {
    .name = "volume ls",
    .args = "",
    .summary = "list volumes",
    .help =
        "The first sandbox that mounts a volume (--volume), or `atoll volume create`, creates it. It\n"
        "exists until it is removed. `atoll cp` copies files into and out of it.\n",
    .collection = &volumes,
    .run = atoll_cli_collection_ls,
};

struct options {
    struct atoll_cli_common common;
    const char *provider, *from;
    uint64_t size_bytes;
};

static const struct atoll_cli_option options_table[] = {
    {"provider", 0, ATOLL_CLI_TEXT, offsetof(struct options, provider), "PROVIDER",
     "provider that keeps it (default: the one that makes templates)", NULL},
    {"from", 0, ATOLL_CLI_TEXT, offsetof(struct options, from), "VOLUME",
     "copy this volume, as it is at one moment", NULL},
    {"size", 0, ATOLL_CLI_SIZE, offsetof(struct options, size_bytes), "SIZE",
     "the most that its files may take (default: as the operator says)", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int create(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                  struct atoll_error *err)
{
    const struct options *o = options;
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:s, s:s*, s:s*}", "name", argv[0], "provider", o->provider, "from", o->from);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    if (o->size_bytes)
        (void)json_object_set_new(request, "sizeMB",
                                  json_integer((json_int_t)((o->size_bytes + MIB - 1) / MIB)));
    r = atoll_cli_call(cli, "POST", "/api/volumes", request, &reply, err);

    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", argv[0]);
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_volume_create = {
    .name = "volume create",
    .args = "[OPTION]... NAME",
    .summary = "create an empty volume, or a copy of one",
    .help =
        "Sandboxes mount it by --volume NAME:PATH, and `atoll cp FILE volume:NAME/` copies a file\n"
        "into it. --from copies a volume that has a size; what writes to it waits meanwhile.\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 1,
    .run = create,
};

const struct atoll_cli_verb atoll_cli_volume_rm = {
    .name = "volume rm",
    .args = "VOLUME...",
    .summary = "remove volumes and their contents",
    .help = "A volume that a sandbox has mounted is not removed: destroy that sandbox first.\n",
    .min_args = 1,
    .max_args = -1,
    .collection = &volumes,
    .run = atoll_cli_collection_rm,
};
