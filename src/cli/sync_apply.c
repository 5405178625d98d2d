#include "cli/sync_apply.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/fd.h"
#include "base/tar.h"

#define HEAD_MAX ((size_t)64 * 1024)

static int join(const struct atoll_sync_job *job, const char *path,
                char out[static ATOLL_CLI_COPY_PATH_MAX], struct atoll_error *err)
{
    const char *top = strcmp(job->top, "/") == 0 ? "" : job->top;

    if ((size_t)snprintf(out, ATOLL_CLI_COPY_PATH_MAX, "%s/%s", top, path) >=
        ATOLL_CLI_COPY_PATH_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "a path is too long");
    return 0;
}

/* Pushing. */

struct packer {
    const struct atoll_sync_job *job;
    size_t at; /* the next step */
    struct atoll_buf out;
    int fd; /* the file that is being sent, or ATOLL_NO_FD */
    uint64_t left;
    size_t padding;
    bool ended;
};

static int begin_entry(struct packer *p, const struct atoll_sync_entry *e)
{
    struct atoll_tar_entry head = {.type = e->kind == ATOLL_SYNC_FILE   ? ATOLL_TAR_FILE
                                           : e->kind == ATOLL_SYNC_LINK ? ATOLL_TAR_SYMLINK
                                                                        : ATOLL_TAR_DIRECTORY,
                                   .name = e->path,
                                   .target = e->target,
                                   .mode = e->mode,
                                   .mtime_s = e->mtime_ms / 1000};
    struct stat st;

    if (e->kind == ATOLL_SYNC_FILE) {
        p->fd = openat(p->job->dir_fd, e->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (p->fd < 0 && errno == ENOENT)
            return 0; /* removed since: the next round sees it */
        if (p->fd < 0 || fstat(p->fd, &st) < 0)
            return -errno;
        if (!S_ISREG(st.st_mode)) {
            (void)close(ATOLL_TAKE_FD(p->fd));
            return 0;
        }
        head.size = p->left = (uint64_t)st.st_size;
        p->padding = atoll_tar_padding(head.size);
        head.mtime_s = st.st_mtim.tv_sec;
        p->job->copy->files++;
        p->job->copy->bytes += head.size;
    }
    return atoll_tar_head(&p->out, &head);
}

static int end_file(struct packer *p)
{
    static const uint8_t zeros[ATOLL_TAR_BLOCK];

    (void)close(ATOLL_TAKE_FD(p->fd));
    return atoll_buf_append(&p->out, zeros, p->padding);
}

/* Appends to p->out. */
static int advance(struct packer *p)
{
    static const uint8_t zeros[2 * ATOLL_TAR_BLOCK];

    if (p->fd >= 0 && p->left == 0)
        return end_file(p);
    while (p->at < p->job->count && p->job->steps[p->at].act != ATOLL_SYNC_PUSH)
        p->at++;
    if (p->at < p->job->count)
        return begin_entry(p, p->job->steps[p->at++].local);
    p->ended = true;
    return atoll_buf_append(&p->out, zeros, sizeof(zeros));
}

static ssize_t read_archive(void *arg, void *buf, size_t n)
{
    struct packer *p = arg;
    size_t ready;

    while ((ready = atoll_buf_size(&p->out)) == 0 && !p->ended && !(p->fd >= 0 && p->left > 0)) {
        int r = advance(p);
        if (r < 0)
            return r;
    }
    if (ready > 0) {
        n = ATOLL_MIN(n, ready);
        memcpy(buf, atoll_buf_head(&p->out), n);
        atoll_buf_consume(&p->out, n);
        return (ssize_t)n;
    }
    if (p->fd >= 0) {
        ssize_t r = read(p->fd, buf, (size_t)ATOLL_MIN((uint64_t)n, p->left));
        if (r <= 0)
            return r < 0 ? -errno : -ENODATA; /* it was truncated */
        p->left -= (uint64_t)r;
        return r;
    }
    return 0;
}

/* A file in the place of a directory, or the reverse, cannot be unpacked over it. */
static int make_way(const struct atoll_sync_job *job, struct atoll_error *err)
{
    char path[ATOLL_CLI_COPY_PATH_MAX];
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->count; i++) {
        const struct atoll_sync_step *s = &job->steps[i];

        if (s->act != ATOLL_SYNC_PUSH || !s->remote || s->remote->kind == s->local->kind)
            continue;
        r = join(job, s->remote->path, path, err);
        if (r == 0)
            r = atoll_cli_copy_call(job->copy, "DELETE", "", path, "", NULL, err);
    }
    return r;
}

int atoll_sync_push(struct atoll_sync_job *job, struct atoll_error *err)
{
    struct packer p = {.job = job, .fd = ATOLL_NO_FD};
    const struct atoll_http_transfer transfer = {.read = read_archive, .length = -1, .arg = &p};
    struct atoll_link_target target;
    size_t n = 0;
    int r;

    for (size_t i = 0; i < job->count; i++)
        n += job->steps[i].act == ATOLL_SYNC_PUSH;
    if (n == 0)
        return 0;
    r = make_way(job, err);
    if (r == 0)
        r = job->copy->user
                ? atoll_link_target(&target, err, "/api/sandboxes/%s/archive?path=%s&user=%s",
                                    job->copy->sandbox, job->top, job->copy->user)
                : atoll_link_target(&target, err, "/api/sandboxes/%s/archive?path=%s",
                                    job->copy->sandbox, job->top);
    if (r < 0)
        return r;
    atoll_buf_init(&p.out, HEAD_MAX);
    r = atoll_cli_stream(job->copy->cli, "PUT", target.text, &transfer, NULL, err);
    if (r < 0 && err->kind == ATOLL_ERR_CANCELED)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r, "reading the folder: %s",
                       r == -ENODATA ? "a file was truncated during the copy" : strerror(-r));
    atoll_buf_done(&p.out);
    if (p.fd >= 0)
        (void)close(p.fd);
    return r;
}

/* Pulling. */

int atoll_sync_open_parent(const struct atoll_sync_job *job, const char *path,
                           const char **ret_name)
{
    const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const char *slash = strrchr(path, '/');
    char parent[ATOLL_CLI_COPY_PATH_MAX];
    int fd;

    *ret_name = slash ? slash + 1 : path;
    (void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    fd = (int)syscall(SYS_openat2, job->dir_fd, parent, &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

static size_t depth_of(const char *path)
{
    size_t n = 0;

    while ((path = strchr(path, '/')) != NULL) {
        n++;
        path++;
    }
    return n;
}

static int pull_link(struct atoll_sync_job *job, const struct atoll_sync_entry *e, int parent,
                     const char *name)
{
    if (!atoll_cli_copy_is_inner_link(e->target, depth_of(e->path))) {
        atoll_cli_copy_skip(job->copy, e->path, "the link leads out of the folder");
        return 0;
    }
    if (unlinkat(parent, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return symlinkat(e->target, parent, name) < 0 ? -errno : 0;
}

static int pull_file(struct atoll_sync_job *job, const struct atoll_sync_entry *e, int parent,
                     const char *name, struct atoll_error *err)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_NOW},
                                      {e->mtime_ms / 1000, e->mtime_ms % 1000 * 1000000}};
    char from[ATOLL_CLI_COPY_PATH_MAX], to[ATOLL_CLI_COPY_PATH_MAX];
    int r = join(job, e->path, from, err);

    if (r < 0)
        return r;
    (void)snprintf(to, sizeof(to), "/proc/self/fd/%d/%s", parent, name);
    r = atoll_cli_copy_download(job->copy, from, to, err);
    if (r == 0)
        (void)utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW);
    return r;
}

/* Whether the local side is still what the plan saw. */
static bool is_as_planned(const struct atoll_sync_step *s, int parent, const char *name)
{
    struct stat st;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && !s->local;
    return s->local && (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode) ||
                        (s->local->size == (uint64_t)st.st_size &&
                         s->local->mtime_ms ==
                             st.st_mtim.tv_sec * INT64_C(1000) + st.st_mtim.tv_nsec / 1000000));
}

static int pull_one(struct atoll_sync_job *job, const struct atoll_sync_step *s,
                    struct atoll_error *err)
{
    const char *name = NULL;
    ATOLL_AUTOCLOSE int parent = atoll_sync_open_parent(job, s->remote->path, &name);
    int r = parent < 0 ? parent : 0;

    if (r == 0 && !is_as_planned(s, parent, name)) {
        atoll_cli_copy_skip(job->copy, s->remote->path, "it has changed meanwhile");
        return 0;
    }
    if (r == 0 && s->local && s->local->kind != s->remote->kind &&
        unlinkat(parent, name, s->local->kind == ATOLL_SYNC_DIRECTORY ? AT_REMOVEDIR : 0) < 0)
        r = -errno;
    if (r == 0 && s->remote->kind == ATOLL_SYNC_FILE)
        return pull_file(job, s->remote, parent, name, err);
    if (r == 0 && s->remote->kind == ATOLL_SYNC_LINK)
        r = pull_link(job, s->remote, parent, name);
    else if (r == 0 && mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        r = -errno;
    if (r < 0)
        atoll_cli_copy_skip(job->copy, s->remote->path, "%s", strerror(-r));
    return 0;
}

int atoll_sync_pull(struct atoll_sync_job *job, struct atoll_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < job->count; i++)
        if (job->steps[i].act == ATOLL_SYNC_PULL)
            r = pull_one(job, &job->steps[i], err);
    return r;
}

/* Removing. */

static void remove_local(struct atoll_sync_job *job, const struct atoll_sync_step *s)
{
    const char *name = NULL;
    ATOLL_AUTOCLOSE int parent = atoll_sync_open_parent(job, s->local->path, &name);

    if (parent < 0 || !is_as_planned(s, parent, name) ||
        (unlinkat(parent, name, s->local->kind == ATOLL_SYNC_DIRECTORY ? AT_REMOVEDIR : 0) < 0 &&
         errno != ENOENT))
        atoll_cli_copy_skip(job->copy, s->local->path, "it has changed meanwhile");
}

static int remove_remote(struct atoll_sync_job *job, const struct atoll_sync_step *s,
                         struct atoll_error *err)
{
    char path[ATOLL_CLI_COPY_PATH_MAX];
    int r = join(job, s->remote->path, path, err);

    if (r == 0)
        r = atoll_cli_copy_call(job->copy, "DELETE", "", path, "", NULL, err);
    if (r < 0 && err->kind == ATOLL_ERR_NOT_FOUND)
        return 0;
    if (r < 0 && s->remote->kind == ATOLL_SYNC_DIRECTORY &&
        err->kind == ATOLL_ERR_FAILED_PRECONDITION) {
        atoll_cli_copy_skip(job->copy, s->remote->path, "the sandbox has other files in it");
        return 0;
    }
    return r;
}

int atoll_sync_remove(struct atoll_sync_job *job, struct atoll_error *err)
{
    int r = 0;

    /* A directory sorts before what is in it. */
    for (size_t i = job->count; r == 0 && i-- > 0;) {
        if (job->steps[i].act == ATOLL_SYNC_REMOVE_LOCAL)
            remove_local(job, &job->steps[i]);
        else if (job->steps[i].act == ATOLL_SYNC_REMOVE_REMOTE)
            r = remove_remote(job, &job->steps[i], err);
    }
    return r;
}
