/* Snapshots and volumes: data at a provider that outlives a sandbox. */
#include <errno.h>
#include <stdio.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/template.h"

#define SNAPSHOT_TIMEOUT_MS (15 * 60 * 1000)

static int snapshot(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                    char **argv, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "name", argv[1]);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", argv[0], err);

    if (r == 0)
        r = atoll_cli_template_check_name(argv[1], err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/snapshot", argv[0]);
    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, SNAPSHOT_TIMEOUT_MS);
    r = atoll_cli_call(cli, "POST", target.text, request, &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_template_print(reply);
    return ATOLL_CLI_OK;
}

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "PROVIDER", .member = "provider"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection volumes = {"/api/volumes", "volumes", "volume", true,
                                                    columns};

const struct atoll_cli_verb atoll_cli_snapshot = {
    .name = "snapshot",
    .args = "SANDBOX NAME",
    .summary = "create a template from the disk of a sandbox",
    .help = "Needs a provider with snapshots (docker) and a disk that is not in memory: create\n"
            "the sandbox with --waive disk. Its processes are frozen during the snapshot.\n"
            "Only your tenant can use the template; `atoll template rm` removes it.\n"
            "\n"
            "Examples:\n"
            "  box=$(atoll create --provider docker --image debian:12 --waive disk)\n"
            "  atoll exec --user root $box -- apt-get install -y git\n"
            "  atoll snapshot $box with-git\n"
            "  atoll run --template with-git --waive disk -- git --version\n",
    .min_args = 2,
    .max_args = 2,
    .run = snapshot,
};

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
