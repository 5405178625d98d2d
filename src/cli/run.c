/*
 * One WebSocket request creates the sandbox, runs the command and destroys the sandbox. If the --file
 * uploads are too large for one message, or ports are published, these are separate requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/base64.h"
#include "base/fd.h"
#include "cli/copy.h"
#include "cli/print.h"
#include "cli/publish.h"
#include "cli/request.h"
#include "cli/session.h"

#define INLINE_MAX (8u * 1024 * 1024)
#define REMOVE_IDLE_S 1 /* from the end of a detached command to the end of its sandbox */

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_sandbox_options sandbox;
    struct atoll_cli_command_options command;
    struct atoll_cli_list files;
    bool keep, remove, detach;
};

static const struct atoll_cli_option options_table[] = {
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, sandbox),
     .table = atoll_cli_sandbox_options},
    {.kind = ATOLL_CLI_TABLE,
     .offset = offsetof(struct options, command),
     .table = atoll_cli_command_options},
    {"file", 'f', ATOLL_CLI_LIST, offsetof(struct options, files), "HOST:SANDBOX",
     "upload a file or directory before the command starts", NULL},
    {"keep", 'k', ATOLL_CLI_FLAG, offsetof(struct options, keep), NULL,
     "do not destroy the sandbox when the command has ended", NULL},
    {"rm", 0, ATOLL_CLI_FLAG, offsetof(struct options, remove), NULL,
     "destroy the sandbox when the command has ended, which is the default without --detach", NULL},
    {"detach", 'd', ATOLL_CLI_FLAG, offsetof(struct options, detach), NULL,
     "start the command, print the id of the sandbox, which is kept (unless --rm), and return",
     NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* Split of HOST:SANDBOX at the last colon; without a colon the file keeps its name. */
struct file {
    char local[4096];
    const char *remote;
};

static int split_file(const char *item, struct file *ret, struct atoll_error *err)
{
    const char *colon = strrchr(item, ':');
    size_t n = colon ? (size_t)(colon - item) : strlen(item);

    if (n == 0 || n >= sizeof(ret->local))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--file %.200s: write HOST:SANDBOX", item);
    memcpy(ret->local, item, n);
    ret->local[n] = '\0';
    ret->remote = colon ? colon + 1 : "";
    return 0;
}

/* Whether all files are regular and fit into the first message. */
static int fits_inline(const struct atoll_cli_list *files, bool *ret_fits, struct atoll_error *err)
{
    uint64_t total = 0;
    bool plain = true;

    for (size_t i = 0; i < files->n; i++) {
        struct file file;
        struct stat st;
        int r = split_file(files->items[i], &file, err);
        if (r < 0)
            return r;
        if (stat(file.local, &st) < 0)
            return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno,
                              "--file %.200s: %s", file.local, strerror(errno));
        plain = plain && S_ISREG(st.st_mode);
        total += (uint64_t)st.st_size;
    }
    *ret_fits = plain && total <= INLINE_MAX;
    return 0;
}

static int read_file(const char *path, struct atoll_buf *bytes, mode_t *ret_mode,
                     struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

    while (r == 0) {
        uint8_t *tail;
        ssize_t n;
        r = atoll_buf_reserve(bytes, 64 * 1024, &tail);
        if (r < 0)
            break;
        n = read(fd, tail, 64 * 1024);
        if (n > 0)
            atoll_buf_commit(bytes, (size_t)n);
        else if (n == 0)
            break;
        else if (errno != EINTR)
            r = -errno;
    }
    if (r < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(-r), -r, "--file %.200s: %s", path,
                          strerror(-r));
    *ret_mode = st.st_mode & 0777;
    return 0;
}

/* The path in the sandbox; appends the file name if `remote` is empty or ends with "/". */
static int choose_remote(const struct file *file, char *path, size_t cap, struct atoll_error *err)
{
    size_t n = strlen(file->remote);
    char name[256] = "";

    if ((n == 0 || file->remote[n - 1] == '/') &&
        !atoll_cli_copy_basename(file->local, name, sizeof(name)))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "--file %.200s: no file name",
                          file->local);
    if ((size_t)snprintf(path, cap, "%s%s", file->remote, name) >= cap)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "--file %.200s: the path is too long", file->local);
    return 0;
}

static int append_file(json_t *array, const char *path, mode_t mode, const struct atoll_buf *bytes,
                       struct atoll_error *err)
{
    struct atoll_buf text;
    char octal[16];
    int r;

    (void)snprintf(octal, sizeof(octal), "%04o", mode);
    atoll_buf_init(&text, 2 * (size_t)INLINE_MAX);
    r = atoll_base64_encode(&text, atoll_buf_head(bytes), atoll_buf_size(bytes));
    if (r == 0)
        r = json_array_append_new(array, json_pack("{s:s, s:s, s:s}", "path", path, "mode", octal,
                                                   "data_base64", atoll_buf_str(&text)));
    atoll_buf_done(&text);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--file …:%.200s: not valid UTF-8, or no memory", path);
    return 0;
}

static int add_file(json_t *array, const char *item, struct atoll_error *err)
{
    struct file file;
    struct atoll_buf bytes;
    char path[4096];
    mode_t mode = 0;
    int r = split_file(item, &file, err);

    if (r == 0)
        r = choose_remote(&file, path, sizeof(path), err);
    if (r < 0)
        return r;
    atoll_buf_init(&bytes, INLINE_MAX + 64 * 1024);
    r = read_file(file.local, &bytes, &mode, err);
    if (r == 0)
        r = append_file(array, path, mode, &bytes, err);
    atoll_buf_done(&bytes);
    return r;
}

static int add_files(json_t *request, const struct atoll_cli_list *files, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *array = json_array();
    int r = 0;

    for (size_t i = 0; r == 0 && i < files->n; i++)
        r = add_file(array, files->items[i], err);
    if (r == 0 && files->n > 0 && json_object_set(request, "files", array) < 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the files");
    return r;
}

static int run_at_once(struct atoll_cli *cli, const struct options *o, char *const *argv,
                       struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_cli_session_plan plan = {
        .target = "/api/run",
        .request = request,
        .interactive = o->command.interactive,
        .pty = o->command.tty,
        .owns_sandbox = !o->keep,
    };
    int r = atoll_cli_add_sandbox(request, &o->sandbox, 0, err);

    if (r == 0)
        r = atoll_cli_add_command(request, &o->command, argv, err);
    if (r == 0)
        r = add_files(request, &o->files, err);
    if (r == 0 && o->keep && json_object_set_new(request, "keep", json_true()) < 0)
        r = atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "no memory for the request");
    return r < 0 ? r : atoll_cli_session_run(cli, &plan, outcome, err);
}

static int create(struct atoll_cli *cli, const struct options *o, struct atoll_cli_outcome *outcome,
                  struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    ATOLL_AUTOJSON json_t *reply = NULL;
    const char *id;
    int r = atoll_cli_add_sandbox(request, &o->sandbox, 0, err);

    if (r == 0)
        r = atoll_cli_call(cli, "POST", "/api/sandboxes", request, &reply, err);
    if (r < 0)
        return r;
    id = atoll_link_text(reply, "id", "");
    r = atoll_link_check_id("sandbox", id, err);
    if (r == 0)
        r = atoll_cli_publish(cli, id, &o->sandbox.publish, err);
    if (r == 0)
        (void)snprintf(outcome->sandbox_id, sizeof(outcome->sandbox_id), "%s", id);
    return r;
}

static int bring_files(struct atoll_cli *cli, const struct options *o, const char *sandbox,
                       struct atoll_error *err)
{
    struct atoll_cli_copy copy;
    int r = 0;

    atoll_cli_copy_init(&copy, cli, sandbox, o->command.user);
    for (size_t i = 0; r == 0 && i < o->files.n; i++) {
        struct file file;
        r = split_file(o->files.items[i], &file, err);
        if (r == 0)
            r = atoll_cli_copy_upload(&copy, file.local, file.remote, err);
    }
    if (r == 0 && json_array_size(copy.skipped) > 0)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                       "not all files could be uploaded; the command was not started");
    atoll_cli_copy_done(&copy);
    return r;
}

static int run_in(struct atoll_cli *cli, const struct options *o, char *const *argv,
                  struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_link_target target;
    struct atoll_cli_session_plan plan = {
        .target = target.text,
        .request = request,
        .interactive = o->command.interactive,
        .pty = o->command.tty,
    };
    int r = bring_files(cli, o, outcome->sandbox_id, err);

    if (r == 0)
        r = atoll_cli_add_command(request, &o->command, argv, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/stream", outcome->sandbox_id);
    return r < 0 ? r : atoll_cli_session_run(cli, &plan, outcome, err);
}

static void destroy(struct atoll_cli *cli, const char *id)
{
    struct atoll_client_error error;

    if (atoll_client_sandbox_destroy(cli->client, id, &error) < 0 &&
        error.code != ATOLL_CLIENT_NOT_FOUND)
        atoll_cli_say("sandbox %s could not be destroyed: %s", id, error.message);
}

static int run_in_steps(struct atoll_cli *cli, const struct options *o, char *const *argv,
                        struct atoll_cli_outcome *outcome, struct atoll_error *err)
{
    int r = create(cli, o, outcome, err);

    if (r < 0)
        return r;
    r = run_in(cli, o, argv, outcome, err);
    if (!o->keep || r < 0)
        destroy(cli, outcome->sandbox_id);
    return r;
}

static int print_started(struct atoll_cli *cli, const char *sandbox, const json_t *reply,
                         struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = json_pack("{s:s, s:s}", "sandbox_id", sandbox, "exec_id",
                                              atoll_link_text(reply, "exec_id", ""));

    if (cli->json)
        return atoll_cli_print_json(object, err);
    (void)printf("%s\n", sandbox);
    return ATOLL_CLI_OK;
}

static int start_in(struct atoll_cli *cli, const struct options *o, char *const *argv,
                    const char *sandbox, json_t **ret_reply, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object();
    struct atoll_link_target target;
    int r = bring_files(cli, o, sandbox, err);

    if (r == 0)
        r = atoll_cli_add_detached(request, &o->command, argv, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", sandbox);
    return r < 0 ? r : atoll_cli_call(cli, "POST", target.text, request, ret_reply, err);
}

static int run_detached(struct atoll_cli *cli, const struct options *o, char *const *argv,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_cli_outcome outcome = {.capture = false};
    struct options own = *o;
    int r;

    /* No client waits for the end of the command: the daemon destroys the sandbox when it is idle. */
    if (o->remove && own.sandbox.idle_seconds == 0)
        own.sandbox.idle_seconds = REMOVE_IDLE_S;
    r = create(cli, &own, &outcome, err);
    if (r < 0)
        return r;
    r = start_in(cli, o, argv, outcome.sandbox_id, &reply, err);
    if (r < 0) {
        destroy(cli, outcome.sandbox_id);
        return r;
    }
    return print_started(cli, outcome.sandbox_id, reply, err);
}

static int check(const struct options *o, int argc, struct atoll_error *err)
{
    if (argc == 0 && !o->sandbox.image && !o->sandbox.template)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "missing argument: COMMAND (only an image may have one of its own: --image)");
    if (o->remove && o->keep)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--rm cannot be combined with --keep, which keeps the sandbox");
    if (o->remove && o->detach && (o->sandbox.persistent || o->sandbox.on_deadline))
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
            "--detach --rm cannot be combined with --%s: an idle sandbox would be kept",
            o->sandbox.persistent ? "persistent" : "on-deadline");
    return 0;
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    struct atoll_cli_outcome outcome;
    bool fits;
    int r = check(o, argc, err);

    if (r == 0)
        r = atoll_cli_publish_check(&o->sandbox.publish, err);
    if (r == 0)
        r = fits_inline(&o->files, &fits, err);
    if (r < 0)
        return r;
    if (o->detach)
        return run_detached(cli, o, argv, err);
    atoll_cli_outcome_init(&outcome, cli->json);
    fits = fits && o->sandbox.publish.n == 0;
    r = fits ? run_at_once(cli, o, argv, &outcome, err) : run_in_steps(cli, o, argv, &outcome, err);
    if (r == 0)
        r = atoll_cli_outcome_report(&outcome, err);
    if (r >= 0 && o->keep && !cli->json && *outcome.sandbox_id)
        atoll_cli_say("sandbox %s is kept; destroy it with: atoll rm %s", outcome.sandbox_id,
                      outcome.sandbox_id);
    atoll_cli_outcome_done(&outcome);
    return r;
}

const struct atoll_cli_verb atoll_cli_run = {
    .name = "run",
    .args = "[OPTION]... [--] [COMMAND [ARG]...]",
    .summary = "run one command in a new sandbox",
    .help =
        "Creates a sandbox, runs COMMAND in it, and destroys it. Standard input (unless\n"
        "it is a terminal), output and error are connected. The first Ctrl-C is forwarded\n"
        "to the command; the second one destroys the sandbox. Without COMMAND, an image's\n"
        "own one (Entrypoint and Cmd) is run.\n"
        "\n"
        "Exit status: that of COMMAND; 128+N if signal N killed it; 124 if it timed out;\n"
        "137 if it ran out of memory; 127 if COMMAND does not exist, 126 if it cannot be\n"
        "executed; 125 if Atoll failed or some of the output is missing. The reason is on standard error. With --json the output and the\n"
        "result are one JSON object on standard output.\n"
        "\n"
        "Examples:\n"
        "  atoll run -- python3 -c 'print(6*7)'\n"
        "  echo 'console.log(6*7)' | atoll run -- node\n"
        "  atoll run --memory 1G --timeout 30 --file job.py:job.py -- python3 job.py\n"
        "  atoll run -it -- bash\n"
        "  atoll run --image python:3.12 -- python3 -V\n"
        "  id=$(atoll run -d -p 8080:8000 -- python3 -m http.server 8000)\n"
        "  id=$(atoll run -d --rm -- make test); atoll wait $id\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = -1,
    .command_arg = 1,
    .failure = ATOLL_CLI_BROKEN,
    .run = run,
};
