/* Secrets of the tenant. A value comes from standard input or a file, never from an argument: other
 * users of the host can see those. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include "base/buf.h"
#include "cli/client.h"
#include "cli/collection.h"
#include "cli/print.h"

#define VALUE_MAX ((size_t)64 * 1024)

struct create_options {
    struct atoll_cli_common common;
    const char *from_file;
    bool replace;
};

static const struct atoll_cli_option create_options[] = {
    {"from-file", 'f', ATOLL_CLI_TEXT, offsetof(struct create_options, from_file), "FILE",
     "read the value from a file (default: from standard input)", NULL},
    {"replace", 0, ATOLL_CLI_FLAG, offsetof(struct create_options, replace), NULL,
     "give an existing secret a new value", NULL},
    ATOLL_CLI_COMMON(struct create_options),
    {0},
};

/* Reads to the end, or to the end of the line. -EFBIG beyond VALUE_MAX and its line end. */
static int read_value(int fd, bool one_line, struct atoll_buf *out)
{
    uint8_t *tail;
    ssize_t n;
    int r = atoll_buf_reserve(out, VALUE_MAX + 3, &tail);

    while (r == 0 && atoll_buf_size(out) < VALUE_MAX + 3) {
        n = read(fd, out->data + out->len, VALUE_MAX + 3 - atoll_buf_size(out));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return 0;
        if (n > 0)
            atoll_buf_commit(out, (size_t)n);
        if (n > 0 && one_line && out->data[out->len - 1] == '\n')
            return 0;
    }
    return r < 0 ? r : -EFBIG;
}

/* A line from the terminal, which does not show it. */
static int ask(const char *name, struct atoll_buf *out)
{
    struct termios before, silent;
    int r;

    if (tcgetattr(STDIN_FILENO, &before) < 0)
        return -errno;
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    fprintf(stderr, "Value of %s (not shown): ", name);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    r = read_value(STDIN_FILENO, true, out);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    fputc('\n', stderr);
    return r;
}

/* Takes the line end away that editors and echo add. */
static void cut_line_end(struct atoll_buf *value)
{
    if (atoll_buf_size(value) > 0 && value->data[value->len - 1] == '\n')
        value->len--;
    if (atoll_buf_size(value) > 0 && value->data[value->len - 1] == '\r')
        value->len--;
}

static int take_value(const struct create_options *o, const char *name, struct atoll_buf *out,
                      struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    if (o->from_file) {
        fd = open(o->from_file, O_RDONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : read_value(fd, false, out);
    } else {
        r = isatty(STDIN_FILENO) ? ask(name, out) : read_value(STDIN_FILENO, false, out);
    }
    cut_line_end(out);
    if (r == -EFBIG || atoll_buf_size(out) > VALUE_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EFBIG,
                          "the value of a secret has at most %zu KiB", VALUE_MAX / 1024);
    if (r < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "%s: %s",
                          o->from_file ? o->from_file : "standard input", strerror(-r));
    if (atoll_buf_size(out) == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "the value is empty: write it to standard input, or use --from-file");
    return 0;
}

static int send_value(struct atoll_cli *cli, const char *name, const struct atoll_buf *value,
                      bool replace, json_t **ret_reply, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:s, s:s%, s:b}", "name", name, "value", (const char *)atoll_buf_head(value),
                  atoll_buf_size(value), "replace", replace ? 1 : 0);

    if (!request)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a secret and its name are valid UTF-8 text");
    return atoll_cli_call(cli, "POST", "/api/secrets", request, ret_reply, err);
}

static int create(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
                  struct atoll_error *err)
{
    const struct create_options *o = options;
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_buf value;
    int r;

    atoll_buf_init(&value, VALUE_MAX + 4);
    r = take_value(o, argv[0], &value, err);
    if (r == 0)
        r = send_value(cli, argv[0], &value, o->replace, &reply, err);
    atoll_buf_wipe(&value);
    if (r < 0)
        return r;
    if (cli->json)
        return atoll_cli_print_json(reply, err);
    (void)printf("%s\n", atoll_link_text(reply, "name", ""));
    return ATOLL_CLI_OK;
}

static const struct atoll_cli_column columns[] = {
    {.title = "NAME", .member = "name"},
    {.title = "VERSION", .member = "version", .form = ATOLL_CLI_FORM_NUMBER},
    {.title = "AGE", .member = "created_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = "UPDATED", .member = "updated_at", .form = ATOLL_CLI_FORM_AGE},
    {.title = NULL},
};

static const struct atoll_cli_collection secrets = {"/api/secrets", "secrets", "secret", true,
                                                    columns};

const struct atoll_cli_verb atoll_cli_secret_create = {
    .name = "secret create",
    .args = "[OPTION]... NAME",
    .summary = "store a secret; its value is read from standard input",
    .help = "Sandboxes never see the value: it is put into the headers of their requests outside,\n"
            "where the network policy of the sandbox has ${secret.NAME}. The daemon keeps it\n"
            "encrypted and does not show it again. A line end at the end of the value is dropped.\n"
            "\n"
            "Examples:\n"
            "  atoll secret create openai            asks for the value\n"
            "  pass show openai | atoll secret create openai --replace\n"
            "  atoll secret create github --from-file token.txt\n",
    .options = create_options,
    .options_size = sizeof(struct create_options),
    .min_args = 1,
    .max_args = 1,
    .run = create,
};

const struct atoll_cli_verb atoll_cli_secret_ls = {
    .name = "secret ls",
    .args = "",
    .summary = "list secrets (names, not the values)",
    .help = "",
    .collection = &secrets,
    .run = atoll_cli_collection_ls,
};

const struct atoll_cli_verb atoll_cli_secret_rm = {
    .name = "secret rm",
    .args = "SECRET...",
    .summary = "remove secrets",
    .help = "Requests of sandboxes whose headers need the secret fail from now on.\n",
    .min_args = 1,
    .max_args = -1,
    .collection = &secrets,
    .run = atoll_cli_collection_rm,
};
