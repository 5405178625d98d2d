#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Without root, the owner of a directory needs its permission to empty or move it: a tree may have
 * directories of any mode, and overlayfs makes its work directory without permissions. */
static bool permit(int dirfd, const char *name)
{
    return geteuid() != 0 && fchmodat(dirfd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Renames dir/from to a free name in `top`. A name may exist already, from an interrupted removal
 * or created by the tenant: then the next one is tried. */
static int move_up(int dir, const char *from, int top, uint64_t *counter)
{
    for (bool permitted = false;;) {
        char name[32];

        (void)snprintf(name, sizeof(name), ".atoll-%llx", (unsigned long long)(*counter)++);
        if (renameat(dir, from, top, name) == 0)
            return 0;
        if (errno == EACCES && !permitted && (permitted = permit(dir, from)))
            continue;
        if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
            return -errno;
    }
}

/* Unlinks all entries that are not directories and moves each directory into `top` under a new
 * name, so that the tree becomes flat. 1: a directory was moved, 0: dir is empty. */
static int flatten(int top, int dir_fd, dev_t device, uint64_t *counter)
{
    struct dirent *entry;
    DIR *dir = fdopendir(dir_fd);
    int moved = 0, r = 0;

    if (!dir) {
        r = -errno;
        (void)close(dir_fd);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        struct stat st;

        if (is_dot(entry->d_name) || unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            r = errno == ENOENT ? 0 : -errno;
            continue;
        }
        if (unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0)
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            st.st_dev != device) {
            r = -EXDEV;
            continue;
        }
        r = move_up(dirfd(dir), entry->d_name, top, counter);
        moved = 1;
    }
    (void)closedir(dir);
    return r < 0 ? r : moved;
}

static int open_dir(int dirfd, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dirfd, name, flags);

    if (fd < 0 && errno == EACCES && permit(dirfd, name))
        fd = openat(dirfd, name, flags);
    if (fd < 0)
        return -errno;
    if (geteuid() != 0)
        (void)!fchmod(fd, 0700);
    return fd;
}

/* One pass over `top`: flattens each directory in it and removes the directory. */
static int drain_top(int top, dev_t device, uint64_t *counter)
{
    int dir_fd = open_dir(top, ".");
    struct dirent *entry;
    DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
    int r = 0, more = 0;

    if (!dir)
        return dir_fd < 0 ? dir_fd : -errno;
    while (r >= 0 && (entry = readdir(dir)) != NULL) {
        int sub;
        if (is_dot(entry->d_name) || unlinkat(top, entry->d_name, 0) == 0)
            continue;
        sub = open_dir(top, entry->d_name);
        r = sub < 0 ? sub : flatten(top, sub, device, counter);
        more |= r > 0;
        if (r >= 0 && unlinkat(top, entry->d_name, AT_REMOVEDIR) < 0)
            r = -errno;
    }
    (void)closedir(dir);
    return r < 0 ? r : more;
}

int atoll_tree_remove(int dirfd, const char *name)
{
    ATOLL_AUTOCLOSE int top = ATOLL_NO_FD;
    uint64_t counter = 0;
    struct stat st;
    int r;

    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    top = open_dir(dirfd, name);
    if (top < 0)
        return top;
    if (fstat(top, &st) < 0)
        return -errno;
    while ((r = drain_top(top, st.st_dev, &counter)) > 0)
        ;
    if (r < 0)
        return r;
    return unlinkat(dirfd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
