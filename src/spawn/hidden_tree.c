#include "spawn/hidden_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "base/fd.h"
#include "spawn/paths.h"

/* A directory deeper than this is not scanned and therefore hidden. */
#define DEPTH_MAX 100

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct walk {
    struct atoll_buf *paths;
    char path[PATH_MAX];
    size_t len; /* of path: the directory being read, "" or ending with a slash */
    unsigned depth;
};

static bool is_for_all(const struct stat *st)
{
    mode_t needed = S_ISDIR(st->st_mode) ? S_IROTH | S_IXOTH : S_IROTH;

    return S_ISLNK(st->st_mode) || (st->st_mode & needed) == needed;
}

static int note(struct walk *w, const char *name)
{
    int r = atoll_buf_append(w->paths, w->path, w->len);

    return r < 0 ? r : atoll_buf_append(w->paths, name, strlen(name) + 1);
}

static int walk_directory(struct walk *w, int fd);

/* Scans the directory `name`. Positive: it cannot be opened. */
static int enter(struct walk *w, int parent, const char *name)
{
    size_t len = strlen(name), before = w->len;
    int fd, r;

    if (w->depth == DEPTH_MAX || before + len + 2 > sizeof(w->path))
        return 1;
    fd = openat(parent, name, OPEN_DIR);
    if (fd < 0)
        return errno == ENOENT ? 0 : 1;
    memcpy(w->path + before, name, len);
    w->path[before + len] = '/';
    w->len = before + len + 1;
    w->depth++;
    r = walk_directory(w, fd);
    w->depth--;
    w->len = before;
    return r;
}

static int examine(struct walk *w, int parent, const struct dirent *entry)
{
    struct stat st;
    bool found;
    int r;

    if (entry->d_type == DT_LNK || strcmp(entry->d_name, ".") == 0 ||
        strcmp(entry->d_name, "..") == 0)
        return 0;
    found = fstatat(parent, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!found && errno == ENOENT)
        return 0;
    if (!found || !is_for_all(&st))
        return note(w, entry->d_name);
    if (!S_ISDIR(st.st_mode))
        return 0;
    r = enter(w, parent, entry->d_name);
    return r > 0 ? note(w, entry->d_name) : r;
}

/* Takes ownership of fd. */
static int walk_directory(struct walk *w, int fd)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL)
        r = examine(w, fd, entry);
    if (r == 0 && errno != 0)
        r = -errno;
    (void)closedir(dir);
    return r;
}

int atoll_hidden_find(int root_fd, struct atoll_buf *paths)
{
    struct walk *w = calloc(1, sizeof(*w));
    int fd = openat(root_fd, ".", OPEN_DIR);
    int r = !w ? -ENOMEM : fd < 0 ? -errno : 0;

    if (r == 0) {
        w->paths = paths;
        r = walk_directory(w, fd);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    free(w);
    return r;
}

/* Opens the parent directory of `path` and creates missing ones; *ret_name is the last
 * component. */
static int make_parents(int to_fd, const char *path, const char **ret_name)
{
    int dir = fcntl(to_fd, F_DUPFD_CLOEXEC, 0);

    for (const char *slash; dir >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[NAME_MAX + 1];
        int next, r = 0;

        if ((size_t)(slash - path) >= sizeof(name))
            r = -ENAMETOOLONG;
        memcpy(name, path, r < 0 ? 0 : (size_t)(slash - path));
        name[r < 0 ? 0 : slash - path] = '\0';
        if (r == 0 && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
            r = -errno;
        next = r < 0 ? ATOLL_NO_FD : openat(dir, name, OPEN_DIR);
        if (r == 0 && next < 0)
            r = -errno;
        (void)close(dir);
        if (r < 0)
            return r;
        dir = next;
    }
    *ret_name = path;
    return dir < 0 ? -errno : dir;
}

static int hide(int to_fd, const char *path)
{
    const char *name;
    ATOLL_AUTOCLOSE int dir = make_parents(to_fd, path, &name);

    if (dir < 0)
        return dir;
    /* An overlay whiteout: device 0/0. Creating it needs no capability (Linux 5.8). */
    if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST)
        return -errno;
    return 0;
}

/* Rootless, the owner cannot be changed and need not be: inside, the files belong to root. */
static int copy_attributes(int from, int to)
{
    struct stat st;
    struct timespec times[2];

    if (fstat(from, &st) < 0)
        return -errno;
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    if ((fchown(to, st.st_uid, st.st_gid) < 0 && geteuid() == 0) ||
        fchmod(to, st.st_mode & 07777) < 0 || futimens(to, times) < 0)
        return -errno;
    return 0;
}

static int finish_below(int from, int parent, const struct dirent *entry)
{
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int made = ATOLL_NO_FD;
    DIR *dir;
    const struct dirent *below;
    int copy, r = 0;

    if (entry && (entry->d_type == DT_CHR || strcmp(entry->d_name, ".") == 0 ||
                  strcmp(entry->d_name, "..") == 0))
        return 0;
    source = openat(from, entry ? entry->d_name : ".", OPEN_DIR);
    made = openat(parent, entry ? entry->d_name : ".", OPEN_DIR);
    copy = made < 0 ? ATOLL_NO_FD : fcntl(made, F_DUPFD_CLOEXEC, 0);
    if (made < 0 || copy < 0)
        return errno == ENOTDIR ? 0 : -errno; /* a file system without d_type */
    if (source < 0) {                         /* removed meanwhile: copy stays private */
        (void)close(copy);
        return errno == ENOENT ? 0 : -errno;
    }
    dir = fdopendir(copy);
    if (!dir) {
        (void)close(copy);
        return -ENOMEM;
    }
    while (r == 0 && (below = readdir(dir)) != NULL)
        r = finish_below(source, made, below);
    (void)closedir(dir);
    return r < 0 ? r : copy_attributes(source, made);
}

int atoll_hidden_lay_out(int root_fd, const char *paths, size_t len, int to_fd)
{
    int r = 0;

    for (size_t at = 0; r == 0 && at < len; at += strlen(paths + at) + 1) {
        if (!memchr(paths + at, '\0', len - at) || !atoll_paths_is_inside(paths + at))
            return -EBADMSG;
        r = hide(to_fd, paths + at);
    }
    return r < 0 ? r : finish_below(root_fd, to_fd, NULL);
}
