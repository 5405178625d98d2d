/*
 * `atoll export`: what the daemon knows about sessions, as files. Code in a sandbox chose the names of
 * artifacts, so each of them is checked and made below directories that we opened (save.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "cli/collection.h"
#include "cli/copy.h"
#include "cli/save.h"
#include "net/url.h"

struct options {
    struct atoll_cli_common common;
    const char *out;
};

static const struct atoll_cli_option options_table[] = {
    {"out", 'o', ATOLL_CLI_TEXT, offsetof(struct options, out), "DIR",
     "write below this directory; default: the current one", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

/* One session. */
struct export
{
    struct atoll_cli *cli;
    const char *session;
    char sandbox[ATOLL_LINK_ID_MAX];
    int out_fd;
    bool failed; /* a file could not be written, which was reported */
};

/* Files whose content is the answer to a request. */

struct fetching {
    struct atoll_cli *cli;
    const char *target;
    int fd, error;
};

static int write_fetched(void *arg, const void *bytes, size_t n)
{
    struct fetching *f = arg;

    f->error = atoll_fd_write_all(f->fd, bytes, n);
    return f->error;
}

static int fetch(void *arg, int fd, struct atoll_error *err)
{
    struct fetching *f = arg;
    struct atoll_http_transfer transfer = {.length = -1, .write = write_fetched, .arg = f};
    int r;

    f->fd = fd;
    r = atoll_cli_stream(f->cli, "GET", f->target, &transfer, NULL, err);
    return f->error < 0 ? atoll_fail_errno(err, -f->error, "writing") : r;
}

/* Reports a failure that concerns one file; others end the export. */
static int go_on(struct export *e, const char *path, int r, const struct atoll_error *err)
{
    if (r >= 0)
        return 0;
    if (!atoll_cli_copy_goes_on(err))
        return r;
    atoll_cli_say("%s: %s: %s", e->session, path, err->text);
    e->failed = true;
    return 0;
}

/* Opens the directory TOP/SESSION. */
static int open_place(const struct export *e, const char *top, struct atoll_error *err)
{
    bool made;
    ATOLL_AUTOCLOSE int fd = atoll_cli_save_directory(e->out_fd, top, &made, err);
    return fd < 0 ? fd : atoll_cli_save_directory(fd, e->session, &made, err);
}

/* artifacts/SESSION/PATH */

static int artifact_target(const struct export *e, const char *path, struct atoll_link_target *ret,
                           struct atoll_error *err)
{
    struct atoll_buf text;
    int r;

    atoll_buf_init(&text, sizeof(ret->text) - 1);
    r = atoll_buf_appendf(&text, "/api/sessions/%s/artifacts/", e->session);
    if (r == 0)
        r = atoll_url_encode(&text, path, true);
    if (r == 0)
        (void)snprintf(ret->text, sizeof(ret->text), "%s", atoll_buf_str(&text));
    atoll_buf_done(&text);
    return r < 0 ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "the path is too long") : 0;
}

/* Makes the directories of the path and saves the file in the last one. */
static int save_below(int top_fd, const char *path, struct fetching *fetching,
                      struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = fcntl(top_fd, F_DUPFD_CLOEXEC, 0);
    char copy[ATOLL_CLI_COPY_PATH_MAX], *rest = copy, *name;
    bool made;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", path) >= sizeof(copy))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    while ((name = strsep(&rest, "/"))) {
        int next;

        if (!atoll_cli_copy_is_name(name))
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a possible file name");
        if (!rest)
            return atoll_cli_save_file(fd, name, 0644, fetch, fetching, err);
        next = atoll_cli_save_directory(fd, name, &made, err);
        if (next < 0)
            return next;
        (void)close(fd);
        fd = next;
    }
    return 0;
}

static int export_artifacts(struct export *e, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    ATOLL_AUTOCLOSE int top_fd = ATOLL_NO_FD;
    struct atoll_link_target target;
    const json_t *files;
    int r = atoll_link_target(&target, err, "/api/sessions/%s/artifacts", e->session);

    if (r == 0)
        r = atoll_cli_call(e->cli, "GET", target.text, NULL, &reply, err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND)
        return 0; /* it has ended, and none were kept */
    files = json_object_get(reply, "artifacts");
    if (r < 0 || json_array_size(files) == 0)
        return r;
    top_fd = open_place(e, "artifacts", err);
    if (top_fd < 0)
        return top_fd;
    for (size_t i = 0; r == 0 && i < json_array_size(files); i++) {
        const char *path = atoll_link_text(json_array_get(files, i), "path", "");
        struct fetching fetching = {.cli = e->cli, .target = target.text};
        r = artifact_target(e, path, &target, err);
        if (r == 0)
            r = save_below(top_fd, path, &fetching, err);
        r = go_on(e, path, r, err);
    }
    return r;
}

/* logs/SESSION/EXEC.jsonl */

static int export_logs(struct export *e, const json_t *execs, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(execs); i++) {
        const char *exec = atoll_link_text(json_array_get(execs, i), "exec_id", "");
        struct atoll_link_target target;
        struct fetching fetching = {.cli = e->cli, .target = target.text};
        char name[64];

        if (fd < 0)
            fd = open_place(e, "logs", err);
        r = fd < 0 ? fd : atoll_link_check_id("exec", exec, err);
        if (r == 0)
            r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs/%s/output", e->sandbox,
                                  exec);
        (void)snprintf(name, sizeof(name), "%.40s.jsonl", exec);
        if (r == 0)
            r = go_on(e, name, atoll_cli_save_file(fd, name, 0644, fetch, &fetching, err), err);
    }
    return r;
}

/* sessions/SESSION.json */

static int dump(void *arg, int fd, struct atoll_error *err)
{
    return json_dumpfd(arg, fd, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) < 0
               ? atoll_fail_errno(err, errno ? errno : EIO, "writing")
               : 0;
}

static int save_view(const struct export *e, json_t *view, struct atoll_error *err)
{
    bool made;
    ATOLL_AUTOCLOSE int fd = atoll_cli_save_directory(e->out_fd, "sessions", &made, err);
    char name[ATOLL_LINK_ID_MAX + 8];

    (void)snprintf(name, sizeof(name), "%s.json", e->session);
    return fd < 0 ? fd : atoll_cli_save_file(fd, name, 0644, dump, view, err);
}

/* The session, with its commands. */
static int get_view(struct export *e, json_t **ret, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("session", e->session, err);

    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sessions/%s", e->session);
    if (r == 0)
        r = atoll_cli_call(e->cli, "GET", target.text, NULL, &view, err);
    if (r < 0)
        return r;
    (void)snprintf(e->sandbox, sizeof(e->sandbox), "%s", atoll_link_text(view, "sandbox_id", ""));
    r = atoll_link_check_id("sandbox", e->sandbox, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/execs", e->sandbox);
    if (r == 0)
        r = atoll_cli_call(e->cli, "GET", target.text, NULL, &reply, err);
    if (r == 0 && json_object_set(view, "execs", json_object_get(reply, "execs")) < 0)
        r = atoll_fail_errno(err, ENOMEM, "session");
    if (r == 0)
        *ret = ATOLL_TAKE_PTR(view);
    return r;
}

static int export_one(struct atoll_cli *cli, const char *session, const void *arg,
                      struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *view = NULL;
    struct export e = {.cli = cli, .session = session, .out_fd = *(const int *)arg};
    int r = get_view(&e, &view, err);

    if (r == 0)
        r = export_logs(&e, json_object_get(view, "execs"), err);
    if (r == 0)
        r = export_artifacts(&e, err);
    if (r == 0) /* last: a session whose file is there is complete */
        r = save_view(&e, view, err);
    return r == 0 && e.failed ? atoll_fail(err, ATOLL_ERR_INTERNAL, EIO,
                                           "some files of session %s were not exported", session)
                              : r;
}

/* The names of all sessions, NULL at the end; borrowed from *items. */
static char **names_of(const json_t *items)
{
    size_t count = json_array_size(items);
    char **names = calloc(count + 1, sizeof(char *));

    for (size_t i = 0; names && i < count; i++)
        names[i] = (char *)(uintptr_t)atoll_link_text(json_array_get(items, i), "session_id", "");
    return names;
}

static int export_all(struct atoll_cli *cli, const int *out_fd, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *items = json_array();
    ATOLL_AUTOFREE char **names = NULL;
    int r = atoll_cli_sessions(cli, true, items, err);

    if (r < 0)
        return r;
    names = names_of(items);
    if (!names)
        return atoll_fail_errno(err, ENOMEM, "sessions");
    return atoll_cli_each(cli, names, "exported", true, export_one, out_fd, err);
}

static int run(struct atoll_cli *cli, const void *options, int argc, char **argv,
               struct atoll_error *err)
{
    const struct options *o = options;
    const char *out = o->out ? o->out : ".";
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (mkdir(out, 0777) == 0 || errno == EEXIST)
        fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "--out %.200s: %s",
                          out, strerror(errno));
    return argc > 0 ? atoll_cli_each(cli, argv, "exported", true, export_one, &fd, err)
                    : export_all(cli, &fd, err);
}

const struct atoll_cli_verb atoll_cli_export = {
    .name = "export",
    .args = "[OPTION]... [SESSION]...",
    .summary = "write sessions, their output and artifacts to files",
    .help = "Writes sessions/ID.json (the session with its commands), logs/ID/EXEC.jsonl (the\n"
            "output of each command as `atoll logs --json` prints it) and artifacts/ID/PATH.\n"
            "Without SESSION, all sessions, also ended ones as long as their records are kept.\n"
            "Of a session that runs, the artifacts are the files in its working directory; of an\n"
            "ended one, those that were kept. Existing files are replaced.\n"
            "\n"
            "Examples:\n"
            "  atoll export --out storage\n"
            "  atoll export $session\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .max_args = -1,
    .run = run,
};
