#include "copy/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/fd.h"

#define BUFFER_BYTES ((size_t)256 * 1024)
#define NAMES_MAX ((size_t)64 * 1024)
#define VALUE_MAX ((size_t)64 * 1024) /* of the kernel */

int atoll_copy_failed(struct atoll_error *err, int errnum, const char *what, const char *path)
{
    if (atoll_errno_is_full(errnum))
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum, "%s %.200s: the disk is full",
                          what, path);
    if (errnum == EISDIR || errnum == ENOTDIR || errnum == ENOTEMPTY || errnum == EEXIST)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, errnum, "%s %.200s: %s", what, path,
                          errnum == ENOTDIR ? "a file is in the place of a directory"
                                            : "a directory is in the place of a file");
    if (errnum == ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, errnum, "%s %.200s: it does not exist", what,
                          path);
    return atoll_fail_errno(err, errnum, "%s %.200s", what, path);
}

static bool is_kept_xattr(const char *name)
{
    return strcmp(name, "security.capability") == 0 ||
           (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0);
}

/* File systems without attributes, and those that refuse one, are no error. */
static void copy_xattrs(int from, int to)
{
    ATOLL_AUTOFREE char *names = malloc(NAMES_MAX);
    ATOLL_AUTOFREE char *value = malloc(VALUE_MAX);
    ssize_t n = names && value ? flistxattr(from, names, NAMES_MAX) : -1;

    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(names + i) + 1) {
        ssize_t len = is_kept_xattr(names + i) ? fgetxattr(from, names + i, value, VALUE_MAX) : -1;
        if (len >= 0)
            (void)!fsetxattr(to, names + i, value, (size_t)len, 0);
    }
}

static uid_t uid_of(const struct stat *st, const struct atoll_copy_options *o)
{
    return o->keep_owner ? st->st_uid : o->uid;
}

static gid_t gid_of(const struct stat *st, const struct atoll_copy_options *o)
{
    return o->keep_owner ? st->st_gid : o->gid;
}

int atoll_copy_facts(int from, const struct stat *st, int to, const char *path,
                     const struct atoll_copy_options *options, struct atoll_error *err)
{
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    mode_t mode = options->has_mode ? options->mode : st->st_mode & 07777;

    if (fchown(to, uid_of(st, options), gid_of(st, options)) < 0)
        return atoll_copy_failed(err, errno, "set the owner of", path);
    if (fchmod(to, mode) < 0)
        return atoll_copy_failed(err, errno, "set the mode of", path);
    copy_xattrs(from, to); /* after the owner, whose change drops capabilities */
    return futimens(to, times) < 0 ? atoll_copy_failed(err, errno, "set the time of", path) : 0;
}

static int copy_by_buffer(int from, int to)
{
    ATOLL_AUTOFREE uint8_t *buffer = malloc(BUFFER_BYTES);

    if (!buffer)
        return -ENOMEM;
    for (;;) {
        ssize_t n = read(from, buffer, BUFFER_BYTES);
        int r;

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        r = atoll_fd_write_all(to, buffer, (size_t)n);
        if (r < 0)
            return r;
    }
}

static int copy_content(int from, int to)
{
    for (;;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);

        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            break; /* not between these file systems; the offsets are as they were */
    }
    /* Also after its end: some file systems end early, with files whose size they do not know. */
    return copy_by_buffer(from, to);
}

/* Removes a file or a link at the destination. */
static int clear(int to, const char *name)
{
    return unlinkat(to, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

int atoll_copy_opened(int in, int out, int to, const char *to_name, const char *path,
                      const struct atoll_copy_options *options, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int made = ATOLL_NO_FD;
    struct stat st;
    int r = fstat(in, &st) < 0 ? -errno : 0;

    if (r == 0 && out < 0)
        r = clear(to, to_name);
    if (r == 0 && out < 0) {
        out = made =
            openat(to, to_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = made < 0 ? -errno : 0;
    }
    if (r == 0)
        r = copy_content(in, out);
    return r < 0 ? atoll_copy_failed(err, -r, "copy", path)
                 : atoll_copy_facts(in, &st, out, path, options, err);
}

static int copy_file(int from, const char *name, int to, const char *to_name, const char *path,
                     const struct atoll_copy_options *options, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return in < 0 ? atoll_copy_failed(err, errno, "read", path)
                  : atoll_copy_opened(in, -1, to, to_name, path, options, err);
}

static int make_link(int from, const char *name, int to, const char *to_name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to, to_name) < 0 ? -errno : 0;
}

static int copy_special(int from, const char *name, const struct stat *st, int to,
                        const char *to_name, const char *path,
                        const struct atoll_copy_options *options, struct atoll_error *err)
{
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    int r = clear(to, to_name);

    if (r == 0 && S_ISLNK(st->st_mode))
        r = make_link(from, name, to, to_name);
    else if (r == 0 && mkfifoat(to, to_name, 0600) < 0)
        r = -errno;
    if (r == 0 &&
        (fchownat(to, to_name, uid_of(st, options), gid_of(st, options), AT_SYMLINK_NOFOLLOW) < 0 ||
         utimensat(to, to_name, times, AT_SYMLINK_NOFOLLOW) < 0))
        r = -errno;
    /* After the owner: a change of it clears the bits of set-user-id and set-group-id. */
    if (r == 0 && S_ISFIFO(st->st_mode) &&
        fchmodat(to, to_name, options->has_mode ? options->mode : st->st_mode & 07777, 0) < 0)
        r = -errno;
    return r < 0 ? atoll_copy_failed(err, -r, "copy", path) : 0;
}

int atoll_copy_entry(int from, const char *name, const struct stat *st, int to, const char *to_name,
                     const char *path, const struct atoll_copy_options *options,
                     struct atoll_error *err)
{
    if (S_ISREG(st->st_mode))
        return copy_file(from, name, to, to_name, path, options, err);
    if (S_ISLNK(st->st_mode) || S_ISFIFO(st->st_mode))
        return copy_special(from, name, st, to, to_name, path, options, err);
    return 0;
}
