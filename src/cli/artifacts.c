/*
 * Artifacts: files that the daemon kept when a sandbox ended. Untrusted code chose their names, so a
 * name only selects what to fetch; the local path to write is the user's choice.
 */
#include "cli/artifacts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/collection.h"
#include "cli/copy.h"
#include "net/url.h"

static void add_complete(struct atoll_cli_table *table, const json_t *set)
{
    bool complete = json_is_true(json_object_get(set, "complete"));

    atoll_cli_table_add(table, complete ? ATOLL_CLI_PLAIN : ATOLL_CLI_YELLOW, "%s",
                        complete ? "yes" : atoll_link_text(set, "reason", "no"));
}

static const struct atoll_cli_column set_columns[] = {
    {.title = "SANDBOX", .member = "sandbox_id"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "FILES", .member = "count", .form = ATOLL_CLI_FORM_NUMBER},
    {.title = "SIZE", .member = "size", .form = ATOLL_CLI_FORM_BYTES},
    {.title = "COMPLETE", .add = add_complete},
    {.title = NULL},
};

static const struct atoll_cli_column file_columns[] = {
    {.title = "PATH", .member = "path"},
    {.title = "SIZE", .member = "size", .form = ATOLL_CLI_FORM_BYTES},
    {.title = "TYPE", .member = "mime", .missing = ""},
    {.title = NULL},
};

static const struct atoll_cli_collection sets = {"/api/artifacts", "artifacts", "sandbox", false,
                                                 set_columns};

static int list(struct atoll_cli *cli, const void *options, int argc, char **argv,
                struct atoll_error *err)
{
    struct atoll_link_target target;
    int r;

    if (argc == 0)
        return atoll_cli_collection_ls(cli, options, argc, argv, err);
    r = atoll_cli_collection_target(&sets, argv[0], &target, err);
    return r < 0 ? r : atoll_cli_list(cli, target.text, "files", file_columns, err);
}

/* Percent-encodes each segment of the path but not the slashes: the route takes several segments. */
static int file_target(const char *id, const char *path, struct atoll_link_target *ret,
                       struct atoll_error *err)
{
    struct atoll_buf text;
    int r = atoll_cli_collection_target(&sets, id, ret, err);

    if (r < 0)
        return r;
    atoll_buf_init(&text, sizeof(ret->text) - 1);
    r = atoll_buf_appendf(&text, "%s/", ret->text);
    if (r == 0)
        r = atoll_url_encode(&text, path, true);
    if (r == 0)
        r = atoll_text_copy(ret->text, sizeof(ret->text), atoll_buf_str(&text));
    atoll_buf_done(&text);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "the path is too long") : 0;
}

struct sink {
    int fd;
    uint64_t bytes;
    int error; /* negative errno */
};

static int write_sink(void *arg, const void *bytes, size_t n)
{
    struct sink *sink = arg;

    sink->error = atoll_fd_write_all(sink->fd, bytes, n);
    sink->bytes += n;
    return sink->error;
}

static int fetch(struct atoll_cli *cli, const char *target, struct sink *sink,
                 struct atoll_error *err)
{
    struct atoll_http_transfer transfer = {.length = -1, .write = write_sink, .arg = sink};
    int r = atoll_cli_stream(cli, "GET", target, &transfer, NULL, err);

    if (sink->error < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, -sink->error, "writing: %s",
                          strerror(-sink->error));
    return r;
}

int atoll_cli_artifact_fetch(struct atoll_cli *cli, const char *sandbox, const char *path, int fd,
                             struct atoll_error *err)
{
    struct sink sink = {.fd = fd};
    struct atoll_link_target target;
    int r = file_target(sandbox, path, &target, err);

    return r < 0 ? r : fetch(cli, target.text, &sink, err);
}

/* Creates a new file; fails if the name exists, and follows no link. */
static int fetch_into(struct atoll_cli *cli, const char *target, const char *local,
                      struct sink *sink, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(local, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int r;

    if (fd < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", local,
                          strerror(errno));
    sink->fd = fd;
    r = fetch(cli, target, sink, err);
    if (r < 0)
        (void)unlink(local);
    return r;
}

static int get(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc, char **argv,
               struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = NULL;
    struct sink sink = {.fd = STDOUT_FILENO};
    struct atoll_link_target target;
    char name[256];
    const char *local = argc > 2 ? argv[2] : atoll_cli_copy_basename(argv[1], name, sizeof(name));
    int r = file_target(argv[0], argv[1], &target, err);

    if (r < 0)
        return r;
    if (!local)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "name the local file to write");
    if (cli->json && strcmp(local, "-") == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--json and the file cannot both go to standard output");
    r = strcmp(local, "-") == 0 ? fetch(cli, target.text, &sink, err)
                                : fetch_into(cli, target.text, local, &sink, err);
    if (r < 0 || !cli->json)
        return r;
    object = json_pack("{s:s, s:I}", "file", local, "bytes", (json_int_t)sink.bytes);
    return atoll_cli_print_json(object, err);
}

const struct atoll_cli_verb atoll_cli_artifacts_ls = {
    .name = "artifacts ls",
    .args = "[ENDED-SANDBOX]",
    .summary = "list the files kept from sandboxes that have ended",
    .help = "When a sandbox created with --artifact ends, the daemon keeps the files that\n"
            "match the pattern.\n"
            "\n"
            "Examples:\n"
            "  id=$(atoll create --artifact 'out/*.png')\n"
            "  atoll artifacts ls          sandboxes that have kept files\n"
            "  atoll artifacts ls $id      kept files of one sandbox\n",
    .max_args = 1,
    .collection = &sets,
    .run = list,
};

const struct atoll_cli_verb atoll_cli_artifacts_get = {
    .name = "artifacts get",
    .args = "ENDED-SANDBOX PATH [FILE]",
    .summary = "download a kept file",
    .help = "Writes to FILE, which must not exist yet. Default: the same name in the current\n"
            "directory; - is standard output.\n",
    .min_args = 2,
    .max_args = 3,
    .run = get,
};

const struct atoll_cli_verb atoll_cli_artifacts_rm = {
    .name = "artifacts rm",
    .args = "ENDED-SANDBOX...",
    .summary = "remove the kept files of sandboxes",
    .help = "",
    .min_args = 1,
    .max_args = -1,
    .collection = &sets,
    .run = atoll_cli_collection_rm,
};
