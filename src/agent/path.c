/*
 * Paths of the tenant. The agent runs inside the sandbox, so any path may be named, with two
 * exceptions: the magic links of /proc, which would lead to the agent's descriptors, and the
 * agent's own /proc directory, to which the kernel always gives the agent itself access.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"
#include "base/text.h"

#define DIR_MODE 0755

/* Appends the components of `from`, without empty ones and ".". ".." stays: after a symbolic link
 * only the kernel can resolve it. */
static int append_parts(char *out, size_t *len, const char *from)
{
    while (*from) {
        size_t n = strcspn(from, "/");
        if (n > 0 && !(n == 1 && *from == '.')) {
            if (*len + 1 + n >= ATOLL_AGENT_PATH_MAX)
                return -ENAMETOOLONG;
            out[(*len)++] = '/';
            memcpy(out + *len, from, n);
            *len += n;
        }
        from += n + (from[n] == '/');
    }
    return 0;
}

int atoll_agent_path_absolute(const struct atoll_agent_user *user, const char *path, char *out,
                              struct atoll_error *err)
{
    size_t len = 0;
    int r = 0;

    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        path++, r = append_parts(out, &len, user->home);
    else if (path[0] != '/')
        r = append_parts(out, &len, user->start ? user->start : user->home);
    if (r == 0)
        r = append_parts(out, &len, path);
    if (r < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the path is longer than %d bytes", ATOLL_AGENT_PATH_MAX - 1);
    if (len == 0)
        out[len++] = '/';
    out[len] = '\0';
    return 0;
}

int atoll_agent_path_init(struct atoll_agent_path *p, struct atoll_agent *a, const char *user,
                          const char *path, struct atoll_error *err)
{
    bool as_root = *user == '+';
    int r = 0;

    p->agent = NULL;
    if (*path == '\0')
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENOENT, "no path was given");
    if (r == 0)
        r = atoll_agent_user_find(a, user + as_root, &p->user, err);
    p->user.as_root = as_root;
    if (r == 0)
        r = atoll_agent_path_absolute(&p->user, path, p->text, err);
    if (r == 0)
        r = atoll_agent_become(a, &p->user, err);
    if (r == 0)
        p->agent = a;
    return r;
}

void atoll_agent_path_done(struct atoll_agent_path *p)
{
    if (p->agent)
        atoll_agent_unbecome(p->agent);
    p->agent = NULL;
}

const char *atoll_agent_path_of_fd(int fd, char *out)
{
    (void)snprintf(out, 32, "/proc/self/fd/%d", fd);
    return out;
}

/* True if fd is in the agent's own directory of /proc, which contains its memory. */
static bool is_own_proc(int fd)
{
    char link[32], own[32], target[64];
    struct statfs fs;
    ssize_t n;
    int len;

    if (fstatfs(fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC)
        return false;
    n = readlink(atoll_agent_path_of_fd(fd, link), target, sizeof(target) - 1);
    if (n < 0)
        return true;
    target[n] = '\0';
    len = snprintf(own, sizeof(own), "/proc/%d", getpid());
    return strncmp(target, own, (size_t)len) == 0 && (target[len] == '/' || target[len] == '\0');
}

static int open_with(int dir_fd, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOCTTY),
                           .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    int fd;

    if (flags & O_PATH)
        how.flags &= ~(uint64_t)O_NOCTTY; /* openat2 refuses flags without effect */
    fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
    /* gVisor has no openat2. There the agent's descriptors refer to files of the sandbox only. */
    if (fd < 0 && errno == ENOSYS)
        fd = openat(dir_fd, path, (int)how.flags);
    if (fd < 0)
        return -errno;
    if (is_own_proc(fd)) {
        (void)close(fd);
        return -EACCES;
    }
    return fd;
}

int atoll_agent_path_open(int dir_fd, const char *path, int flags)
{
    return open_with(dir_fd, path, flags, 0);
}

int atoll_agent_path_open_below(int dir_fd, const char *path, int flags)
{
    return open_with(dir_fd, *path ? path : ".", flags, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int atoll_agent_path_open_parent(const char *path, const char **ret_name, struct atoll_error *err)
{
    const char *slash = strrchr(path, '/');
    char dir[ATOLL_AGENT_PATH_MAX];
    size_t n = slash ? (size_t)(slash - path) : 0;
    int fd;

    if (!slash || strcmp(slash, "/") == 0 || strcmp(slash, "/..") == 0 || n >= sizeof(dir))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "%.300s does not name an entry of a directory", path);
    memcpy(dir, path, n);
    dir[n] = '\0';
    fd = atoll_agent_path_open(AT_FDCWD, n > 0 ? dir : "/", O_PATH | O_DIRECTORY);
    if (fd < 0)
        return atoll_agent_path_fail(err, -fd, n > 0 ? dir : "/");
    *ret_name = slash + 1;
    return fd;
}

int atoll_agent_path_give(const struct atoll_agent_user *user, int fd)
{
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;

    if (!user->as_root || fchownat(fd, "", user->uid, user->gid, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != EBADF)
        return -errno;
    /* gVisor does not change the owner through a descriptor with O_PATH. */
    dir_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 || fchown(dir_fd, user->uid, user->gid) < 0 ? -errno : 0;
}

static int make_one(const struct atoll_agent_user *user, int dir_fd, const char *name,
                    uint32_t mode)
{
    int fd = atoll_agent_path_open(dir_fd, name, O_PATH | O_DIRECTORY), r;
    bool made;

    if (fd != -ENOENT)
        return fd;
    made = mkdirat(dir_fd, name, mode) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    fd = atoll_agent_path_open(dir_fd, name, O_PATH | O_DIRECTORY);
    r = made && fd >= 0 ? atoll_agent_path_give(user, fd) : 0;
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

int atoll_agent_path_make_dirs(const struct atoll_agent_user *user, const char *path,
                               uint32_t last_mode, struct atoll_error *err)
{
    int fd = atoll_agent_path_open(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    const char *at = path;

    if (fd == -ENOENT)
        fd = atoll_agent_path_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY);
    else
        at = ""; /* it exists, or cannot be created */
    while (fd >= 0 && *at) {
        char name[256];
        size_t n;
        int next;

        at += strspn(at, "/");
        n = strcspn(at, "/");
        if (n == 0)
            break;
        if (n >= sizeof(name)) {
            next = -ENAMETOOLONG;
        } else {
            memcpy(name, at, n);
            name[n] = '\0';
            next = make_one(user, fd, name, at[n] ? DIR_MODE : last_mode);
        }
        (void)close(fd);
        fd = next;
        at += n;
    }
    if (fd < 0)
        return atoll_agent_path_fail(err, -fd, path);
    (void)close(fd);
    return 0;
}

int atoll_agent_path_fail(struct atoll_error *err, int errnum, const char *path)
{
    static const struct {
        int errnum;
        enum atoll_error_kind kind; /* NONE: derived from the errno */
        const char *text;
    } texts[] = {
        {ENOENT, ATOLL_ERR_NONE, " does not exist"},
        {EEXIST, ATOLL_ERR_NONE, " already exists"},
        {EACCES, ATOLL_ERR_NONE, ": permission denied"},
        {EPERM, ATOLL_ERR_NONE, ": operation not permitted"},
        {EROFS, ATOLL_ERR_NONE, " is on a read-only file system"},
        {ENOTDIR, ATOLL_ERR_NONE, " is not a directory, or a part of the path is not one"},
        {EISDIR, ATOLL_ERR_NONE, " is a directory"},
        {ELOOP, ATOLL_ERR_NONE, " has too many symbolic links, or one that may not be followed"},
        {ENAMETOOLONG, ATOLL_ERR_NONE, " is too long"},
        {ENOTEMPTY, ATOLL_ERR_NONE, " is a directory that is not empty"},
        {EBUSY, ATOLL_ERR_NONE, " is in use"},
        {ENOSPC, ATOLL_ERR_NONE, ": no space is left in the sandbox"},
        {EDQUOT, ATOLL_ERR_NONE, ": no space is left in the sandbox"},
        {EFBIG, ATOLL_ERR_NONE, ": the file would be larger than the sandbox allows"},
        {EMFILE, ATOLL_ERR_NONE, ": too many files are open"},
        {EXDEV, ATOLL_ERR_FAILED_PRECONDITION, " is on another file system"},
        {EOPNOTSUPP, ATOLL_ERR_FAILED_PRECONDITION, ": its file system does not support this"},
        {ETXTBSY, ATOLL_ERR_FAILED_PRECONDITION, " is being executed"},
        {ENOMEM, ATOLL_ERR_RESOURCE_EXHAUSTED, ": out of memory"},
        {ENXIO, ATOLL_ERR_INVALID_ARGUMENT, " is not a file that can be opened"},
    };
    enum atoll_error_kind kind = atoll_error_kind_of_path_errno(errnum);

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++)
        if (texts[i].errnum == errnum)
            return atoll_fail(err, texts[i].kind ? texts[i].kind : kind, errnum, "%.300s%s", path,
                              texts[i].text);
    return atoll_fail(err, kind, errnum, "%.300s: %s", path, strerror(errnum));
}
