/*
 * Copies out of a sandbox. Each directory is listed separately, and only the names of that list are used,
 * below directories that we opened: a forged list can name a file to fetch, but not a path to write.
 * copy.h has the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"
#include "cli/copy.h"
#include "cli/print.h"
#include "cli/save.h"

/* Most entries of all directories together: a sandbox can forge any number of them. */
#define ENTRIES_MAX 2000000

struct tree {
    struct atoll_cli_copy *copy;
    struct atoll_buf path; /* in the sandbox, of the entry being copied */
    uint64_t entries;
};

struct sink {
    int fd;
    struct atoll_cli_progress progress;
    int error; /* of the last write, negative errno */
};

static int write_sink(void *arg, const void *bytes, size_t n)
{
    struct sink *sink = arg;

    sink->error = atoll_fd_write_all(sink->fd, bytes, n);
    if (sink->error == 0)
        atoll_cli_progress_add(&sink->progress, n);
    return sink->error;
}

static int fetch(struct atoll_cli_copy *copy, const char *path, uint64_t size, int fd,
                 struct atoll_error *err)
{
    struct sink sink = {.fd = fd};
    struct atoll_http_transfer transfer = {.length = -1, .write = write_sink, .arg = &sink};
    struct atoll_link_target target;
    int r = atoll_cli_copy_target(copy, "", path, "", &target, err);

    if (r < 0)
        return r;
    atoll_cli_progress_start(&sink.progress, path, size);
    r = atoll_cli_stream(copy->cli, "GET", target.text, &transfer, NULL, err);
    atoll_cli_progress_end(&sink.progress);
    if (sink.error < 0)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, -sink.error, "writing: %s",
                          strerror(-sink.error));
    if (r < 0)
        return r;
    copy->files++;
    copy->bytes += sink.progress.done;
    return 0;
}

static mode_t mode_of(const json_t *entry, mode_t otherwise)
{
    const char *text = atoll_link_text(entry, "mode", "");
    mode_t mode = 0;

    if (!*text)
        return otherwise;
    for (; *text >= '0' && *text <= '7'; text++)
        mode = (mode << 3 | (mode_t)(*text - '0')) & 07777;
    return mode & 0777; /* drop setuid, setgid and sticky bits */
}

static uint64_t size_of(const json_t *entry)
{
    double size = atoll_link_number(entry, "size", 0);
    return size > 0 && size < 9e15 ? (uint64_t)size : 0;
}

struct filling {
    struct tree *tree;
    uint64_t size;
};

static int fill(void *arg, int fd, struct atoll_error *err)
{
    const struct filling *f = arg;
    return fetch(f->tree->copy, atoll_buf_str(&f->tree->path), f->size, fd, err);
}

static int save_file(struct tree *tree, const json_t *entry, int dir_fd, const char *name,
                     struct atoll_error *err)
{
    struct filling filling = {tree, size_of(entry)};
    return atoll_cli_save_file(dir_fd, name, mode_of(entry, 0644), fill, &filling, err);
}

static void save_link(struct tree *tree, const json_t *entry, int dir_fd, const char *name,
                      unsigned depth)
{
    const char *target = atoll_link_text(entry, "target", "");
    const char *path = atoll_buf_str(&tree->path);

    if (!atoll_cli_copy_is_inner_link(target, depth))
        atoll_cli_copy_skip(tree->copy, path, "a link to %.200s, which may lead out of the copy",
                            *target ? target : "an unknown place");
    else if (symlinkat(target, dir_fd, name) < 0)
        atoll_cli_copy_skip(tree->copy, path, "%s", strerror(errno));
    else
        tree->copy->files++;
}

static int save_entry(struct tree *tree, const json_t *entry, int dir_fd, unsigned depth,
                      struct atoll_error *err);

static int save_entries(struct tree *tree, int dir_fd, unsigned depth, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *entries;
    int r = atoll_cli_copy_call(tree->copy, "GET", "/list", atoll_buf_str(&tree->path), "&depth=1",
                                &reply, err);

    if (r < 0)
        return r;
    entries = json_object_get(reply, "entries");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        size_t mark = tree->path.len;
        const char *name = atoll_link_text(entry, "name", "");
        if (++tree->entries > ENTRIES_MAX)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                              "the sandbox lists more than %d entries", ENTRIES_MAX);
        if (!atoll_cli_copy_is_name(name) || atoll_buf_appendf(&tree->path, "/%s", name) < 0) {
            atoll_cli_copy_skip(tree->copy, *name ? name : "(no name)", "not a possible file name");
            continue;
        }
        r = save_entry(tree, entry, dir_fd, depth, err);
        if (r < 0 && atoll_cli_copy_goes_on(err))
            atoll_cli_copy_skip(tree->copy, atoll_buf_str(&tree->path), "%s", err->text);
        else if (r < 0)
            return r;
        tree->path.len = mark;
    }
    return 0;
}

static int save_directory(struct tree *tree, const json_t *entry, int dir_fd, const char *name,
                          unsigned depth, struct atoll_error *err)
{
    bool made;
    ATOLL_AUTOCLOSE int fd = atoll_cli_save_directory(dir_fd, name, &made, err);
    int r;

    if (fd < 0)
        return fd;
    r = save_entries(tree, fd, depth, err);
    /* After the entries: the mode may forbid writing to the directory. */
    if (made && fchmod(fd, mode_of(entry, 0755)) < 0 && r == 0)
        r = atoll_fail_errno(err, errno, "%.200s", name);
    tree->copy->directories += made;
    return r;
}

static int save_entry(struct tree *tree, const json_t *entry, int dir_fd, unsigned depth,
                      struct atoll_error *err)
{
    const char *type = atoll_link_text(entry, "type", "");
    const char *name = atoll_link_text(entry, "name", "");

    if (strcmp(type, "file") == 0)
        return save_file(tree, entry, dir_fd, name, err);
    if (strcmp(type, "directory") == 0 && depth < ATOLL_CLI_COPY_DEPTH_MAX)
        return save_directory(tree, entry, dir_fd, name, depth + 1, err);
    if (strcmp(type, "symlink") == 0)
        save_link(tree, entry, dir_fd, name, depth);
    else
        atoll_cli_copy_skip(tree->copy, atoll_buf_str(&tree->path),
                            depth < ATOLL_CLI_COPY_DEPTH_MAX ? "not a regular file"
                                                             : "nested too deeply");
    return 0;
}

/* Splits the local destination into an open directory (returned, owned by the caller) and a name in it.
 * The name "." means the directory itself. */
static int choose_place(const char *remote, const char *local, char *name, size_t cap,
                        struct atoll_error *err)
{
    ATOLL_AUTOFREE char *parent = strdup(local);
    size_t n = strlen(local);
    int fd = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        if (!atoll_cli_copy_basename(remote, name, cap))
            (void)snprintf(name, cap, ".");
        return fd;
    }
    if (!parent || n == 0 || local[n - 1] == '/')
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "%.200s: no such directory", local);
    if (!atoll_cli_copy_basename(local, name, cap))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.200s: not a possible name",
                          local);
    while (n > 0 && parent[n - 1] != '/')
        n--;
    parent[n] = '\0';
    fd = open(n > 0 ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return atoll_fail(err, atoll_error_kind_of_path_errno(errno), errno, "%.200s: %s", parent,
                          strerror(errno));
    return fd;
}

static int save_top(struct tree *tree, const char *local, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *entry = NULL;
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    char name[256];
    int r;

    if (strcmp(local, "-") == 0)
        return fetch(tree->copy, atoll_buf_str(&tree->path), 0, STDOUT_FILENO, err);
    r = atoll_cli_copy_call(tree->copy, "GET", "/stat", atoll_buf_str(&tree->path), "", &entry,
                            err);
    if (r < 0)
        return r;
    dir_fd = choose_place(atoll_buf_str(&tree->path), local, name, sizeof(name), err);
    if (dir_fd < 0)
        return dir_fd;
    if (strcmp(atoll_link_text(entry, "type", ""), "directory") != 0)
        return save_file(tree, entry, dir_fd, name, err);
    if (strcmp(name, ".") == 0)
        return save_entries(tree, dir_fd, 0, err);
    return save_directory(tree, entry, dir_fd, name, 0, err);
}

int atoll_cli_copy_download(struct atoll_cli_copy *copy, const char *remote, const char *local,
                            struct atoll_error *err)
{
    struct tree tree = {.copy = copy};
    size_t n = strlen(remote);
    int r;

    while (n > 1 && remote[n - 1] == '/')
        n--;
    atoll_buf_init(&tree.path, ATOLL_CLI_COPY_PATH_MAX);
    r = n == 0 ? atoll_buf_appends(&tree.path, ".") : atoll_buf_append(&tree.path, remote, n);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the path is too long");
    else
        r = save_top(&tree, local, err);
    atoll_buf_done(&tree.path);
    return r;
}
