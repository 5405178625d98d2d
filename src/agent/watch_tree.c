/*
 * The directories of a watch. A recursive watch has one kernel watch per directory; a job adds
 * them, a few at a time, at start and when a directory appears. Entries that a new directory
 * already contains are reported as created, so none is missed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include "agent/watch_internal.h"

#define READS_PER_STEP 16
#define EVENTS                                                                       \
    (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | \
     IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

static void pending_pop(struct atoll_agent_watch *w)
{
    struct atoll_agent_watch_pending *p = w->first;

    if (w->scan_fd >= 0)
        (void)close(ATOLL_TAKE_FD(w->scan_fd));
    w->first = p->next;
    if (!w->first)
        w->last = &w->first;
    free(p);
}

void atoll_agent_watch_free(struct atoll_agent_watch *w)
{
    atoll_watch_close(&w->ready);
    while (w->first)
        pending_pop(w);
    for (size_t i = 0; i < w->dir_count; i++)
        free(w->dirs[i].path);
    free(w->dirs);
    free(w->root_path);
    if (w->fd >= 0)
        (void)close(w->fd);
    free(w);
}

bool atoll_agent_watch_join(const char *dir, const char *name, char out[ATOLL_AGENT_WATCH_PATH_MAX])
{
    int n =
        snprintf(out, ATOLL_AGENT_WATCH_PATH_MAX, "%s%s%s", dir, *dir && *name ? "/" : "", name);
    return n < ATOLL_AGENT_WATCH_PATH_MAX;
}

struct atoll_agent_watch_dir *atoll_agent_watch_dir_of(const struct atoll_agent_watch *w, int wd)
{
    size_t low = 0, high = w->dir_count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (w->dirs[mid].wd < wd)
            low = mid + 1;
        else
            high = mid;
    }
    return low < w->dir_count && w->dirs[low].wd == wd ? &w->dirs[low] : NULL;
}

/* Removes the entries of directories that are no longer watched. */
static void compact(struct atoll_agent_watch *w)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->dir_count; i++)
        if (w->dirs[i].path)
            w->dirs[kept++] = w->dirs[i];
    w->dir_count = kept;
}

/* Stores wd for the directory at path. The kernel assigns ascending watch descriptors. */
static int add_dir(struct atoll_agent_watch *w, int wd, const char *path)
{
    struct atoll_agent_watch_dir *known = atoll_agent_watch_dir_of(w, wd);
    char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    if (known) { /* the same directory under a new name */
        free(known->path);
        known->path = copy;
        return 0;
    }
    if (w->dir_count == w->dir_cap)
        compact(w);
    if (w->dir_count == w->dir_cap) {
        size_t cap = ATOLL_MAX(w->dir_cap * 2, (size_t)16);
        struct atoll_agent_watch_dir *grown =
            cap > ATOLL_AGENT_WATCH_DIRS_MAX ? NULL : realloc(w->dirs, cap * sizeof(*grown));
        if (!grown) {
            free(copy);
            return cap > ATOLL_AGENT_WATCH_DIRS_MAX ? -ENOSPC : -ENOMEM;
        }
        w->dirs = grown;
        w->dir_cap = cap;
    }
    w->dirs[w->dir_count++] = (struct atoll_agent_watch_dir){wd, copy};
    return 0;
}

void atoll_agent_watch_drop_below(struct atoll_agent_watch *w, const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < w->dir_count; i++) {
        struct atoll_agent_watch_dir *d = &w->dirs[i];
        if (!d->path || strncmp(d->path, path, n) != 0 || (d->path[n] != '/' && d->path[n] != '\0'))
            continue;
        (void)inotify_rm_watch(w->fd, d->wd);
        free(ATOLL_TAKE_PTR(d->path));
    }
}

static int add_pending(struct atoll_agent_watch *w, const char *path, bool report)
{
    size_t n = strlen(path) + 1;
    struct atoll_agent_watch_pending *p = malloc(sizeof(*p) + n);

    if (!p)
        return -ENOMEM;
    p->next = NULL;
    p->report = report;
    memcpy(p->path, path, n);
    *w->last = p;
    w->last = &p->next;
    return 0;
}

/* One entry of a directory being added. */
static int scan_entry(struct atoll_agent_watch *w, const struct atoll_agent_watch_pending *p,
                      const struct atoll_agent_dent *d)
{
    char path[ATOLL_AGENT_WATCH_PATH_MAX];
    bool is_dir = d->type == DT_DIR;
    struct stat st;

    if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0 ||
        !atoll_agent_watch_join(p->path, d->name, path))
        return 0;
    if (p->report)
        atoll_agent_watch_tell(w, ATOLL_WATCH_CREATE, path);
    if (d->type == DT_UNKNOWN)
        is_dir = fstatat(w->scan_fd, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return is_dir && w->recursive ? add_pending(w, path, p->report) : 0;
}

/* Opens the root of the watch, if it is still the same directory. */
static int open_root(const struct atoll_agent_watch *w)
{
    int fd = atoll_agent_path_open(AT_FDCWD, w->root_path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && st.st_dev == w->root_dev && st.st_ino == w->root_ino)
        return fd;
    (void)close(fd);
    return -ENOENT;
}

/* Watches the first pending directory and opens it for reading. -errno. */
static int begin_scan(struct atoll_agent_watch *w, const char *path)
{
    ATOLL_AUTOCLOSE int root_fd = open_root(w);
    char full[ATOLL_AGENT_WATCH_PATH_MAX + 32];
    int wd;
    int r;

    if (root_fd < 0)
        return root_fd;
    (void)snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", root_fd, path);
    wd = inotify_add_watch(w->fd, full, EVENTS);
    if (wd < 0)
        return -errno;
    r = add_dir(w, wd, path);
    if (r < 0)
        return r;
    w->scan_fd = atoll_agent_path_open_below(root_fd, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    return w->scan_fd < 0 ? w->scan_fd : 0;
}

/* True for errors that concern one directory only. */
static bool is_local(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -ELOOP || r == -ENAMETOOLONG;
}

/* Does some work on the first pending directory. */
static int scan_some(struct atoll_agent_watch *w)
{
    char *dents = (char *)atoll_agent_scratch;
    struct atoll_agent_watch_pending *p = w->first;
    long n = 0;
    int r = 0;

    if (w->scan_fd < 0)
        r = begin_scan(w, p->path);
    if (r == 0)
        n = syscall(SYS_getdents64, w->scan_fd, dents, ATOLL_AGENT_WATCH_CHUNK);
    if (n < 0)
        r = -errno;
    for (long at = 0; at < n && r == 0;) {
        const struct atoll_agent_dent *d = (const void *)(dents + at);
        r = scan_entry(w, p, d);
        at += d->reclen;
    }
    if (is_local(r) && *p->path)
        r = n = 0;
    if (n <= 0 || r < 0)
        pending_pop(w);
    return r;
}

int atoll_agent_watch_explain(const struct atoll_agent_watch *w, struct atoll_error *err, int r)
{
    if (r == -ENOSPC || r == -EMFILE)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          "there are more directories than can be watched (%d)",
                          ATOLL_AGENT_WATCH_DIRS_MAX);
    if (r == -ENOMEM)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "no memory to watch");
    return atoll_agent_path_fail(err, -r, w->root_path);
}

static int watch_step(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err)
{
    struct atoll_agent_watch *w = ATOLL_CONTAINER_OF(job, struct atoll_agent_watch, job);
    struct atoll_am_handle reply = {w->handle};
    int r = w->failed ? 0 : atoll_agent_become(a, &w->user, err);

    if (r < 0 || w->failed)
        return r;
    for (int i = 0; i < READS_PER_STEP && r == 0 && w->first && atoll_agent_conn_has_room(a); i++)
        r = scan_some(w);
    atoll_agent_unbecome(a);
    if (r < 0 && w->request != 0) {
        w->failed = true;
        return atoll_agent_watch_explain(w, err, r);
    }
    if (r < 0)
        atoll_agent_watch_tell(w, ATOLL_WATCH_OVERFLOW, ""); /* a directory is not watched now */
    if (w->first)
        return 1;
    if (w->request != 0)
        atoll_agent_reply(a, w->request, &atoll_am_handle_desc, &reply);
    w->request = job->request = 0;
    return 0;
}

static void job_free(struct atoll_agent_job *job)
{
    struct atoll_agent_watch *w = ATOLL_CONTAINER_OF(job, struct atoll_agent_watch, job);

    w->working = false;
    if (w->failed)
        atoll_agent_watch_forget(w);
}

int atoll_agent_watch_add(struct atoll_agent_watch *w, const char *path, bool report,
                          struct atoll_error *err)
{
    int r = add_pending(w, path, report);

    if (r < 0)
        return atoll_agent_watch_explain(w, err, r);
    if (w->working)
        return 0;
    w->job = (struct atoll_agent_job){.request = w->request, .step = watch_step, .free = job_free};
    r = atoll_agent_job_add(w->agent, &w->job, err);
    if (r == 0)
        w->working = true;
    return r;
}

int atoll_agent_watch_find_root(struct atoll_agent_watch *w, const char *path)
{
    ATOLL_AUTOCLOSE int fd = atoll_agent_path_open(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    char real[ATOLL_AGENT_PATH_MAX], link[32];
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return fd;
    n = readlink(atoll_agent_path_of_fd(fd, link), real, sizeof(real) - 1);
    if (n < 0 || fstat(fd, &st) < 0)
        return -errno;
    real[n] = '\0';
    w->root_dev = st.st_dev;
    w->root_ino = st.st_ino;
    w->root_path = strdup(real);
    return w->root_path ? 0 : -ENOMEM;
}
