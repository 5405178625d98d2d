/*
 * FILE_REMOVE of a tree of any depth. One directory is open at a time; the parent is opened through
 * "..", and its device and inode must be those seen on the way down, so that a tenant who moves
 * directories meanwhile cannot redirect the removal. Links are removed, not followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"

#define LEVELS_MAX (256 * 1024)
/* Work of one step: reads of a directory; the entries of each read are removed. */
#define READS_PER_STEP 4
#define DENTS_BYTES (4 * 1024)
/* Gives up after processes have added entries to the tree this many times. */
#define REFILLS_MAX 4096

/* A directory above the current one. */
struct level {
    dev_t dev;
    ino_t ino;
    off_t pos; /* where reading continues: before the entry that was entered */
};

struct removal {
    struct atoll_agent_job job;
    struct atoll_agent_user user;
    int parent_fd; /* owned: of the topmost directory */
    char *name;    /* owned: of the topmost directory there */
    char *path;    /* owned, for messages */
    int dir_fd;    /* owned: the current directory */
    off_t pos;
    struct level *levels; /* owned */
    size_t depth, cap;
    bool second_pass; /* this is the second pass over the directory */
    int refills;
};

static void removal_free(struct atoll_agent_job *job)
{
    struct removal *m = ATOLL_CONTAINER_OF(job, struct removal, job);

    if (m->dir_fd >= 0)
        (void)close(m->dir_fd);
    if (m->parent_fd >= 0)
        (void)close(m->parent_fd);
    free(m->levels);
    free(m->name);
    free(m->path);
    free(m);
}

/* Enters `name`; reading of the current directory will continue at `pos`. */
static int enter(struct removal *m, const char *name, off_t pos)
{
    int fd = openat(m->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return -errno;
    if (m->depth == m->cap) {
        size_t cap = ATOLL_MAX(m->cap * 2, (size_t)64);
        struct level *grown = cap > LEVELS_MAX ? NULL : realloc(m->levels, cap * sizeof(*grown));
        if (!grown) {
            (void)close(fd);
            return -ENOMEM;
        }
        m->levels = grown;
        m->cap = cap;
    }
    if (fstat(m->dir_fd, &st) < 0) {
        (void)close(fd);
        return -errno;
    }
    m->levels[m->depth++] = (struct level){st.st_dev, st.st_ino, pos};
    (void)close(m->dir_fd);
    m->dir_fd = fd;
    m->pos = 0;
    return 0;
}

/* Returns to the parent; the directory just emptied is read there again as an entry and removed. */
static int leave(struct removal *m)
{
    const struct level *up = &m->levels[m->depth - 1];
    int fd = openat(m->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return -errno;
    (void)close(m->dir_fd);
    m->dir_fd = fd;
    if (fstat(fd, &st) < 0 || st.st_dev != up->dev || st.st_ino != up->ino)
        return -ESTALE;
    m->pos = up->pos;
    m->depth--;
    return 0;
}

/* Removes one entry. 1: it is a directory that is not empty. */
static int remove_entry(struct removal *m, const struct atoll_agent_dent *d)
{
    bool dir = d->type == DT_DIR;

    if (!dir) {
        if (unlinkat(m->dir_fd, d->name, 0) == 0 || errno == ENOENT)
            return 0;
        if (errno != EISDIR)
            return -errno;
    }
    if (unlinkat(m->dir_fd, d->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == ENOTEMPTY || errno == EEXIST ? 1 : -errno;
}

/* Handles one entry; *ret_entered is true if it was entered. */
static int handle_entry(struct removal *m, const struct atoll_agent_dent *d, off_t before,
                        bool *ret_entered)
{
    int r;

    if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0)
        return 0;
    if (m->second_pass && ++m->refills > REFILLS_MAX)
        return -EBUSY;
    m->second_pass = false;
    r = remove_entry(m, d);
    if (r > 0) {
        r = enter(m, d->name, before);
        *ret_entered = r == 0;
    }
    return r;
}

/* The current directory was read to its end. Some file systems skip entries while others are
 * removed, so it counts as empty only after a second pass found nothing. 1: call again, 0: the tree
 * is removed. */
static int finish_directory(struct removal *m)
{
    m->pos = 0;
    if (!m->second_pass) {
        m->second_pass = true;
        return 1;
    }
    m->second_pass = false;
    if (m->depth > 0) {
        int r = leave(m);
        return r < 0 ? r : 1;
    }
    if (unlinkat(m->parent_fd, m->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if ((errno != ENOTEMPTY && errno != EEXIST) || ++m->refills > REFILLS_MAX)
        return -errno;
    return 1;
}

/* Reads the directory once and removes these entries. 1: call again, 0: the tree is removed. */
static int advance(struct removal *m)
{
    char *dents = (char *)atoll_agent_scratch;
    bool entered = false;
    long n;
    int r = 0;

    if (lseek(m->dir_fd, m->pos, SEEK_SET) < 0)
        return -errno;
    n = syscall(SYS_getdents64, m->dir_fd, dents, DENTS_BYTES);
    if (n < 0)
        return -errno;
    if (n == 0)
        return finish_directory(m);
    for (long at = 0; at < n && r == 0 && !entered;) {
        const struct atoll_agent_dent *d = (const void *)(dents + at);
        r = handle_entry(m, d, m->pos, &entered);
        if (!entered)
            m->pos = d->off;
        at += d->reclen;
    }
    return r < 0 ? r : 1;
}

static int removal_step(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err)
{
    struct removal *m = ATOLL_CONTAINER_OF(job, struct removal, job);
    int r = atoll_agent_become(a, &m->user, err);

    if (r < 0)
        return r;
    r = 1;
    for (int i = 0; i < READS_PER_STEP && r > 0; i++)
        r = advance(m);
    atoll_agent_unbecome(a);
    if (r == -ESTALE)
        return atoll_fail(err, ATOLL_ERR_ABORTED, ESTALE,
                          "%.300s: its directories were moved while they were being removed",
                          m->path);
    return r < 0 ? atoll_agent_path_fail(err, -r, m->path) : r;
}

/* Takes ownership of parent_fd, also on failure. */
static int removal_new(const struct atoll_agent_path *p, int parent_fd, const char *name,
                       uint32_t request, struct removal **ret_removal)
{
    struct removal *m = calloc(1, sizeof(*m));
    int r = 0;

    if (!m) {
        (void)close(parent_fd);
        return -ENOMEM;
    }
    m->job =
        (struct atoll_agent_job){.request = request, .step = removal_step, .free = removal_free};
    m->user = p->user;
    m->parent_fd = parent_fd;
    m->name = strdup(name);
    m->path = strdup(p->text);
    m->dir_fd =
        openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (m->dir_fd < 0)
        r = -errno;
    else if (!m->name || !m->path)
        r = -ENOMEM;
    if (r < 0)
        removal_free(&m->job);
    else
        *ret_removal = m;
    return r;
}

int atoll_agent_on_file_remove(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_path *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    ATOLL_AUTOCLOSE int dir_fd = ATOLL_NO_FD;
    struct removal *m;
    const char *name;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r < 0)
        return r;
    dir_fd = atoll_agent_path_open_parent(p.text, &name, err);
    if (dir_fd < 0)
        return dir_fd;
    if (unlinkat(dir_fd, name, 0) == 0)
        return 0;
    /* EISDIR: try it as an empty directory. */
    if (errno == EISDIR && unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (!msg->recursive || (errno != ENOTEMPTY && errno != EEXIST))
        return atoll_agent_path_fail(err, errno, p.text);
    r = removal_new(&p, ATOLL_TAKE_FD(dir_fd), name, request, &m);
    if (r < 0)
        return atoll_agent_path_fail(err, -r, p.text);
    r = atoll_agent_job_add(a, &m->job, err);
    if (r < 0) {
        removal_free(&m->job);
        return r;
    }
    return ATOLL_AGENT_ANSWERED;
}
