#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/tree_line.h"
#include "copy/copy.h"

#define CHUNK_BYTES ((size_t)128 * 1024)
#define LINE_BYTES ((size_t)64 * 1024)
#define DEPTH_MAX 1000 /* each level has a descriptor open */

struct list {
    struct atoll_buf out;
    int out_fd;
    char path[PATH_MAX];
    unsigned depth;
};

static int flush(struct list *l)
{
    int r = atoll_fd_write_all(l->out_fd, atoll_buf_head(&l->out), atoll_buf_size(&l->out));

    atoll_buf_clear(&l->out);
    return r;
}

static char type_of(mode_t mode)
{
    return S_ISREG(mode)    ? ATOLL_TREE_FILE
           : S_ISDIR(mode)  ? ATOLL_TREE_DIRECTORY
           : S_ISLNK(mode)  ? ATOLL_TREE_LINK
           : S_ISFIFO(mode) ? ATOLL_TREE_FIFO
                            : '\0';
}

static int add_line(struct list *l, int dir, const char *name, const struct stat *st)
{
    char target[PATH_MAX] = "";
    struct atoll_tree_line line = {
        .type = (enum atoll_tree_type)type_of(st->st_mode),
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
        .path = l->path,
        .target = target,
    };
    int r;

    if (!line.type)
        return 0;
    if (S_ISREG(st->st_mode))
        memset(line.sha256, '0', sizeof(line.sha256) - 1);
    if (S_ISLNK(st->st_mode) && readlinkat(dir, name, target, sizeof(target) - 1) < 0)
        return -errno;
    r = atoll_tree_line_write(&l->out, &line);
    return r == 0 && atoll_buf_size(&l->out) >= CHUNK_BYTES ? flush(l) : r;
}

static int walk(struct list *l, int fd);

static int add(struct list *l, int dir, const char *name)
{
    size_t n = strlen(l->path), len = strlen(name);
    struct stat st;
    int r;

    if (n + len + 2 > sizeof(l->path))
        return -ENAMETOOLONG;
    if (n > 0)
        l->path[n] = '/';
    memcpy(l->path + n + (n > 0), name, len + 1);
    r = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : add_line(l, dir, name, &st);
    if (r == 0 && S_ISDIR(st.st_mode)) {
        int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : walk(l, fd);
    }
    l->path[n] = '\0';
    return r;
}

/* The content of a directory, whose descriptor is taken. */
static int walk(struct list *l, int fd)
{
    DIR *dir = l->depth < DEPTH_MAX ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int r = 0;

    if (!dir) {
        r = l->depth < DEPTH_MAX ? -errno : -ENAMETOOLONG;
        (void)close(fd);
        return r;
    }
    l->depth++;
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = add(l, fd, entry->d_name);
    if (r == 0 && errno != 0)
        r = -errno;
    l->depth--;
    (void)closedir(dir);
    return r;
}

int atoll_copy_list(int tree, int out, struct atoll_error *err)
{
    struct list l = {.out_fd = out};
    struct stat st;
    int fd = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

    atoll_buf_init(&l.out, CHUNK_BYTES + LINE_BYTES);
    if (r == 0)
        r = add_line(&l, fd, ".", &st);
    if (r == 0)
        r = walk(&l, ATOLL_TAKE_FD(fd));
    if (r == 0)
        r = flush(&l);
    if (fd >= 0)
        (void)close(fd);
    atoll_buf_done(&l.out);
    return r < 0 ? atoll_fail_errno(err, -r, "list %.200s", l.path) : 0;
}
