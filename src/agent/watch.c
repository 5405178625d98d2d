/*
 * Watching directories: one inotify instance per watch, whose kernel queue is also the buffer while
 * the daemon reads slowly. A recursive watch has one kernel watch per directory; directories are
 * added by a job, a few at a time, at the start and whenever one appears. What a new directory
 * already holds when it is added is reported as created, so nothing made in between is missed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"

#define WATCHES_MAX 32
#define DIRS_MAX 8192
#define RELATIVE_MAX 3072
/* Small pieces: each record may become a frame with a long path. */
#define CHUNK_BYTES 4096
#define READS_PER_STEP 16
#define EVENTS                                                                                     \
    (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |               \
     IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

/* A watched directory. */
struct dir {
    int wd;
    char *path; /* owned, relative to the root; NULL: no longer watched */
};

/* A directory to be added. */
struct pending {
    struct pending *next;
    bool report; /* what it holds is news */
    char path[];
};

struct watch {
    struct atoll_agent *agent;
    struct atoll_agent_job job; /* in the agent's list while there are pending directories */
    bool working;
    bool failed;      /* to be freed with the job */
    bool recursive;
    uint32_t handle;
    uint32_t request; /* of WATCH_START, until all directories are added */
    int fd;           /* owned: inotify */
    char *root_path;  /* owned, without links: the directory is not kept open, or the kernel would */
    dev_t root_dev;   /* not tell of its end; device and inode say whether it is still there */
    ino_t root_ino;
    struct atoll_watch ready;
    struct atoll_agent_user user;
    struct dir *dirs; /* owned, by rising wd */
    size_t dir_count, dir_cap;
    struct pending *first, **last;
    int scan_fd; /* owned: directory being read for the first of pending */
};

struct atoll_agent_watches {
    struct watch *items[WATCHES_MAX]; /* owned */
    uint32_t serial;
};

static void pending_pop(struct watch *w)
{
    struct pending *p = w->first;

    if (w->scan_fd >= 0)
        (void)close(ATOLL_TAKE_FD(w->scan_fd));
    w->first = p->next;
    if (!w->first)
        w->last = &w->first;
    free(p);
}

static void watch_free(struct watch *w)
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

static void forget(struct watch *w)
{
    struct atoll_agent_watches *ws = w->agent->watches;

    for (size_t i = 0; i < WATCHES_MAX; i++)
        if (ws->items[i] == w)
            ws->items[i] = NULL;
    watch_free(w);
}

void atoll_agent_watches_drop(struct atoll_agent *a)
{
    if (!a->watches)
        return;
    for (size_t i = 0; i < WATCHES_MAX; i++)
        if (a->watches->items[i])
            watch_free(a->watches->items[i]);
    free(ATOLL_TAKE_PTR(a->watches));
}

static void send_event(const struct watch *w, uint8_t kind, const char *name)
{
    struct atoll_am_watch_event msg = {.handle = w->handle, .kind = kind, .name = name};
    atoll_agent_event(w->agent, ATOLL_AGENT_WATCH_EVENT, &atoll_am_watch_event_desc, &msg);
}

/* dir/name, or whichever is not empty. False when it is too long to be followed. */
static bool join(const char *dir, const char *name, char out[RELATIVE_MAX])
{
    int n = snprintf(out, RELATIVE_MAX, "%s%s%s", dir, *dir && *name ? "/" : "", name);
    return n < RELATIVE_MAX;
}

static struct dir *find_dir(const struct watch *w, int wd)
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

/* Drops the entries of directories that are no longer watched. */
static void compact(struct watch *w)
{
    size_t kept = 0;

    for (size_t i = 0; i < w->dir_count; i++)
        if (w->dirs[i].path)
            w->dirs[kept++] = w->dirs[i];
    w->dir_count = kept;
}

/* Remembers wd as the directory at path. The kernel counts watch descriptors upwards. */
static int add_dir(struct watch *w, int wd, const char *path)
{
    struct dir *known = find_dir(w, wd);
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
        struct dir *grown = cap > DIRS_MAX ? NULL : realloc(w->dirs, cap * sizeof(*grown));
        if (!grown) {
            free(copy);
            return cap > DIRS_MAX ? -ENOSPC : -ENOMEM;
        }
        w->dirs = grown;
        w->dir_cap = cap;
    }
    w->dirs[w->dir_count++] = (struct dir){wd, copy};
    return 0;
}

/* A directory left the tree: neither it nor what is below it is watched any longer. */
static void drop_below(struct watch *w, const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < w->dir_count; i++) {
        struct dir *d = &w->dirs[i];
        if (!d->path || strncmp(d->path, path, n) != 0 || (d->path[n] != '/' && d->path[n] != '\0'))
            continue;
        (void)inotify_rm_watch(w->fd, d->wd);
        free(ATOLL_TAKE_PTR(d->path));
    }
}

static int add_pending(struct watch *w, const char *path, bool report)
{
    size_t n = strlen(path) + 1;
    struct pending *p = malloc(sizeof(*p) + n);

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
static int scan_entry(struct watch *w, const struct pending *p, const struct atoll_agent_dent *d)
{
    char path[RELATIVE_MAX];
    bool is_dir = d->type == DT_DIR;
    struct stat st;

    if (strcmp(d->name, ".") == 0 || strcmp(d->name, "..") == 0 || !join(p->path, d->name, path))
        return 0;
    if (p->report)
        send_event(w, ATOLL_WATCH_CREATE, path);
    if (d->type == DT_UNKNOWN)
        is_dir = fstatat(w->scan_fd, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return is_dir && w->recursive ? add_pending(w, path, p->report) : 0;
}

/* Opens the directory at the root of the watch, if it is still the same one. */
static int open_root(const struct watch *w)
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

/* Watches the first pending directory and opens it for reading. -errno when it is not to be had. */
static int begin_scan(struct watch *w, const char *path)
{
    ATOLL_AUTOCLOSE int root_fd = open_root(w);
    char full[RELATIVE_MAX + 32];
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
    w->scan_fd = open(full, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    return w->scan_fd < 0 ? -errno : 0;
}

/* True for failures that concern one directory only. */
static bool is_local(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -EACCES || r == -ELOOP || r == -ENAMETOOLONG;
}

/* A piece of work on the first pending directory. */
static int scan_some(struct watch *w)
{
    char *dents = (char *)atoll_agent_scratch;
    struct pending *p = w->first;
    long n = 0;
    int r = 0;

    if (w->scan_fd < 0)
        r = begin_scan(w, p->path);
    if (r == 0)
        n = syscall(SYS_getdents64, w->scan_fd, dents, CHUNK_BYTES);
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

static int explain(const struct watch *w, struct atoll_error *err, int r)
{
    if (r == -ENOSPC || r == -EMFILE)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                          "there are more directories than can be watched (%d)", DIRS_MAX);
    if (r == -ENOMEM)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r, "no memory to watch");
    return atoll_agent_path_fail(err, -r, w->root_path);
}

static int watch_step(struct atoll_agent *a, struct atoll_agent_job *job, struct atoll_error *err)
{
    struct watch *w = ATOLL_CONTAINER_OF(job, struct watch, job);
    struct atoll_am_handle reply = {w->handle};
    int r = w->failed ? 0 : atoll_agent_become(a, &w->user, err);

    if (r < 0 || w->failed)
        return r;
    for (int i = 0; i < READS_PER_STEP && r == 0 && w->first && atoll_agent_conn_has_room(a); i++)
        r = scan_some(w);
    atoll_agent_unbecome(a);
    if (r < 0 && w->request != 0) {
        w->failed = true;
        return explain(w, err, r);
    }
    if (r < 0)
        send_event(w, ATOLL_WATCH_OVERFLOW, ""); /* not all is watched from here on */
    if (w->first)
        return 1;
    if (w->request != 0)
        atoll_agent_reply(a, w->request, &atoll_am_handle_desc, &reply);
    w->request = job->request = 0;
    return 0;
}

static void job_free(struct atoll_agent_job *job)
{
    struct watch *w = ATOLL_CONTAINER_OF(job, struct watch, job);

    w->working = false;
    if (w->failed)
        forget(w);
}

/* Queues a directory and makes sure that somebody works on the queue. */
static int want_dir(struct watch *w, const char *path, bool report, struct atoll_error *err)
{
    int r = add_pending(w, path, report);

    if (r < 0)
        return explain(w, err, r);
    if (w->working)
        return 0;
    w->job = (struct atoll_agent_job){
        .request = w->request, .step = watch_step, .free = job_free};
    r = atoll_agent_job_add(w->agent, &w->job, err);
    if (r == 0)
        w->working = true;
    return r;
}

static uint8_t kind_of(uint32_t mask)
{
    static const struct {
        uint32_t mask;
        uint8_t kind;
    } kinds[] = {
        {IN_CREATE | IN_MOVED_TO, ATOLL_WATCH_CREATE},
        {IN_MOVED_FROM | IN_MOVE_SELF, ATOLL_WATCH_RENAME},
        {IN_DELETE | IN_DELETE_SELF, ATOLL_WATCH_REMOVE},
        {IN_MODIFY, ATOLL_WATCH_WRITE},
        {IN_ATTRIB, ATOLL_WATCH_CHMOD},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        if (mask & kinds[i].mask)
            return kinds[i].kind;
    return 0;
}

static void handle_event(struct watch *w, const struct inotify_event *ev)
{
    struct dir *d = find_dir(w, ev->wd);
    char path[RELATIVE_MAX];
    uint8_t kind = kind_of(ev->mask);

    if (ev->mask & IN_Q_OVERFLOW) {
        send_event(w, ATOLL_WATCH_OVERFLOW, "");
        if (w->recursive) /* directories may have appeared unseen */
            (void)!want_dir(w, "", false, NULL);
        return;
    }
    if (!d || !d->path)
        return;
    if (ev->mask & IN_IGNORED) {
        free(ATOLL_TAKE_PTR(d->path));
        return;
    }
    /* About a directory itself its parent's watch tells, except for the root. */
    if (kind == 0 || (ev->len == 0 && *d->path) || !join(d->path, ev->len ? ev->name : "", path))
        return;
    send_event(w, kind, path);
    if (!w->recursive || !(ev->mask & IN_ISDIR))
        return;
    if (kind == ATOLL_WATCH_RENAME && ev->len > 0)
        drop_below(w, path);
    else if (kind == ATOLL_WATCH_CREATE && want_dir(w, path, true, NULL) < 0)
        send_event(w, ATOLL_WATCH_OVERFLOW, "");
}

static void events_ready(void *arg, uint32_t events)
{
    struct watch *w = arg;
    char *buf = (char *)atoll_agent_scratch;
    ssize_t n;

    (void)events;
    if (!atoll_agent_conn_has_room(w->agent)) {
        atoll_watch_close(&w->ready); /* atoll_agent_watches_resume() opens it again */
        return;
    }
    n = read(w->fd, buf, CHUNK_BYTES);
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const void *)(buf + at);
        handle_event(w, ev);
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
}

void atoll_agent_watches_resume(struct atoll_agent *a)
{
    if (!a->watches)
        return;
    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct watch *w = a->watches->items[i];
        if (w && !w->failed && !w->ready.loop &&
            atoll_watch_open(&w->ready, a->loop, w->fd, EPOLLIN, events_ready, w) < 0)
            send_event(w, ATOLL_WATCH_OVERFLOW, "");
    }
}

static struct watch *watch_new(struct atoll_agent *a, const struct atoll_agent_path *p,
                               const struct atoll_am_watch *msg)
{
    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        return NULL;
    w->agent = a;
    w->recursive = msg->recursive;
    w->fd = w->scan_fd = ATOLL_NO_FD;
    w->last = &w->first;
    w->user = p->user;
    return w;
}

static int slot_for(struct atoll_agent *a, struct watch ***ret_slot, struct atoll_error *err)
{
    if (!a->watches)
        a->watches = calloc(1, sizeof(*a->watches));
    for (size_t i = 0; a->watches && i < WATCHES_MAX; i++)
        if (!a->watches->items[i]) {
            *ret_slot = &a->watches->items[i];
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                      "%d watches are open already, stop one first", WATCHES_MAX);
}

/* Remembers the directory by its real path and inode. */
static int find_root(struct watch *w, const char *path)
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

static int start(struct watch *w, const char *path, uint32_t request, struct atoll_error *err)
{
    int r = find_root(w, path);

    if (r < 0)
        return atoll_agent_path_fail(err, -r, path);
    w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0)
        return explain(w, err, -errno);
    r = atoll_watch_open(&w->ready, w->agent->loop, w->fd, EPOLLIN, events_ready, w);
    if (r < 0)
        return explain(w, err, r);
    w->request = request;
    return want_dir(w, "", false, err);
}

int atoll_agent_on_watch_start(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_watch *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    struct watch **slot = NULL, *w;
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r == 0)
        r = slot_for(a, &slot, err);
    if (r < 0)
        return r;
    w = watch_new(a, &p, msg);
    if (!w)
        return atoll_agent_path_fail(err, ENOMEM, p.text);
    r = start(w, p.text, request, err);
    if (r < 0) {
        watch_free(w);
        return r;
    }
    w->handle = ++a->watches->serial;
    *slot = w;
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_watch_stop(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_handle *msg = message;

    (void)request;
    for (size_t i = 0; a->watches && i < WATCHES_MAX; i++) {
        struct watch *w = a->watches->items[i];
        if (!w || w->handle != msg->handle || w->request != 0)
            continue;
        atoll_watch_close(&w->ready);
        if (w->working)
            w->failed = true; /* its job frees it */
        else
            forget(w);
        return 0;
    }
    return atoll_fail(err, ATOLL_ERR_NOT_FOUND, EBADF, "there is no watch %u", msg->handle);
}
