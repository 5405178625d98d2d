#include "cli/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/text.h"
#include "cli/child.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/zstd.h"
#include "image/tar_index.h"

/* Unpacking and indexing a large tar takes the daemon a while after the last byte. */
#define IMPORT_TIMEOUT_MS (15 * 60 * 1000)

struct feed {
    ssize_t (*read)(void *arg, void *buf, size_t n);
    void *arg;
    struct atoll_cli_progress progress;
};

static ssize_t read_feed(void *arg, void *buf, size_t n)
{
    struct feed *feed = arg;
    ssize_t r = feed->read(feed->arg, buf, n);

    if (r > 0)
        atoll_cli_progress_add(&feed->progress, (uint64_t)r);
    return r;
}

void atoll_cli_template_print(const json_t *template)
{
    double size = atoll_link_number(template, "size_bytes", 0);
    char text[16];

    (void)fputs("template ", stdout);
    atoll_cli_put(stdout, atoll_link_text(template, "name", "?"));
    (void)printf(" is ready, %s\n",
                 atoll_text_format_size(size > 0 && size < 9e18 ? (uint64_t)size : 0, text));
}

static int put(struct atoll_cli *cli, const char *name, const struct atoll_link_target *target,
               ssize_t (*read)(void *arg, void *buf, size_t n), void *arg, struct atoll_error *err)
{
    struct feed feed = {.read = read, .arg = arg};
    struct atoll_http_transfer transfer = {.read = read_feed, .length = -1, .arg = &feed};
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    atoll_cli_set_timeout(cli, IMPORT_TIMEOUT_MS);
    atoll_cli_progress_start(&feed.progress, name, 0);
    r = atoll_cli_stream(cli, "PUT", target->text, &transfer, &reply, err);
    atoll_cli_progress_end(&feed.progress);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    atoll_cli_template_print(reply);
    return ATOLL_CLI_OK;
}

int atoll_cli_template_send(struct atoll_cli *cli, const char *name,
                            ssize_t (*read)(void *arg, void *buf, size_t n), void *arg,
                            struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/templates/%s", name);

    return r < 0 ? r : put(cli, name, &target, read, arg, err);
}

/* The same for an archive of an image. */
static int send_image(struct atoll_cli *cli, const char *name,
                      ssize_t (*read)(void *arg, void *buf, size_t n), void *arg,
                      struct atoll_error *err)
{
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/images?name=%s", name);

    return r < 0 ? r : put(cli, name, &target, read, arg, err);
}

static ssize_t read_child(void *arg, void *buf, size_t n)
{
    return atoll_cli_child_read(arg, buf, n);
}

typedef int send_fn(struct atoll_cli *cli, const char *name,
                    ssize_t (*read)(void *arg, void *buf, size_t n), void *arg,
                    struct atoll_error *err);

static int send_output(struct atoll_cli *cli, const char *name, char *const *argv, send_fn *send,
                       struct atoll_error *err)
{
    struct atoll_cli_child child;
    struct atoll_error failure;
    int r = atoll_cli_child_start(&child, argv, err), ended;

    if (r < 0)
        return r;
    atoll_cli_child_await_output(&child);
    r = send(cli, name, read_child, &child, err);
    ended = atoll_cli_child_finish(&child, &failure);
    if (ended < 0 && r < 0)
        *err = failure; /* the program's failure caused the failed request */
    return r;
}

int atoll_cli_template_send_output(struct atoll_cli *cli, const char *name, char *const *argv,
                                   struct atoll_error *err)
{
    return send_output(cli, name, argv, atoll_cli_template_send, err);
}

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "KIND", .member = "kind"},
    {.title = "TAGS", .member = "tags", .form = ATOLL_CLI_FORM_WORDS, .missing = "-"},
    {.title = "SIZE", .member = "size_bytes", .form = ATOLL_CLI_FORM_BYTES, .missing = "-"},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "DIGEST", .member = "digest", .missing = "-", .colour = ATOLL_CLI_DIM, .width = 19},
    {.title = NULL},
};

static const struct atoll_cli_collection templates = {"/api/templates", "templates", "template",
                                                      true, columns};

int atoll_cli_template_check_name(const char *name, struct atoll_error *err)
{
    struct atoll_link_target target;
    return atoll_cli_collection_target(&templates, name, &target, err);
}

static ssize_t read_fd(void *arg, void *buf, size_t n)
{
    ssize_t r;

    do
        r = read(*(int *)arg, buf, n);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static int import_directory(struct atoll_cli *cli, const char *name, char *dir,
                            struct atoll_error *err)
{
    static char tar[] = "tar", in[] = "-C", numeric[] = "--numeric-owner", make[] = "-cf",
                to[] = "-", all[] = ".";
    char *const argv[] = {tar, in, dir, numeric, make, to, all, NULL};
    return atoll_cli_template_send_output(cli, name, argv, err);
}

/* An image of the local Docker engine. */
static int import_docker(struct atoll_cli *cli, const char *name, char *image,
                         struct atoll_error *err)
{
    static char docker[] = "docker", save[] = "save";
    char *const argv[] = {docker, save, image, NULL};

    return send_output(cli, name, argv, send_image, err);
}

/* Whether the file is an archive of images, and not a root file system. */
static bool has_images(int fd)
{
    static const char *const marks[] = {"oci-layout", "manifest.json"};
    struct atoll_image_tar *tar;
    struct atoll_error err;
    uint64_t offset, size;
    bool found = false;

    if (atoll_image_tar_read(fd, &tar, &err) < 0)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(marks); i++)
        found |= atoll_image_tar_find(tar, marks[i], &offset, &size);
    (void)atoll_image_tar_free(tar);
    return found;
}

/* A compressed root file system is decompressed where it is unpacked, an archive of images here. */
static int import_zstd(struct atoll_cli *cli, const char *name, char *path, int *fd,
                       struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int plain = ATOLL_NO_FD;
    int r = atoll_cli_nameless_file(&plain, err);

    if (r == 0)
        r = atoll_cli_decompress(path, plain, err);
    if (r < 0)
        return r;
    return has_images(plain) ? send_image(cli, name, read_fd, &plain, err)
                             : atoll_cli_template_send(cli, name, read_fd, fd, err);
}

static int import(struct atoll_cli *cli, const void *options ATOLL_UNUSED, int argc ATOLL_UNUSED,
                  char **argv, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int input = STDIN_FILENO;
    struct stat st;
    int r = atoll_cli_template_check_name(argv[0], err);

    if (r < 0)
        return r;
    if (strncmp(argv[1], "docker:", 7) == 0)
        return import_docker(cli, argv[0], argv[1] + 7, err);
    if (strcmp(argv[1], "-") == 0)
        return atoll_cli_template_send(cli, argv[0], read_fd, &input, err);
    fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", argv[1],
                          strerror(errno));
    if (S_ISDIR(st.st_mode))
        return import_directory(cli, argv[0], argv[1], err);
    if (S_ISREG(st.st_mode) && has_images(fd))
        return send_image(cli, argv[0], read_fd, &fd, err);
    if (S_ISREG(st.st_mode) && atoll_cli_is_zstd(fd))
        return import_zstd(cli, argv[0], argv[1], &fd, err);
    return atoll_cli_template_send(cli, argv[0], read_fd, &fd, err);
}

const struct atoll_cli_verb atoll_cli_template_ls = {
    .name = "template ls",
    .args = "",
    .summary = "list templates: file systems to create sandboxes from",
    .help =
        "The template `host` always exists: this machine's /usr without private files, and a\n"
        "minimal /etc. Templates of kind image are builds or snapshots; a provider stores them.\n",
    .collection = &templates,
    .run = atoll_cli_collection_ls,
};

const struct atoll_cli_verb atoll_cli_template_import = {
    .name = "template import",
    .args = "NAME DIRECTORY|TARBALL|-",
    .summary = "create a template from a root file system or an image",
    .help = "A directory is packed with tar; run as root to keep file owners. A tarball may\n"
            "be plain or compressed (gzip, xz, zstd); - reads one from standard input. What\n"
            "`docker save` writes and OCI layouts (tar files) are images, with their config,\n"
            "as is what `atoll template save` writes, also to .tar.zst;\n"
            "docker:IMAGE is an image of the local Docker engine.\n"
            "\n"
            "Examples:\n"
            "  atoll template import alpine alpine-minirootfs.tar.gz\n"
            "  docker save -o app.tar app; atoll template import app app.tar\n"
            "  docker export $container | atoll template import app -\n"
            "  atoll run --template alpine -- cat /etc/os-release\n",
    .min_args = 2,
    .max_args = 2,
    .run = import,
};
