#include "diff/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"

#define INPUT_MAX ((size_t)64 << 20)
#define NS_PER_S INT64_C(1000000000)
#define CHUNK ((size_t)64 * 1024)

int atoll_diff_record_write(int fd, const struct atoll_diff_record *record, const char *path,
                            const void *bytes)
{
    int r = atoll_fd_write_all(fd, record, sizeof(*record));

    if (r == 0)
        r = atoll_fd_write_all(fd, path, record->path_len);
    return r < 0 || record->size == 0 ? r : atoll_fd_write_all(fd, bytes, (size_t)record->size);
}

/* One record, in place. */
struct entry {
    struct atoll_diff_record head;
    char path[PATH_MAX];
    const uint8_t *bytes;
};

/* Whether each component is a name: no other way leads to a place in the tree. */
static bool is_clean(const char *path)
{
    for (size_t n;; path += n + 1) {
        n = strcspn(path, "/");
        if (n == 0 || (n <= 2 && memcmp(path, "..", n) == 0))
            return false;
        if (path[n] == '\0')
            return true;
    }
}

/* 0: the end. */
static int next(const uint8_t **at, const uint8_t *end, struct entry *ret)
{
    size_t left = (size_t)(end - *at);

    if (left < sizeof(ret->head))
        return -EINVAL;
    memcpy(&ret->head, *at, sizeof(ret->head));
    left -= sizeof(ret->head);
    *at += sizeof(ret->head);
    if (ret->head.op == ATOLL_DIFF_END)
        return left == 0 ? 0 : -EINVAL;
    if (ret->head.op > ATOLL_DIFF_PUT || ret->head.path_len == 0 ||
        ret->head.path_len >= sizeof(ret->path) || left < ret->head.path_len ||
        left - ret->head.path_len < ret->head.size)
        return -EINVAL;
    memcpy(ret->path, *at, ret->head.path_len);
    ret->path[ret->head.path_len] = '\0';
    if (strlen(ret->path) != ret->head.path_len || !is_clean(ret->path))
        return -EINVAL;
    ret->bytes = *at + ret->head.path_len;
    *at = ret->bytes + ret->head.size;
    return 1;
}

/* gVisor has none. */
static bool lacks_openat2(void)
{
    return syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && errno == ENOSYS;
}

/* The same as openat2() below, where there is none. */
static int open_by_parts(int root, const char *path)
{
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[NAME_MAX + 1];

    while (fd >= 0 && *path) {
        size_t n = strcspn(path, "/");
        int dir = fd;

        if (n == 0 || n >= sizeof(name) || (n == 2 && memcmp(path, "..", 2) == 0)) {
            (void)close(dir);
            errno = EXDEV;
            return -1;
        }
        memcpy(name, path, n);
        name[n] = '\0';
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(dir);
        path += path[n] ? n + 1 : n;
    }
    return fd;
}

/* The directory of a path, without following links; *ret_name: the last component. */
static int open_parent(int root, const char *path, const char **ret_name)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const char *slash = strrchr(path, '/');
    char parent[PATH_MAX] = ".";
    long fd;

    if (slash)
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    *ret_name = slash ? slash + 1 : path;
    fd = syscall(SYS_openat2, root, parent, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS)
        fd = open_by_parts(root, parent);
    return fd < 0 ? -errno : (int)fd;
}

/* By its descriptor: what has the name may have become a link. */
static int put_directory(int dir, const char *name, const struct atoll_diff_record *h)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, h->uid, h->gid) < 0)
        return -errno;
    return fchmod(fd, h->mode & 07777) < 0 ? -errno : 0;
}

static int write_file(int dir, const char *name, const struct entry *e)
{
    ATOLL_AUTOCLOSE int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : atoll_fd_write_all(fd, e->bytes, (size_t)e->head.size);

    if (r == 0 &&
        (fchown(fd, e->head.uid, e->head.gid) < 0 || fchmod(fd, e->head.mode & 07777) < 0))
        r = -errno;
    return r;
}

static int write_other(int dir, const char *name, const struct entry *e)
{
    char target[PATH_MAX];
    int r = 0;

    if (S_ISLNK(e->head.mode)) {
        (void)snprintf(target, sizeof(target), "%.*s", (int)e->head.size, (const char *)e->bytes);
        r = symlinkat(target, dir, name);
    } else if (S_ISFIFO(e->head.mode)) {
        r = mkfifoat(dir, name, e->head.mode & 07777);
    } else {
        return -ENOTSUP; /* device nodes are left out */
    }
    if (r == 0)
        r = fchownat(dir, name, e->head.uid, e->head.gid, AT_SYMLINK_NOFOLLOW);
    return r < 0 ? -errno : 0;
}

/* By way of another name, so that a reader finds the old content or the new one. */
static int put_file(int dir, const char *name, const struct entry *e)
{
    char temporary[64];
    int r;

    (void)snprintf(temporary, sizeof(temporary), ".atoll-merge-%ld", (long)getpid());
    r = S_ISREG(e->head.mode) ? write_file(dir, temporary, e) : write_other(dir, temporary, e);
    if (r == 0 && renameat(dir, temporary, dir, name) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, temporary, 0);
    return r == -ENOTSUP ? 0 : r;
}

/* gVisor's kernel keeps the times of its own changes and gives them to the host's file system later: the two
 * have stamped a change one shortly after the other. */
static bool is_near(const struct atoll_diff_was *was, const struct timespec *now)
{
    int64_t ns = (int64_t)was->mtime_ns - now->tv_nsec;

    if (was->mtime_s < now->tv_sec - 1 || was->mtime_s > now->tv_sec + 1)
        return false;
    ns += (was->mtime_s - now->tv_sec) * NS_PER_S;
    return ns > -NS_PER_S && ns < NS_PER_S;
}

/* File systems with whole seconds have kept only those in one of the two. */
static bool is_same_time(const struct atoll_diff_was *was, const struct timespec *now)
{
    if (lacks_openat2())
        return is_near(was, now);
    return was->mtime_s == now->tv_sec &&
           (was->mtime_ns == (uint32_t)now->tv_nsec || was->mtime_ns == 0 || now->tv_nsec == 0);
}

/* Whether the name is as the merge found it. What another process writes between this and the change is lost. */
static int is_unchanged(int dir, const char *name, const struct atoll_diff_record *h,
                        bool *ret_gone)
{
    const struct atoll_diff_was *was = &h->was;
    struct stat now;

    *ret_gone = false;
    if (fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret_gone = errno == ENOENT;
        return *ret_gone ? was->mode == 0 || h->op != ATOLL_DIFF_PUT : -errno;
    }
    if (S_ISDIR(now.st_mode) && h->op == ATOLL_DIFF_RMDIR)
        return 1; /* it goes only if it is empty */
    if (was->mode != now.st_mode || was->uid != now.st_uid || was->gid != now.st_gid)
        return 0;
    return S_ISDIR(now.st_mode) ||
           (was->size == (uint64_t)now.st_size && is_same_time(was, &now.st_mtim));
}

static int tell_conflict(int out, const struct entry *e, bool gone)
{
    bool is_put = e->head.op == ATOLL_DIFF_PUT;
    bool was_there = e->head.was.mode != 0 || e->head.replaces;
    char whole[PATH_MAX + 1];
    struct atoll_buf line;
    int r;

    if (e->head.replaces && !is_put)
        return 0; /* its PUT is told */
    (void)snprintf(whole, sizeof(whole), "/%s", e->path);
    atoll_buf_init(&line, (size_t)64 * 1024);
    r = atoll_buf_appendf(&line, "{\"conflict\":");
    if (r == 0)
        r = atoll_text_json_quote(&line, whole, strlen(whole));
    if (r == 0)
        r = atoll_buf_appendf(&line, ",\"ours\":\"%s\",\"theirs\":\"%s\"}\n",
                              gone        ? "removed"
                              : was_there ? "changed"
                                          : "added",
                              !is_put     ? "removed"
                              : was_there ? "changed"
                                          : "added");
    if (r == 0)
        r = atoll_fd_write_all(out, atoll_buf_head(&line), atoll_buf_size(&line));
    atoll_buf_done(&line);
    return r;
}

static int carry_out(int root, int out, const struct entry *e)
{
    const char *name;
    ATOLL_AUTOCLOSE int dir = open_parent(root, e->path, &name);
    bool gone = true;
    int r = dir;

    /* The directory was removed or replaced. */
    if (dir == -ENOENT || dir == -ENOTDIR || dir == -ELOOP)
        return e->head.op == ATOLL_DIFF_PUT ? tell_conflict(out, e, gone) : 0;
    if (r >= 0)
        r = is_unchanged(dir, name, &e->head, &gone);
    if (r <= 0)
        return r < 0 ? r : tell_conflict(out, e, gone);
    switch (e->head.op) {
    case ATOLL_DIFF_REMOVE:
        return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
    case ATOLL_DIFF_RMDIR: /* one that has files of its own stays */
        return unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTEMPTY
                   ? -errno
                   : 0;
    default:
        return S_ISDIR(e->head.mode) ? put_directory(dir, name, &e->head) : put_file(dir, name, e);
    }
}

static int read_all(int fd, struct atoll_buf *in)
{
    for (;;) {
        uint8_t *tail;
        ssize_t n;

        if (atoll_buf_reserve(in, CHUNK, &tail) < 0)
            return -EFBIG;
        n = read(fd, tail, CHUNK);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0)
            return 0;
        if (n > 0)
            atoll_buf_commit(in, (size_t)n);
    }
}

/* Records of one pass, in the order of the stream. */
static int pass(int root, int out, const struct atoll_buf *in, uint32_t op, bool directories,
                char *ret_path)
{
    static struct entry e;
    const uint8_t *at = atoll_buf_head(in), *end = at + atoll_buf_size(in);
    int r;

    while ((r = next(&at, end, &e)) > 0) {
        if (e.head.op != op || (op == ATOLL_DIFF_PUT && S_ISDIR(e.head.mode) != directories))
            continue;
        r = carry_out(root, out, &e);
        if (r < 0) {
            (void)snprintf(ret_path, PATH_MAX, "%s", e.path);
            return r;
        }
    }
    return r;
}

/* Directories come before their entries: the deepest is removed first. */
static int remove_directories(int root, int out, const struct atoll_buf *in)
{
    static struct entry e;
    const uint8_t *at = atoll_buf_head(in), *end = at + atoll_buf_size(in);
    const uint8_t **found = NULL;
    size_t count = 0, room = 0;
    int r = 0;

    for (const uint8_t *from = at; (r = next(&at, end, &e)) > 0; from = at) {
        if (e.head.op != ATOLL_DIFF_RMDIR)
            continue;
        if (count == room) {
            const uint8_t **more = realloc(found, (2 * room + 16) * sizeof(*found));
            if (!more) {
                free(found);
                return -ENOMEM;
            }
            found = more;
            room = 2 * room + 16;
        }
        found[count++] = from;
    }
    while (r == 0 && count > 0) {
        at = found[--count];
        if (next(&at, end, &e) > 0)
            r = carry_out(root, out, &e);
    }
    free(found);
    return r;
}

static int check(const struct atoll_buf *in)
{
    static struct entry e;
    const uint8_t *at = atoll_buf_head(in), *end = at ? at + atoll_buf_size(in) : NULL;
    int r = at ? 1 : -EINVAL;

    while (r > 0)
        r = next(&at, end, &e);
    return r;
}

int atoll_diff_apply(int root_fd, int in_fd, int out_fd, struct atoll_error *err)
{
    char path[PATH_MAX] = "";
    struct atoll_buf in;
    int r;

    atoll_buf_init(&in, INPUT_MAX);
    r = read_all(in_fd, &in);
    if (r == 0)
        r = check(&in);
    if (r < 0) {
        atoll_buf_done(&in);
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, -r, "not a whole stream of changes");
    }
    r = pass(root_fd, out_fd, &in, ATOLL_DIFF_REMOVE, false, path);
    if (r == 0)
        r = remove_directories(root_fd, out_fd, &in);
    if (r == 0)
        r = pass(root_fd, out_fd, &in, ATOLL_DIFF_PUT, true, path);
    if (r == 0)
        r = pass(root_fd, out_fd, &in, ATOLL_DIFF_PUT, false, path);
    atoll_buf_done(&in);
    return r < 0 ? atoll_fail_errno(err, -r, "write /%.200s", path) : 0;
}
