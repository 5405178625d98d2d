#include "copy/below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int atoll_below_open(int root, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? 0600 : 0,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

/* Makes the directory `path`, whose parents exist. */
static int make_one(int root, char *path, uid_t uid, gid_t gid)
{
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    ATOLL_AUTOCLOSE int parent = ATOLL_NO_FD;

    if (slash)
        *slash = '\0';
    parent = atoll_below_open(root, slash ? path : "", O_PATH | O_DIRECTORY);
    if (slash)
        *slash = '/';
    if (parent < 0)
        return parent;
    if (mkdirat(parent, name, 0755) < 0)
        return errno == EEXIST ? -ENOTDIR : -errno;
    if (fchownat(parent, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

int atoll_below_make(int root, const char *path, uid_t uid, gid_t gid)
{
    char part[PATH_MAX];
    size_t n = 0;
    int fd = atoll_below_open(root, path, O_PATH | O_DIRECTORY);

    if (fd != -ENOENT)
        return fd;
    if (strlen(path) >= sizeof(part))
        return -ENAMETOOLONG;
    while (path[n]) {
        n += strspn(path + n, "/");
        n += strcspn(path + n, "/");
        memcpy(part, path, n);
        part[n] = '\0';
        fd = atoll_below_open(root, part, O_PATH | O_DIRECTORY);
        if (fd == -ENOENT)
            fd = make_one(root, part, uid, gid);
        else if (fd >= 0)
            (void)close(fd);
        if (fd < 0)
            return fd;
        n += strspn(path + n, "/");
    }
    return atoll_below_open(root, path, O_PATH | O_DIRECTORY);
}
