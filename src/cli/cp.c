#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/copy.h"
#include "cli/print.h"

struct options {
    struct atoll_cli_common common;
    const char *user;
    bool recursive;
};

static const struct atoll_cli_option options_table[] = {
    {"user", 'u', ATOLL_CLI_TEXT, offsetof(struct options, user), "NAME",
     "user in the sandbox whose permissions apply (default: user)", NULL},
    {"recursive", 'r', ATOLL_CLI_FLAG, offsetof(struct options, recursive), NULL,
     "no effect: directories are always copied whole", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int report(struct atoll_cli *cli, const struct atoll_cli_copy *copy, struct atoll_error *err)
{
    size_t skipped = json_array_size(copy->skipped);
    int r = 0;

    if (cli->json) {
        ATOLL_AUTOJSON json_t *object =
            json_pack("{s:I, s:I, s:I, s:I, s:O}", "files", (json_int_t)copy->files, "directories",
                      (json_int_t)copy->directories, "links", (json_int_t)copy->links, "bytes",
                      (json_int_t)copy->bytes, "skipped", copy->skipped);
        r = atoll_cli_print_json(object, err);
    } else if (skipped > 0) {
        atoll_cli_say("the copy is not complete: %zu skipped, %llu files copied", skipped,
                      (unsigned long long)copy->files);
    }
    return r < 0 ? r : skipped > 0 ? ATOLL_CLI_FAILED : ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_side from = atoll_cli_side_parse(argv[0]), to = atoll_cli_side_parse(argv[1]);
    const char *sandbox = from.remote ? from.sandbox : to.sandbox;
    struct atoll_cli_copy copy;
    int r;

    if (from.remote == to.remote)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          from.remote ? "one side must be local; copy to this machine first"
                                      : "one side must be SANDBOX:PATH or volume:NAME/PATH");
    if (to.remote && strcmp(to.path, "-") == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name a path in the sandbox");
    if (cli->json && strcmp(to.path, "-") == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--json and the file cannot both go to standard output");
    atoll_cli_copy_init(&copy, cli, sandbox, o->user);
    copy.is_volume = from.is_volume || to.is_volume;
    r = from.remote ? atoll_cli_copy_download(&copy, from.path, to.path, err)
                    : atoll_cli_copy_upload(&copy, from.path, to.path, err);
    if (r == 0)
        r = report(cli, &copy, err);
    atoll_cli_copy_done(&copy);
    return r;
}

const struct atoll_cli_verb atoll_cli_cp = {
    .name = "cp",
    .args = "[OPTION]... SRC DST",
    .summary = "copy files and directories into or out of a sandbox or a volume",
    .help =
        "One of SRC and DST is SANDBOX:PATH; a relative PATH starts in the user's home. Or it is\n"
        "volume:NAME/PATH, a path in a volume; no sandbox need run.\n"
        "Copies whole directories, keeps modes and symbolic links, and takes - as standard input or\n"
        "output. A local name with a colon is written ./like:this.\n"
        "\n"
        "Files in a sandbox are untrusted. A copy out of a sandbox writes nothing outside\n"
        "DST: names and links that lead elsewhere are skipped and reported, and the exit\n"
        "status is then 1.\n"
        "\n"
        "Examples:\n"
        "  atoll cp data.csv $id:               into the home directory\n"
        "  atoll cp src $id:/data/              a directory, as /data/src\n"
        "  atoll cp $id:/data/out .             out of the sandbox\n"
        "  atoll cp model.bin volume:data/      into a volume\n"
        "  tar c src | atoll cp - $id:src.tar   from standard input\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
