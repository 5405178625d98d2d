#include "copy/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include "base/text.h"
#include "copy/below.h"
#include "copy/entry.h"

#define DEPTH_MAX 1000 /* of a tree; each level has descriptors open */

struct walk {
    int root; /* of the destination, for links there */
    const struct atoll_copy_options *options;
    char path[PATH_MAX]; /* of the current source, below the tree */
    char to[PATH_MAX];   /* of its destination, below the root */
    unsigned depth;
};

static bool is_excluded(const struct walk *w)
{
    size_t low = 0, high = w->options->exclude_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(w->options->excludes[mid], w->path);
        if (c == 0)
            return true;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

/* Appends a component; returns the length to cut it off again. */
static int push(char *path, const char *name, size_t *ret_len)
{
    size_t n = strlen(path), len = strlen(name);

    *ret_len = n;
    if (n + len + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    if (n > 0)
        path[n++] = '/';
    memcpy(path + n, name, len + 1);
    return 0;
}

static int copy_directory(struct walk *w, int from, int to, struct atoll_error *err);

/* Opens the directory `name` of `to`, which is made if it is missing. A link to a directory is followed. */
static int enter(struct walk *w, int to, const char *name)
{
    int fd;

    if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
        fd = atoll_below_open(w->root, w->to, O_RDONLY | O_DIRECTORY);
        return fd == -ENOENT ? -ENOTDIR : fd;
    }
    return fd < 0 ? -errno : fd;
}

/* A directory below the source, with what is in it. */
static int copy_below(struct walk *w, int from, const char *name, const struct stat *st, int to,
                      struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    ATOLL_AUTOCLOSE int out = in < 0 ? -errno : enter(w, to, name);
    int r;

    if (in < 0 || out < 0)
        return atoll_copy_failed(err, -out, "copy", w->path);
    r = copy_directory(w, in, out, err);
    return r < 0 ? r : atoll_copy_facts(in, st, out, w->path, w->options, err);
}

static int copy_one(struct walk *w, int from, const char *name, int to, struct atoll_error *err)
{
    size_t path_len, to_len;
    struct stat st;
    int r;

    if (push(w->path, name, &path_len) < 0)
        return atoll_copy_failed(err, ENAMETOOLONG, "copy", w->path);
    if (push(w->to, name, &to_len) < 0)
        return atoll_copy_failed(err, ENAMETOOLONG, "copy", w->path);
    if (is_excluded(w))
        r = 0;
    else if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        r = atoll_copy_failed(err, errno, "read", w->path);
    else if (S_ISDIR(st.st_mode))
        r = copy_below(w, from, name, &st, to, err);
    else
        r = atoll_copy_entry(from, name, &st, to, name, w->path, w->options, err);
    w->path[path_len] = '\0';
    w->to[to_len] = '\0';
    return r;
}

/* The content of a directory. */
static int copy_directory(struct walk *w, int from, int to, struct atoll_error *err)
{
    int fd = w->depth < DEPTH_MAX ? openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return atoll_copy_failed(err, w->depth < DEPTH_MAX ? errno : ENAMETOOLONG, "read", w->path);
    }
    w->depth++;
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = copy_one(w, from, entry->d_name, to, err);
    if (r == 0 && errno != 0 && !entry)
        r = atoll_copy_failed(err, errno, "read", w->path);
    w->depth--;
    (void)closedir(dir);
    return r;
}

/* Splits DEST[/NAME] into the directory, which is made, and the last component. */
static int open_parent(struct walk *w, const char **ret_name, struct atoll_error *err)
{
    size_t n = strlen(w->to);
    char *slash;
    int fd;

    while (n > 0 && w->to[n - 1] == '/')
        w->to[--n] = '\0';
    slash = strrchr(w->to, '/');
    *ret_name = slash ? slash + 1 : w->to;
    if (!**ret_name || strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0)
        return atoll_copy_failed(err, EISDIR, "copy to", w->to);
    if (slash)
        *slash = '\0';
    fd = atoll_below_make(w->root, slash ? w->to : "", w->options->uid, w->options->gid);
    if (slash)
        *slash = '/';
    return fd < 0 ? atoll_copy_failed(err, -fd, "make the directory of", w->to) : fd;
}

/* The content of the source directory `from` into DEST. DEST is not changed if it exists; if not, it becomes
 * like the source, unless that is the tree itself or DEST ends with "/". */
static int copy_into(struct walk *w, int from, bool slash, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int to = ATOLL_NO_FD;
    struct stat st;
    int existing = atoll_below_open(w->root, w->to, O_PATH | O_DIRECTORY);
    int r;

    if (existing >= 0)
        (void)close(existing);
    r = atoll_below_make(w->root, w->to, w->options->uid, w->options->gid);
    if (r >= 0) {
        (void)close(r);
        to = atoll_below_open(w->root, w->to, O_RDONLY | O_DIRECTORY);
        r = to;
    }
    if (r < 0 || fstat(from, &st) < 0)
        return atoll_copy_failed(err, r < 0 ? -r : errno, "copy to", w->to);
    r = copy_directory(w, from, to, err);
    if (r == 0 && existing < 0 && *w->path && !slash)
        r = atoll_copy_facts(from, &st, to, w->path, w->options, err);
    return r;
}

/* Opens a source; links to it are followed. */
static int open_source(int tree, const char *path, struct stat *st, struct atoll_error *err)
{
    int fd = atoll_below_open(tree, path, O_RDONLY | O_NONBLOCK);

    if (fd >= 0 && fstat(fd, st) < 0) {
        int errnum = errno;
        (void)close(fd);
        fd = -errnum;
    }
    if (fd < 0)
        return atoll_copy_failed(err, -fd, "copy", path);
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))
        return fd;
    (void)close(fd);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "copy %.200s: it is neither a file nor a directory", path);
}

/* A single file to w->to. If that is a link, the file goes where it leads to. */
static int copy_single(struct walk *w, int source, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int parent = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int out = ATOLL_NO_FD;
    const char *name;
    struct stat st;

    parent = open_parent(w, &name, err);
    if (parent < 0)
        return parent;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
        out = atoll_below_open(w->root, w->to, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK);
        if (out < 0)
            return atoll_copy_failed(err, -out, "copy to", w->to);
    }
    return atoll_copy_opened(source, out, parent, name, w->path, w->options, err);
}

/* Whether DEST is a directory now; a missing one with a trailing "/" is made. */
static int dest_is_directory(struct walk *w, bool wanted, bool *ret, struct atoll_error *err)
{
    int fd = wanted ? atoll_below_make(w->root, w->to, w->options->uid, w->options->gid)
                    : atoll_below_open(w->root, w->to, O_PATH | O_DIRECTORY);

    *ret = fd >= 0;
    if (fd >= 0)
        (void)close(fd);
    if (fd < 0 && (wanted || (fd != -ENOENT && fd != -ENOTDIR)))
        return atoll_copy_failed(err, -fd, "copy to", w->to);
    return 0;
}

int atoll_copy(int root, int tree, const char *dest, bool dest_is_dir, const char *path,
               const char *name, const struct atoll_copy_options *options, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    struct walk w = {.root = root, .options = options};
    bool slash = *dest && dest[strlen(dest) - 1] == '/', below = false;
    struct stat st;
    size_t len;
    int r;

    if (atoll_text_copy(w.path, sizeof(w.path), path) < 0 ||
        atoll_text_copy(w.to, sizeof(w.to), dest) < 0)
        return atoll_copy_failed(err, ENAMETOOLONG, "copy", path);
    source = open_source(tree, path, &st, err);
    if (source < 0)
        return source;
    if (S_ISDIR(st.st_mode) && !*name)
        return copy_into(&w, source, slash, err);
    r = S_ISDIR(st.st_mode) ? 0 : dest_is_directory(&w, slash || dest_is_dir, &below, err);
    if (r == 0 && (below || S_ISDIR(st.st_mode)) && push(w.to, name, &len) < 0)
        r = atoll_copy_failed(err, ENAMETOOLONG, "copy", path);
    if (r < 0)
        return r;
    return S_ISDIR(st.st_mode) ? copy_into(&w, source, false, err) : copy_single(&w, source, err);
}
