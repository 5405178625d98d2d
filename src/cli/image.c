/* Images of registries: pull and list. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/text.h"
#include "cli/collection.h"
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/request.h"

#define LINE_MAX_BYTES ((size_t)16 * 1024 * 1024)

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

struct pull {
    const char *image;
    bool quiet, terminal;
    const char *body; /* the rest of the request */
    struct atoll_cli_lines lines;
    json_t *made;  /* owned; set by the last line of a pull that succeeded */
    json_t *error; /* owned; set by the last line of one that failed */
};

/* One line that is written anew on a terminal. */
static void show_progress(const struct pull *p, const char *text)
{
    if (p->quiet)
        return;
    (void)fputs(p->terminal ? "\r\033[K" : "", stderr);
    atoll_cli_put(stderr, p->image);
    (void)fputs(": ", stderr);
    atoll_cli_put(stderr, text);
    (void)fputs(p->terminal ? "" : "\n", stderr);
    (void)fflush(stderr);
}

static void take_line(void *arg, const char *text, size_t n)
{
    struct pull *p = arg;
    json_t *o = atoll_link_parse_json(text, n);
    const char *progress = atoll_link_text(o, "progress", NULL);

    if (progress)
        show_progress(p, progress);
    if (json_object_get(o, "image") && !p->made)
        p->made = json_incref(json_object_get(o, "image"));
    if (json_object_get(o, "error") && !p->error)
        p->error = json_incref(o);
    json_decref(o);
}

static int conclude(struct atoll_cli *cli, const struct pull *p, struct atoll_error *err)
{
    char size[16];
    double bytes;

    if (p->error)
        return atoll_link_daemon_error(cli->client, p->error, 0, err);
    if (!p->made)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE,
                          "the daemon's answer ended early: the result of the pull is unknown");
    if (cli->json)
        return atoll_cli_print_json(p->made, err);
    bytes = atoll_link_number(p->made, "size_bytes", 0);
    if (p->quiet)
        (void)printf("sha256:");
    else
        (void)printf("image ");
    atoll_cli_put(stdout, atoll_link_text(p->made, p->quiet ? "digest" : "reference", "?"));
    if (!p->quiet)
        (void)printf(" is ready, %s",
                     atoll_text_format_size(bytes > 0 && bytes < 9e18 ? (uint64_t)bytes : 0, size));
    (void)putchar('\n');
    return ATOLL_CLI_OK;
}

static ssize_t read_body(void *arg, void *buf, size_t n)
{
    struct pull *p = arg;

    n = ATOLL_MIN(n, strlen(p->body));
    memcpy(buf, p->body, n);
    p->body += n;
    return (ssize_t)n;
}

static int take_answer(void *arg, const void *bytes, size_t n)
{
    struct pull *p = arg;

    return atoll_cli_lines_write(&p->lines, bytes, n);
}

static int send(struct atoll_cli *cli, const json_t *request, struct pull *p,
                struct atoll_error *err)
{
    ATOLL_AUTOFREE char *text = json_dumps(request, JSON_COMPACT);
    const struct atoll_http_transfer transfer = {.read = read_body,
                                                 .length = text ? (int64_t)strlen(text) : 0,
                                                 .write = take_answer,
                                                 .arg = p};
    int r;

    if (!text)
        return atoll_fail_errno(err, ENOMEM, "request");
    p->body = text;
    atoll_cli_lines_init(&p->lines, LINE_MAX_BYTES, take_line, p);
    atoll_cli_set_timeout(cli, -1); /* the daemon has the timeout */
    r = atoll_cli_stream(cli, "POST", "/api/images/pull", &transfer, NULL, err);
    atoll_cli_lines_done(&p->lines);
    explicit_bzero(text, strlen(text)); /* it may have a password */
    return r;
}

static int pull(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                struct atoll_error *err)
{
    const struct pull_options *o = options;
    ATOLL_AUTOJSON json_t *request = json_pack("{s:s}", "image", argv[0]);
    struct pull p = {
        .image = argv[0], .quiet = o->quiet || cli->json, .terminal = isatty(STDERR_FILENO) == 1};
    int r = request ? atoll_cli_add_registry(request, argv[0], o->registry_user, err)
                    : atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                                 "the name of an image must be UTF-8");

    if (r < 0)
        return r;
    r = send(cli, request, &p, err);
    if (p.terminal && !p.quiet)
        (void)fputs("\r\033[K", stderr);
    if (r >= 0)
        r = conclude(cli, &p, err);
    json_decref(p.made);
    json_decref(p.error);
    return r;
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
