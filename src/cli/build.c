/*
 * `atoll build`: packs the files of DIR into an archive, sends it unless the daemon has it already, starts
 * the build, and shows its log. The archive is named by its digest, so that an unchanged folder is not sent
 * again.
 */
#include "cli/build.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fd.h"
#include "cli/build_print.h"
#include "cli/child.h"
#include "cli/lines.h"
#include "cli/print.h"
#include "cli/session.h"
#include "cli/template.h"
#include "cli/terminal.h"

#define TEXT_MAX ((size_t)1024 * 1024)
#define LINE_MAX_BYTES ((size_t)1024 * 1024)
#define DIGEST_LEN 64

struct options {
    struct atoll_cli_common common;
    struct atoll_cli_build build;
};

#define AT(member) offsetof(struct options, build.member)
static const struct atoll_cli_option options_table[] = {
    {"tag", 't', ATOLL_CLI_TEXT, AT(tag), "NAME[:TAG]",
     "name of the template (default: none is made)", NULL},
    {"file", 'f', ATOLL_CLI_TEXT, AT(file), "PATH",
     "the Dockerfile; - for standard input (default: DIR/Dockerfile)", NULL},
    {"target", 0, ATOLL_CLI_TEXT, AT(target), "STAGE", "stage to build (default: the last one)",
     NULL},
    {"build-arg", 0, ATOLL_CLI_LIST, AT(args), "NAME[=VALUE]",
     "value of an ARG; without a value, that of our environment", NULL},
    {"secret", 0, ATOLL_CLI_LIST, AT(secrets), "id=ID[,src=FILE|env=NAME]",
     "secret for RUN --mount=type=secret", NULL},
    {"network", 0, ATOLL_CLI_TEXT, AT(network), "MODE",
     "network of the steps: none (default) or bridge", NULL},
    {"memory", 'm', ATOLL_CLI_SIZE, AT(memory_bytes), "SIZE",
     "memory limit of each step (default: 2G)", NULL},
    {"timeout", 0, ATOLL_CLI_TIME, AT(timeout_seconds), "TIME",
     "time limit of each step (default: 1h)", NULL},
    {"start", 0, ATOLL_CLI_TEXT, AT(start), "COMMAND",
     "command that is started in each sandbox of the template", NULL},
    {"ready", 0, ATOLL_CLI_TEXT, AT(ready), "COMMAND",
     "command that succeeds when a sandbox of the template is ready", NULL},
    {"no-cache", 0, ATOLL_CLI_FLAG, AT(no_cache), NULL, "run every step", NULL},
    {"debug", 0, ATOLL_CLI_FLAG, AT(debug), NULL,
     "if a step fails, start a shell in the state before it", NULL},
    {"quiet", 'q', ATOLL_CLI_FLAG, AT(quiet), NULL, "do not show the output of the build", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};
#undef AT

static int fail_path(const char *path, int errnum, struct atoll_error *err)
{
    return atoll_fail(err, atoll_error_kind_of_path_errno(errnum), errnum, "%.200s: %s", path,
                      strerror(errnum));
}

/* --- inputs --- */

static int read_all(int fd, struct atoll_buf *out)
{
    uint8_t *tail;
    ssize_t n;
    int r;

    do {
        r = atoll_buf_reserve(out, 65536, &tail);
        if (r < 0)
            return r;
        n = read(fd, tail, 65536);
        if (n > 0)
            atoll_buf_commit(out, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

int atoll_cli_build_read(const char *path, struct atoll_buf *out, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    if (strcmp(path, "-") == 0) {
        r = read_all(STDIN_FILENO, out);
    } else {
        fd = open(path, O_RDONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : read_all(fd, out);
    }
    return r < 0 ? fail_path(path, -r, err) : 0;
}

static int add_args(json_t *request, const struct atoll_cli_list *list, struct atoll_error *err)
{
    json_t *args = json_object();

    (void)json_object_set_new(request, "args", args);
    for (size_t i = 0; i < list->n; i++) {
        const char *equals = strchr(list->items[i], '=');
        ATOLL_AUTOFREE char *name = equals
                                        ? strndup(list->items[i], (size_t)(equals - list->items[i]))
                                        : strdup(list->items[i]);
        const char *value = equals ? equals + 1 : name ? getenv(name) : NULL;
        if (!name || !*name)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--build-arg must be NAME or NAME=VALUE (got \"%.100s\")",
                              list->items[i]);
        if (value && json_object_set_new(args, name, json_string(value)) < 0)
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                              "--build-arg %.64s is not valid UTF-8", name);
    }
    return 0;
}

/* The value of KEY= in "KEY=VALUE,KEY=VALUE"; owned by the caller. */
static char *part_of(const char *text, const char *key)
{
    const size_t n = strlen(key);

    for (; *text; text += *text == ',') {
        size_t len = strcspn(text, ",");
        if (len > n && strncmp(text, key, n) == 0 && text[n] == '=')
            return strndup(text + n + 1, len - n - 1);
        text += len;
    }
    return NULL;
}

static int add_secret(json_t *secrets, const char *text, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *id = part_of(text, "id"), *source = part_of(text, "src"),
                        *variable = part_of(text, "env");
    const char *value = id ? getenv(variable ? variable : id) : NULL;
    struct atoll_buf bytes;
    int r = 0;

    if (!id)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "--secret must be id=ID,src=FILE or id=ID,env=NAME (got \"%.100s\")",
                          text);
    atoll_buf_init(&bytes, TEXT_MAX);
    if (source)
        r = atoll_cli_build_read(source, &bytes, err);
    else if (!value)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT,
                       "secret %.64s: there is no variable %.64s", id, variable ? variable : id);
    else
        r = atoll_buf_appends(&bytes, value);
    if (r == 0 && json_object_set_new(secrets, id,
                                      json_stringn((const char *)atoll_buf_head(&bytes),
                                                   atoll_buf_size(&bytes))) < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EILSEQ, "secret %.64s is not UTF-8 text",
                       id);
    atoll_buf_wipe(&bytes);
    return r;
}

/* --- context --- */

static int pack(char *dir, int list_fd, int out_fd, struct atoll_error *err)
{
    static char tar[] = "tar", in[] = "-C", nul[] = "--null", plain[] = "--no-recursion",
                verbatim[] = "--verbatim-files-from", root[] = "--owner=0", group[] = "--group=0",
                make[] = "-cf", to[] = "-";
    char from[32];
    char *argv[] = {tar, in, dir, nul, plain, verbatim, root, group, from, make, to, NULL};
    pid_t pid;
    int r, status = 0;

    (void)snprintf(from, sizeof(from), "-T/dev/fd/%d", list_fd);
    r = atoll_cli_spawn(argv, out_fd, false, &pid);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, -r, "tar: %s", strerror(-r));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0
               ? 0
               : atoll_fail(err, ATOLL_ERR_UNKNOWN, EIO, "tar failed: see its message above");
}

static int digest_of(int fd, char out[DIGEST_LEN + 1], struct atoll_error *err)
{
    static char program[] = "sha256sum";
    char path[32], *argv[] = {program, path, NULL};
    struct atoll_cli_child child;
    size_t got = 0;
    ssize_t n = 0;
    int r;

    (void)snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    r = atoll_cli_child_start(&child, argv, err);
    if (r < 0)
        return r;
    while (got < DIGEST_LEN && (n = atoll_cli_child_read(&child, out + got, DIGEST_LEN - got)) > 0)
        got += (size_t)n;
    out[got] = '\0';
    (void)!atoll_cli_child_finish(&child, err);
    if (got < DIGEST_LEN)
        return atoll_fail(err, ATOLL_ERR_UNKNOWN, EIO, "sha256sum failed");
    return 0;
}

struct upload {
    int fd;
    struct atoll_cli_progress progress;
};

static ssize_t read_archive(void *arg, void *buf, size_t n)
{
    struct upload *u = arg;
    ssize_t r = read(u->fd, buf, n);

    if (r > 0)
        atoll_cli_progress_add(&u->progress, (uint64_t)r);
    return r < 0 ? -errno : r;
}

static int send_archive(struct atoll_cli *cli, int fd, const char *target, struct atoll_error *err)
{
    struct upload u = {.fd = fd};
    struct stat st;
    struct atoll_http_transfer transfer = {.read = read_archive, .length = -1, .arg = &u};
    int r;

    if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return atoll_fail_errno(err, errno, "archive");
    transfer.length = st.st_size;
    atoll_cli_progress_start(&u.progress, "files", (uint64_t)st.st_size);
    r = atoll_cli_stream(cli, "PUT", target, &transfer, NULL, err);
    atoll_cli_progress_end(&u.progress);
    return r;
}

/* Makes the context of DIR known to the daemon. */
static int send_context(struct atoll_cli *cli, char *dir, const char *dockerfile,
                        char digest[DIGEST_LEN + 1], struct atoll_error *err)
{
    const char *temporary = getenv("TMPDIR");
    ATOLL_AUTOCLOSE int list_fd = ATOLL_NO_FD, fd = ATOLL_NO_FD;
    struct atoll_link_target target;
    int r = atoll_cli_list_context(dir, dockerfile, &list_fd, err);

    if (r < 0)
        return r;
    fd = open(temporary ? temporary : "/tmp", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0)
        return fail_path(temporary ? temporary : "/tmp", errno, err);
    r = pack(dir, list_fd, fd, err);
    if (r == 0)
        r = digest_of(fd, digest, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/builds/contexts/%s", digest);
    if (r < 0)
        return r;
    r = atoll_cli_call(cli, "GET", target.text, NULL, NULL, err);
    return r < 0 && err->kind == ATOLL_ERR_NOT_FOUND ? send_archive(cli, fd, target.text, err) : r;
}

/* --- the build --- */

static int add_tag(json_t *request, const char *tag, struct atoll_error *err)
{
    const char *colon = strchr(tag, ':');
    ATOLL_AUTOFREE char *name = colon ? strndup(tag, (size_t)(colon - tag)) : strdup(tag);

    if (!name)
        abort();
    if (atoll_cli_template_check_name(name, err) < 0)
        return -EINVAL;
    (void)json_object_set_new(request, "name", json_string(name));
    if (colon)
        (void)json_object_set_new(request, "tags", json_pack("[s]", colon + 1));
    return 0;
}

static void add_text(json_t *request, const char *name, const char *text)
{
    if (text)
        (void)json_object_set_new(request, name, json_string(text));
}

static int compose(const struct atoll_cli_build *o, const char *dockerfile, json_t *request,
                   struct atoll_error *err)
{
    json_t *secrets = json_object();
    struct atoll_buf text;
    int r;

    (void)json_object_set_new(request, "secrets", secrets);
    atoll_buf_init(&text, TEXT_MAX);
    r = atoll_cli_build_read(dockerfile, &text, err);
    if (r == 0)
        (void)json_object_set_new(
            request, "dockerfile",
            json_stringn((const char *)atoll_buf_head(&text), atoll_buf_size(&text)));
    atoll_buf_done(&text);
    add_text(request, "target", o->target);
    add_text(request, "networkMode", o->network);
    add_text(request, "startCommand", o->start);
    add_text(request, "readyCommand", o->ready);
    if (o->memory_bytes)
        (void)json_object_set_new(request, "memoryMB",
                                  json_integer((json_int_t)((o->memory_bytes + 1048575) >> 20)));
    if (o->sandbox_cpus)
        (void)json_object_set_new(request, "sandboxCpuCores",
                                  json_integer((json_int_t)o->sandbox_cpus));
    if (o->sandbox_memory_mb)
        (void)json_object_set_new(request, "sandboxMemoryMB",
                                  json_integer((json_int_t)o->sandbox_memory_mb));
    if (o->timeout_seconds > 0)
        (void)json_object_set_new(request, "timeoutSeconds", json_real(o->timeout_seconds));
    if (o->no_cache)
        (void)json_object_set_new(request, "noCache", json_true());
    if (o->debug)
        (void)json_object_set_new(request, "debug", json_true());
    if (r == 0 && o->tag)
        r = add_tag(request, o->tag, err);
    if (r == 0)
        r = add_args(request, &o->args, err);
    for (size_t i = 0; r == 0 && i < o->secrets.n; i++)
        r = add_secret(secrets, o->secrets.items[i], err);
    return r;
}

static int follow(struct atoll_cli *cli, const char *id, bool quiet, struct atoll_error *err)
{
    struct atoll_cli_build_print print = {.quiet = quiet};
    struct atoll_http_transfer transfer = {.length = -1, .write = atoll_cli_lines_write};
    struct atoll_cli_lines lines;
    struct atoll_link_target target;
    int r = atoll_link_target(&target, err, "/api/builds/%s/log?follow=true", id);

    if (r < 0)
        return r;
    atoll_cli_set_timeout(cli, -1); /* a step may be silent for long; the daemon has the timeout */
    atoll_cli_lines_init(&lines, LINE_MAX_BYTES, atoll_cli_build_print_line, &print);
    transfer.arg = &lines;
    r = atoll_cli_stream(cli, "GET", target.text, &transfer, NULL, err);
    atoll_cli_build_print_end(&print);
    atoll_cli_lines_done(&lines);
    return r;
}

/* A shell in the state before the step that failed; the template for it is removed afterwards. */
static int debug(struct atoll_cli *cli, const char *template, struct atoll_error *err)
{
    static char sh[] = "/bin/sh";
    char *const command[] = {sh, NULL};
    const struct atoll_cli_command_options as = {.user = "root"};
    ATOLL_AUTOJSON json_t *request = json_object(), *made = NULL, *create = NULL;
    struct atoll_link_target target;
    struct atoll_error ignored;
    const char *id;
    int r;

    create = json_pack("{s:s}", "template", template);
    r = atoll_cli_call(cli, "POST", "/api/sandboxes", create, &made, err);
    id = atoll_link_text(made, "id", NULL);
    if (r == 0 && id) {
        atoll_cli_say("a shell in the state before the step that failed; exit ends it");
        r = atoll_cli_add_command(request, &as, command, err);
        if (r == 0)
            r = atoll_cli_session_attach(cli, id, request, true, atoll_cli_terminal_is_ours(), err);
        if (atoll_link_target(&target, &ignored, "/api/sandboxes/%s", id) == 0)
            (void)!atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, &ignored);
    }
    if (atoll_link_target(&target, &ignored, "/api/templates/%s", template) == 0)
        (void)!atoll_cli_call(cli, "DELETE", target.text, NULL, NULL, &ignored);
    return r < 0 ? r : 0;
}

static int conclude(struct atoll_cli *cli, const struct atoll_cli_build *o, const json_t *build,
                    struct atoll_error *err)
{
    const char *template = atoll_link_text(build, "debug_template", NULL);
    const char *name = atoll_link_text(build, "name", NULL);
    const json_t *error = json_object_get(build, "error");
    struct atoll_error failure;
    int line = (int)atoll_link_number(error, "line", 0), r;

    if (!json_is_object(error)) {
        if (cli->json)
            return atoll_cli_print_json(build, err);
        if (name)
            printf("template %s is ready, %.19s\n", o->tag, atoll_link_text(build, "digest", ""));
        return ATOLL_CLI_OK;
    }
    r = atoll_link_daemon_error(cli->client, build, 0, &failure);
    if (template && o->debug)
        (void)!debug(cli, template, err);
    *err = failure;
    if (line > 0 && strncmp(err->text, "line ", 5) != 0)
        r = atoll_wrap(err, "line %d", line);
    if (!o->debug && !template)
        (void)snprintf(cli->hint, sizeof(cli->hint),
                       "with --debug, a shell starts in the state before the step that failed");
    return r < 0 ? r : -EIO;
}

int atoll_cli_build_dir(struct atoll_cli *cli, const struct atoll_cli_build *o, char *dir,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request = json_object(), *started = NULL, *ended = NULL;
    ATOLL_AUTOFREE char *dockerfile = NULL;
    char digest[DIGEST_LEN + 1];
    struct atoll_link_target target;
    const char *id;
    int r;

    if (asprintf(&dockerfile, "%s%s%s", o->file ? "" : dir, o->file ? "" : "/",
                 o->file ? o->file : "Dockerfile") < 0)
        abort();
    r = compose(o, dockerfile, request, err);
    if (r == 0)
        r = send_context(cli, dir, o->file ? o->file : "Dockerfile", digest, err);
    if (r < 0)
        return r;
    (void)json_object_set_new(request, "context", json_string(digest));
    r = atoll_cli_call(cli, "POST", "/api/builds", request, &started, err);
    if (r < 0)
        return r;
    id = atoll_link_text(started, "id", "");
    r = follow(cli, id, o->quiet || cli->json, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/builds/%s", id);
    if (r == 0)
        r = atoll_cli_call(cli, "GET", target.text, NULL, &ended, err);
    return r < 0 ? r : conclude(cli, o, ended, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    return atoll_cli_build_dir(cli, &o->build, argv[0], err);
}

const struct atoll_cli_verb atoll_cli_build = {
    .name = "build",
    .args = "[OPTION]... DIR",
    .summary = "build a template from a Dockerfile, without Docker",
    .help = "Each step runs in a sandbox of its own. A step that has not changed is not run\n"
            "again. The files of DIR, except those in its .dockerignore, can be copied.\n"
            "\n"
            "Examples:\n"
            "  atoll build -t app .\n"
            "  atoll build -t app:v2 --build-arg VERSION=2 --network bridge .\n"
            "  atoll build -t app --secret id=token,src=token.txt .\n"
            "  atoll run --template app -- ./test.sh\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
