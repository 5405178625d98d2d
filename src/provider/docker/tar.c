/* A tar archive of one file, generated while it is read: memory does not depend on its size. */
#include "base/tar.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "provider/docker/docker_internal.h"

#define HEAD_MAX (64 * 1024)

struct atoll_docker_tar {
    struct atoll_buf head; /* not read yet */
    int fd;                /* owned */
    uint64_t left;         /* bytes of the file */
    size_t zeros;          /* after them: padding, and the end of the archive */
};

int atoll_docker_tar_file(const char *path, const char *name, struct atoll_docker_tar **ret,
                          struct atoll_error *err)
{
    struct atoll_docker_tar *t = calloc(1, sizeof(*t));
    struct stat st;
    int r;

    if (!t)
        return atoll_fail_errno(err, ENOMEM, "archive");
    atoll_buf_init(&t->head, HEAD_MAX);
    t->fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    r = t->fd < 0 || fstat(t->fd, &st) < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_tar_head(&t->head, &(struct atoll_tar_entry){.type = ATOLL_TAR_FILE,
                                                               .name = name,
                                                               .mode = st.st_mode,
                                                               .size = (uint64_t)st.st_size,
                                                               .mtime_s = st.st_mtime});
    if (r < 0) {
        (void)atoll_docker_tar_free(t);
        return atoll_fail_errno(err, -r, "archive");
    }
    t->left = (uint64_t)st.st_size;
    t->zeros = atoll_tar_padding(t->left) + 2 * (size_t)ATOLL_TAR_BLOCK;
    *ret = t;
    return 0;
}

struct atoll_docker_tar *atoll_docker_tar_free(struct atoll_docker_tar *t)
{
    if (!t)
        return NULL;
    if (t->fd >= 0)
        (void)close(t->fd);
    atoll_buf_done(&t->head);
    free(t);
    return NULL;
}

/* If the file shrinks meanwhile, the archive fails. */
static ssize_t read_file(struct atoll_docker_tar *t, void *out, size_t cap)
{
    ssize_t n = read(t->fd, out, (size_t)ATOLL_MIN((uint64_t)cap, t->left));

    if (n <= 0)
        return n < 0 ? -errno : -EIO;
    t->left -= (uint64_t)n;
    return n;
}

ssize_t atoll_docker_tar_read(void *arg, void *out, size_t cap)
{
    struct atoll_docker_tar *t = arg;
    size_t n = ATOLL_MIN(cap, atoll_buf_size(&t->head));

    if (n > 0) {
        memcpy(out, atoll_buf_head(&t->head), n);
        atoll_buf_consume(&t->head, n);
        return (ssize_t)n;
    }
    if (t->left > 0)
        return read_file(t, out, cap);
    n = ATOLL_MIN(cap, t->zeros);
    memset(out, 0, n);
    t->zeros -= n;
    return (ssize_t)n;
}
