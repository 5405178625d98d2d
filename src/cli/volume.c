/* Volumes: data that outlives sandboxes. */
#include "cli/collection.h"

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection volumes = {"/api/volumes", "volumes", "volume", true,
                                                    columns};

const struct atoll_cli_verb atoll_cli_volume_ls = {
    .name = "volume ls",
    .args = "",
    .summary = "list volumes",
    .help = "The first sandbox that mounts a volume (--volume) creates it. It exists until it is\n"
            "removed.\n",
    .collection = &volumes,
    .run = atoll_cli_collection_ls,
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
