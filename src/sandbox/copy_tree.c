#include "sandbox/copy_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"

#define DEPTH_MAX 8

static int copy_file(int from_dir, const char *from, int to_dir, const char *to,
                     const struct stat *st)
{
    ATOLL_AUTOCLOSE int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ATOLL_AUTOCLOSE int out = ATOLL_NO_FD;

    if (!(st->st_mode & S_IROTH))
        return -EACCES;
    out = in < 0 ? -1 : openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    for (;;) {
        char chunk[16384];
        ssize_t n = read(in, chunk, sizeof(chunk));
        int r = n > 0 ? atoll_fd_write_all(out, chunk, (size_t)n) : 0;
        if (n < 0 || r < 0)
            return n < 0 ? -errno : r;
        if (n == 0)
            break;
    }
    return fchmod(out, st->st_mode & 0755) < 0 ? -errno : 0;
}

static int copy_link(int from_dir, const char *from, int to_dir, const char *to)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from_dir, from, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return symlinkat(target, to_dir, to) < 0 ? -errno : 0;
}

static int copy_any(int from_dir, const char *from, int to_dir, const char *to, unsigned *budget,
                    int depth);

static int copy_directory(int from_dir, const char *from, int to_dir, const char *to,
                          unsigned *budget, int depth)
{
    ATOLL_AUTOCLOSE int out = ATOLL_NO_FD;
    int in = openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = in < 0 ? NULL : fdopendir(in);
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return -errno;
    if (mkdirat(to_dir, to, 0755) < 0 ||
        (out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = -errno;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        r = copy_any(dirfd(dir), entry->d_name, out, entry->d_name, budget, depth + 1);
        if (r == -ENOENT || r == -EACCES)
            r = 0;
    }
    (void)closedir(dir);
    return r;
}

static int copy_any(int from_dir, const char *from, int to_dir, const char *to, unsigned *budget,
                    int depth)
{
    struct stat st;

    if (depth > DEPTH_MAX || *budget == 0)
        return -E2BIG;
    (*budget)--;
    if (fstatat(from_dir, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISREG(st.st_mode))
        return copy_file(from_dir, from, to_dir, to, &st);
    if (S_ISLNK(st.st_mode))
        return copy_link(from_dir, from, to_dir, to);
    return S_ISDIR(st.st_mode) ? copy_directory(from_dir, from, to_dir, to, budget, depth)
                               : -EACCES;
}

int atoll_copy_tree(int from_dir, const char *from, int to_dir, const char *to, unsigned *budget)
{
    return copy_any(from_dir, from, to_dir, to, budget, 0);
}
