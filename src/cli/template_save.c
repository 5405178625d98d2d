/* Templates out of Atoll, as images: push and save. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/save.h"
#include "cli/template.h"
#include "cli/zstd.h"

struct push_options {
    struct atoll_cli_common common;
    const char *registry_user;
    bool quiet;
};

static const struct atoll_cli_option push_options[] = {
    {"registry-user", 0, ATOLL_CLI_TEXT, offsetof(struct push_options, registry_user), "NAME",
     "user for the image registry; set ATOLL_REGISTRY_PASSWORD, too", NULL},
    {"quiet", 'q', ATOLL_CLI_FLAG, offsetof(struct push_options, quiet), NULL,
     "print only the digest of the image", NULL},
    ATOLL_CLI_COMMON(struct push_options),
    {0},
};

static int push(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    const struct push_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s, s:b}", "image", argv[1], "progress", 1),
                          *reply = NULL;
    struct atoll_link_target target;
    char size[16];
    double bytes;
    int r = request ? atoll_cli_add_registry(request, argv[1], o->registry_user, err)
                    : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                 "the name of an image must be UTF-8");

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/templates/%s/push", argv[0]);
    if (r == 0)
        r = atoll_cli_post_progress(cli, target.text, request, argv[1], o->quiet || cli->json,
                                    &reply, err);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    bytes = atoll_link_number(reply, "size_bytes", 0);
    atoll_cli_put(stdout, atoll_link_text(reply, o->quiet ? "digest" : "reference", "?"));
    if (!o->quiet) {
        (void)fputs(": pushed ", stdout);
        atoll_cli_put(stdout, atoll_link_text(reply, "digest", "?"));
        (void)printf(", %s",
                     atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, size));
    }
    (void)putchar('\n');
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_push = {
    .name = "push",
    .args = "TEMPLATE IMAGE",
    .summary = "push a template to a registry of images",
    .help =
        "TEMPLATE is NAME, NAME:TAG or NAME@sha256:DIGEST. IMAGE is a name as for Docker, with\n"
        "a tag. Registries that want a login get the one that `docker login` made.\n"
        "\n"
        "Examples:\n"
        "  atoll push app ghcr.io/me/app:1\n"
        "  atoll push docker.io/library/alpine:3.19 localhost:5000/alpine:3.19\n",
    .options = push_options,
    .options_size = sizeof(struct push_options),
    .min_args = 2,
    .max_args = 2,
    .run = push,
};

struct save_options {
    struct atoll_cli_common common;
    const char *output;
};

static const struct atoll_cli_option save_options[] = {
    {"output", 'o', ATOLL_CLI_TEXT, offsetof(struct save_options, output), "FILE",
     "file to write; - is standard output", NULL},
    ATOLL_CLI_COMMON(struct save_options),
    {0},
};

struct saving {
    struct atoll_cli *cli;
    const char *target;
    int fd;
    int error; /* of the last write, negative errno */
    uint64_t bytes;
};

static int write_archive(void *arg, const void *bytes, size_t n)
{
    struct saving *s = arg;

    s->error = atoll_fd_write_all(s->fd, bytes, n);
    s->bytes += n;
    return s->error;
}

static int fetch(void *arg, int fd, struct atoll_error *err)
{
    struct saving *s = arg;
    struct atoll_http_transfer transfer = {.length = -1, .write = write_archive, .arg = s};
    int r;

    s->fd = fd;
    r = atoll_cli_stream(s->cli, "GET", s->target, &transfer, NULL, err);
    return s->error < 0 ? atoll_fail_errno(err, -s->error, "writing") : r;
}

static int fetch_compressed(void *arg, int fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int plain = ATOLL_NO_FD;
    struct saving *s = arg;
    struct stat st;
    int r = atoll_cli_nameless_file(&plain, err);

    if (r == 0)
        r = fetch(s, plain, err);
    if (r == 0)
        r = atoll_cli_compress(plain, fd, err);
    if (r == 0 && fstat(fd, &st) == 0)
        s->bytes = (uint64_t)st.st_size;
    return r;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n > k && strcmp(text + n - k, end) == 0;
}

static int save(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    const struct save_options *o = options;
    struct atoll_link_target target;
    struct saving s = {.cli = cli, .target = target.text};
    char size[16];
    int r = atoll_link_target(&target, err, "/api/templates/%s/archive", argv[0]);

    if (r == 0 && (!o->output || (strcmp(o->output, "-") == 0 && isatty(STDOUT_FILENO) == 1)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "-o FILE is missing: an archive is not written to a terminal");
    atoll_cli_set_timeout(cli, -1);
    if (r == 0 && strcmp(o->output, "-") == 0)
        return fetch(&s, STDOUT_FILENO, err);
    if (r == 0)
        r = atoll_cli_save_file(AT_FDCWD, o->output, 0644,
                                ends_with(o->output, ".zst") ? fetch_compressed : fetch, &s, err);
    if (r < 0)
        return r;
    if (cli->json) {
        ATOLL_AUTOJSON json_t *made =
            json_pack("{s:s, s:I}", "file", o->output, "bytes", (json_int_t)s.bytes);
        return atoll_cli_print_json(made, err);
    }
    atoll_cli_put(stdout, o->output);
    (void)printf(": %s\n", atoll_text_format_size(s.bytes, size));
    return ATOLL_CLI_OK;
}

const struct atoll_cli_verb atoll_cli_template_save = {
    .name = "template save",
    .args = "TEMPLATE",
    .summary = "write a template to an archive that other tools read",
    .help = "The archive is an OCI layout that also has what `docker load` wants. podman, skopeo\n"
            "(oci-archive:FILE) and `atoll template import` read it too.\n"
            "\n"
            "Examples:\n"
            "  atoll template save app:1 -o app.tar\n"
            "  atoll template save app:1 -o app.tar.zst     compressed with the program zstd\n"
            "  atoll template save app -o - | docker load\n",
    .options = save_options,
    .options_size = sizeof(struct save_options),
    .min_args = 1,
    .max_args = 1,
    .run = save,
};
