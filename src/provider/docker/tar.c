/* Tar archives, generated while they are read: memory does not depend on the size of the tree. */
#include "base/tar.h"
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "provider/docker/docker_internal.h"

#define OUT_MAX (64 * 1024)

struct atoll_docker_tar {
    char *path; /* owned: the root of the walk */
    char *name; /* owned: name of a single file; NULL: a tree */
    uint32_t id_base;
    FTS *walk;            /* owned; NULL at the end */
    struct atoll_buf out; /* headers to be read next */
    int fd;               /* owned: the current file */
    uint64_t left;        /* bytes left of its contents */
    size_t padding;       /* zero bytes after them */
    bool ended;
    int failed; /* -errno of the first failure */
};

static int fail_new(struct atoll_docker_tar *tar, struct atoll_error *err, int errnum)
{
    (void)atoll_docker_tar_free(tar);
    return atoll_fail_errno(err, errnum, "archive");
}

static int tar_new(const char *path, const char *name, uint32_t id_base,
                   struct atoll_docker_tar **ret, struct atoll_error *err)
{
    struct atoll_docker_tar *t = calloc(1, sizeof(*t));
    char *roots[2] = {NULL, NULL};

    if (!t)
        return atoll_fail_errno(err, ENOMEM, "archive");
    t->fd = ATOLL_NO_FD;
    t->id_base = id_base;
    atoll_buf_init(&t->out, OUT_MAX);
    t->path = strdup(path);
    t->name = name ? strdup(name) : NULL;
    if (!t->path || (name && !t->name))
        return fail_new(t, err, ENOMEM);
    roots[0] = t->path;
    t->walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
    if (!t->walk)
        return fail_new(t, err, errno);
    *ret = t;
    return 0;
}

int atoll_docker_tar_file(const char *path, const char *name, struct atoll_docker_tar **ret,
                          struct atoll_error *err)
{
    return tar_new(path, name, 0, ret, err);
}

int atoll_docker_tar_tree(const char *dir, uint32_t id_base, struct atoll_docker_tar **ret,
                          struct atoll_error *err)
{
    return tar_new(dir, NULL, id_base, ret, err);
}

struct atoll_docker_tar *atoll_docker_tar_free(struct atoll_docker_tar *t)
{
    if (!t)
        return NULL;
    if (t->walk)
        (void)fts_close(t->walk);
    if (t->fd >= 0)
        (void)close(t->fd);
    atoll_buf_done(&t->out);
    free(t->path);
    free(t->name);
    free(t);
    return NULL;
}

/* --- entries --- */

static uint32_t shifted(const struct atoll_docker_tar *t, uint32_t id)
{
    return id >= t->id_base && id - t->id_base < ATOLL_ID_RANGE ? id - t->id_base : 0;
}

static int put_entry(struct atoll_docker_tar *t, const char *name, const char *target,
                     enum atoll_tar_type type, const struct stat *st)
{
    return atoll_tar_head(&t->out, &(struct atoll_tar_entry){.type = type,
                                                             .name = name,
                                                             .target = target,
                                                             .mode = st->st_mode,
                                                             .uid = shifted(t, st->st_uid),
                                                             .gid = shifted(t, st->st_gid),
                                                             .size = (uint64_t)st->st_size,
                                                             .mtime_s = st->st_mtime});
}

static int put_file(struct atoll_docker_tar *t, const char *path, const char *name)
{
    struct stat st;

    t->fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (t->fd < 0 || fstat(t->fd, &st) < 0)
        return -errno;
    t->left = (uint64_t)st.st_size;
    t->padding = atoll_tar_padding(t->left);
    return put_entry(t, name, NULL, ATOLL_TAR_FILE, &st);
}

static int put_link(struct atoll_docker_tar *t, const FTSENT *e, const char *name)
{
    char target[4096];
    ssize_t n = readlink(e->fts_accpath, target, sizeof(target) - 1);

    if (n < 0)
        return -errno;
    target[n] = '\0';
    return put_entry(t, name, target, ATOLL_TAR_SYMLINK, e->fts_statp);
}

/* --- the walk --- */

static int put_next(struct atoll_docker_tar *t)
{
    static const uint8_t zeros[2 * ATOLL_TAR_BLOCK];
    FTSENT *e = fts_read(t->walk);
    const char *name;

    if (!e) {
        t->ended = true;
        return errno ? -errno : atoll_buf_append(&t->out, zeros, sizeof(zeros));
    }
    name = t->name ? t->name : e->fts_path + strlen(t->path);
    name += *name == '/';
    switch (e->fts_info) {
    case FTS_D:
        return *name ? put_entry(t, name, NULL, ATOLL_TAR_DIRECTORY, e->fts_statp) : 0;
    case FTS_F:
        return put_file(t, e->fts_accpath, name);
    case FTS_SL:
    case FTS_SLNONE:
        return put_link(t, e, name);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        return -e->fts_errno;
    default:
        return 0;
    }
}

/* Reads contents of the current file. If the file shrinks meanwhile, the archive fails. */
static ssize_t read_contents(struct atoll_docker_tar *t, void *out, size_t cap)
{
    size_t n = (size_t)ATOLL_MIN((uint64_t)cap, t->left);
    ssize_t r = n > 0 ? read(t->fd, out, n) : 0;

    if (r < 0 || (n > 0 && r == 0))
        return r < 0 ? -errno : -EIO;
    t->left -= (uint64_t)r;
    if (n == 0) {
        r = (ssize_t)ATOLL_MIN(cap, t->padding);
        memset(out, 0, (size_t)r);
        t->padding -= (size_t)r;
    }
    if (t->left == 0 && t->padding == 0) {
        (void)close(t->fd);
        t->fd = ATOLL_NO_FD;
    }
    return r;
}

ssize_t atoll_docker_tar_read(void *arg, void *out, size_t cap)
{
    struct atoll_docker_tar *t = arg;
    size_t n;

    while (t->failed == 0) {
        if (atoll_buf_size(&t->out) > 0) {
            n = ATOLL_MIN(cap, atoll_buf_size(&t->out));
            memcpy(out, atoll_buf_head(&t->out), n);
            atoll_buf_consume(&t->out, n);
            return (ssize_t)n;
        }
        if (t->fd >= 0) {
            ssize_t r = read_contents(t, out, cap);
            if (r != 0)
                return r;
        } else if (t->ended) {
            return 0;
        } else {
            errno = 0;
            t->failed = put_next(t);
        }
    }
    return t->failed;
}
