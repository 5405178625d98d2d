/*
 * Copies into a sandbox. Directories and files are sent one by one, with their modes; symbolic links keep
 * their targets. Special files are skipped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/copy.h"
#include "cli/print.h"

struct source {
    int fd;
    uint64_t left; /* bytes still to send; UINT64_MAX: until the end */
    struct atoll_cli_progress progress;
};

static ssize_t read_source(void *arg, void *buf, size_t n)
{
    struct source *source = arg;
    ssize_t r;

    n = (size_t)ATOLL_MIN((uint64_t)n, source->left);
    if (n == 0)
        return 0;
    do
        r = read(source->fd, buf, n);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    if (source->left != UINT64_MAX) {
        if (r == 0)
            return -ENODATA; /* the file was truncated: the announced length cannot be sent */
        source->left -= (uint64_t)r;
    }
    atoll_cli_progress_add(&source->progress, (uint64_t)r);
    return r;
}

static int send_file(struct atoll_cli_copy *copy, int fd, const struct stat *st, const char *name,
                     const char *path, struct atoll_error *err)
{
    bool sized = S_ISREG(st->st_mode);
    struct source source = {.fd = fd, .left = sized ? (uint64_t)st->st_size : UINT64_MAX};
    struct atoll_http_transfer transfer = {
        .read = read_source, .length = sized ? (int64_t)st->st_size : -1, .arg = &source};
    struct atoll_link_target target;
    ATOLL_AUTOJSON json_t *reply = NULL;
    char mode[24] = "";
    int r;

    if (sized)
        (void)snprintf(mode, sizeof(mode), "&mode=%04o", st->st_mode & 0777);
    r = atoll_cli_copy_target(copy, "", path, mode, &target, err);
    if (r < 0)
        return r;
    atoll_cli_progress_start(&source.progress, name, sized ? (uint64_t)st->st_size : 0);
    r = atoll_cli_stream(copy->cli, "PUT", target.text, &transfer, &reply, err);
    atoll_cli_progress_end(&source.progress);
    if (r < 0)
        return err->kind == ATOLL_ERR_CANCELED
                   ? atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r, "reading %.200s: %s", name,
                                r == -ENODATA ? "it was truncated during the copy" : strerror(-r))
                   : r;
    copy->files++;
    copy->bytes += source.progress.done;
    return 0;
}

static int make_directory(struct atoll_cli_copy *copy, const char *path, mode_t mode,
                          struct atoll_error *err)
{
    char query[24];
    int r = atoll_cli_copy_call(copy, "POST", "/mkdir", path, "", NULL, err);

    if (r < 0 && err->kind == ATOLL_ERR_ALREADY_EXISTS)
        return 0; /* keep the mode of an existing directory */
    if (r < 0)
        return r;
    copy->directories++;
    (void)snprintf(query, sizeof(query), "&mode=%04o", mode & 0777);
    return atoll_cli_copy_call(copy, "POST", "/chmod", path, query, NULL, err);
}

/* An existing link or file of that name is replaced, as a file would be. */
static int send_link(struct atoll_cli_copy *copy, int dir_fd, const char *name, const char *path,
                     struct atoll_error *err)
{
    struct atoll_link_target query;
    char target[ATOLL_CLI_COPY_PATH_MAX];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);
    int r;

    if (n < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                          strerror(errno));
    target[n] = '\0';
    r = atoll_link_target(&query, err, "&target=%s", target);
    if (r == 0)
        r = atoll_cli_copy_call(copy, "POST", "/symlink", path, query.text, NULL, err);
    if (r < 0 && err->kind == ATOLL_ERR_ALREADY_EXISTS) {
        r = atoll_cli_copy_call(copy, "DELETE", "", path, "", NULL, err);
        if (r == 0)
            r = atoll_cli_copy_call(copy, "POST", "/symlink", path, query.text, NULL, err);
    }
    if (r == 0)
        copy->links++;
    return r;
}

static int send_entry(struct atoll_cli_copy *copy, int dir_fd, const char *name,
                      struct atoll_buf *path, unsigned depth, struct atoll_error *err);

static int send_directory(struct atoll_cli_copy *copy, int fd, const struct stat *st,
                          struct atoll_buf *path, unsigned depth, struct atoll_error *err)
{
    struct dirent *entry;
    DIR *dir;
    int r = make_directory(copy, atoll_buf_str(path), st->st_mode, err);

    if (r < 0) {
        (void)close(fd);
        return r;
    }
    dir = fdopendir(fd);
    if (!dir) {
        (void)close(fd);
        return atoll_fail_errno(err, errno, "reading a directory");
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        size_t mark = path->len;
        if (!atoll_cli_copy_is_name(entry->d_name))
            continue;
        if (atoll_buf_appendf(path, "/%s", entry->d_name) < 0) {
            atoll_cli_copy_skip(copy, entry->d_name, "its path is too long");
            continue;
        }
        r = send_entry(copy, dirfd(dir), entry->d_name, path, depth, err);
        if (r < 0 && atoll_cli_copy_goes_on(err)) {
            atoll_cli_copy_skip(copy, atoll_buf_str(path), "%s", err->text);
            r = 0;
        }
        path->len = mark;
    }
    (void)closedir(dir);
    return r;
}

static int send_entry(struct atoll_cli_copy *copy, int dir_fd, const char *name,
                      struct atoll_buf *path, unsigned depth, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 && errno == ELOOP)
        return send_link(copy, dir_fd, name, atoll_buf_str(path), err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", name,
                          strerror(errno));
    if (S_ISREG(st.st_mode))
        return send_file(copy, fd, &st, name, atoll_buf_str(path), err);
    if (S_ISDIR(st.st_mode) && depth < ATOLL_CLI_COPY_DEPTH_MAX)
        return send_directory(copy, ATOLL_TAKE_FD(fd), &st, path, depth + 1, err);
    atoll_cli_copy_skip(copy, atoll_buf_str(path),
                        S_ISDIR(st.st_mode) ? "nested too deeply" : "not a regular file");
    return 0;
}

static bool is_remote_directory(struct atoll_cli_copy *copy, const char *path)
{
    ATOLL_AUTOJSON json_t *entry = NULL;
    struct atoll_error ignored;

    return atoll_cli_copy_call(copy, "GET", "/stat", path, "", &entry, &ignored) == 0 &&
           strcmp(atoll_link_text(entry, "type", ""), "directory") == 0;
}

/* The destination: `remote` itself, or the name of `local` in it if `remote` is a directory. */
static int choose_path(struct atoll_cli_copy *copy, const char *local, const char *remote,
                       struct atoll_buf *path, struct atoll_error *err)
{
    const char *base = *remote ? remote : ".";
    char name[256];
    size_t n = strlen(base);
    bool into = base[n - 1] == '/' || is_remote_directory(copy, base);
    int r;

    while (n > 1 && base[n - 1] == '/')
        n--;
    r = atoll_buf_append(path, base, n);
    if (r == 0 && into && strcmp(local, "-") == 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EISDIR,
                          "%.200s is a directory: name the file to write standard input to", base);
    if (r == 0 && into && atoll_cli_copy_basename(local, name, sizeof(name)))
        r = atoll_buf_appendf(path, "%s%s", n == 1 && *base == '/' ? "" : "/", name);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    return 0;
}

static int send_top(struct atoll_cli_copy *copy, const char *local, struct atoll_buf *path,
                    struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;

    if (strcmp(local, "-") == 0) {
        st = (struct stat){.st_mode = S_IFIFO};
        return send_file(copy, STDIN_FILENO, &st, "standard input", atoll_buf_str(path), err);
    }
    /* Follows a link that the user named; links below it stay links. */
    fd = open(local, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", local,
                          strerror(errno));
    if (S_ISDIR(st.st_mode))
        return send_directory(copy, ATOLL_TAKE_FD(fd), &st, path, 1, err);
    return send_file(copy, fd, &st, local, atoll_buf_str(path), err);
}

int atoll_cli_copy_upload(struct atoll_cli_copy *copy, const char *local, const char *remote,
                          struct atoll_error *err)
{
    struct atoll_buf path;
    int r;

    atoll_buf_init(&path, ATOLL_CLI_COPY_PATH_MAX);
    r = choose_path(copy, local, remote, &path, err);
    if (r == 0)
        r = send_top(copy, local, &path, err);
    atoll_buf_done(&path);
    return r;
}
