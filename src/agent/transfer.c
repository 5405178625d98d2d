/*
 * Contents of files: open and read, create and write. A file is written under a temporary name in
 * its directory and renamed by COMMIT, so that a reader sees either the old or the new file; or in
 * place, for requests whose watchers must see writes to the file itself. Handles belong to the
 * connection; uncommitted files are removed with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include "agent/agent_internal.h"
#include "base/rand.h"

#define MODE_BITS 07777
#define FILE_MODE 0644
#define LINKS_MAX 40
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

static struct atoll_agent_handle *handle_get(struct atoll_agent *a, uint32_t id)
{
    struct atoll_agent_handle *h = &a->handles[id % ATOLL_AGENT_HANDLES_MAX];
    return id != 0 && h->id == id ? h : NULL;
}

/* Allocates a handle with a new id. An id is not reused for a long time, so a stale one is
 * detected. */
static int handle_new(struct atoll_agent *a, struct atoll_agent_handle **ret_handle,
                      struct atoll_error *err)
{
    for (uint32_t i = 0; i < ATOLL_AGENT_HANDLES_MAX; i++)
        if (a->handles[i].id == 0) {
            uint32_t serial = ++a->handle_serial % (UINT32_MAX / ATOLL_AGENT_HANDLES_MAX - 1) + 1;
            a->handles[i] = (struct atoll_agent_handle){.id = serial * ATOLL_AGENT_HANDLES_MAX + i,
                                                        .fd = ATOLL_NO_FD,
                                                        .dir_fd = ATOLL_NO_FD};
            *ret_handle = &a->handles[i];
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, EMFILE,
                      "%d files are open already, close one first", ATOLL_AGENT_HANDLES_MAX);
}

/* Frees the handle and removes the temporary file of an uncommitted one. */
static void handle_drop(struct atoll_agent *a, struct atoll_agent_handle *h)
{
    if (h->temp_name && atoll_agent_become(a, h->user, NULL) == 0) {
        (void)unlinkat(h->dir_fd, h->temp_name, 0);
        atoll_agent_unbecome(a);
    }
    if (h->fd >= 0)
        (void)close(h->fd);
    if (h->dir_fd >= 0)
        (void)close(h->dir_fd);
    free(h->user);
    free(h->path);
    free(h->name);
    free(h->temp_name);
    *h = (struct atoll_agent_handle){0};
}

void atoll_agent_handles_drop(struct atoll_agent *a)
{
    for (size_t i = 0; i < ATOLL_AGENT_HANDLES_MAX; i++)
        if (a->handles[i].id != 0)
            handle_drop(a, &a->handles[i]);
}

static int refuse_kind(struct atoll_error *err, mode_t mode, const char *path)
{
    if (S_ISDIR(mode))
        return atoll_agent_path_fail(err, EISDIR, path);
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.300s is a %s, not a regular file",
                      path,
                      S_ISFIFO(mode)   ? "FIFO"
                      : S_ISSOCK(mode) ? "socket"
                                       : "device");
}

/* Checks the type before opening: opening a FIFO would wake a process that waits at its other
 * end. */
static int open_regular(const char *path, struct stat *st, struct atoll_error *err)
{
    int fd = atoll_agent_path_open(AT_FDCWD, path, O_PATH);

    if (fd >= 0) {
        int r = fstat(fd, st) < 0 ? -errno : 0;
        (void)close(fd);
        if (r == 0 && !S_ISREG(st->st_mode))
            return refuse_kind(err, st->st_mode, path);
        fd = r < 0 ? r : atoll_agent_path_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK);
    }
    if (fd < 0)
        return atoll_agent_path_fail(err, -fd, path);
    if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
        (void)close(fd);
        return refuse_kind(err, st->st_mode, path);
    }
    return fd;
}

int atoll_agent_on_file_open(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    const struct atoll_am_path *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    struct atoll_agent_handle *h;
    struct atoll_am_opened opened;
    struct stat st;
    int fd;
    int r;

    if (strncmp(msg->path, "/proc/", 6) == 0)
        atoll_agent_views_touch(a);
    r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);
    if (r < 0)
        return r;
    fd = open_regular(p.text, &st, err);
    if (fd < 0)
        return fd;
    r = handle_new(a, &h, err);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    h->fd = fd;
    opened = (struct atoll_am_opened){h->id, (uint64_t)st.st_size};
    atoll_agent_reply_fd(a, request, &atoll_am_opened_desc, &opened, fd);
    return ATOLL_AGENT_ANSWERED;
}

static int find_handle(struct atoll_agent *a, uint32_t id, bool writing,
                       struct atoll_agent_handle **ret_handle, struct atoll_error *err)
{
    struct atoll_agent_handle *h = handle_get(a, id);

    if (!h)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, EBADF, "there is no open file %u", id);
    if (h->writing != writing)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EBADF, "file %u is open for %s", id,
                          h->writing ? "writing" : "reading");
    *ret_handle = h;
    return 0;
}

int atoll_agent_on_file_read(struct atoll_agent *a, uint32_t request, const void *message,
                             struct atoll_error *err)
{
    uint8_t *data = atoll_agent_scratch;
    const struct atoll_am_read *msg = message;
    struct atoll_am_data reply = {.data = {data, 0}};
    struct atoll_agent_handle *h;
    int r = find_handle(a, msg->handle, false, &h, err);

    _Static_assert(ATOLL_AGENT_SCRATCH >= ATOLL_AGENT_DATA_MAX, "one read fits");
    if (r < 0)
        return r;
    if (msg->length > ATOLL_AGENT_DATA_MAX || msg->offset > INT64_MAX - ATOLL_AGENT_DATA_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "one read is at most %d bytes of a file", ATOLL_AGENT_DATA_MAX);
    while (reply.data.len < msg->length) {
        ssize_t n = pread(h->fd, data + reply.data.len, msg->length - reply.data.len,
                          (off_t)(msg->offset + reply.data.len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return atoll_fail_errno(err, errno, "read file %u", h->id);
        if (n == 0)
            break;
        reply.data.len += (size_t)n;
    }
    atoll_agent_reply(a, request, &atoll_am_data_desc, &reply);
    return ATOLL_AGENT_ANSWERED;
}

/* The destination of a file: its directory, its name, and the entry that exists there now. */
struct place {
    int dir_fd; /* owned */
    char path[ATOLL_AGENT_PATH_MAX];
    const char *name; /* in path */
    bool exists;
    struct stat st; /* of the existing entry, links not followed */
};

static void place_done(struct place *at)
{
    if (at->dir_fd >= 0)
        (void)close(ATOLL_TAKE_FD(at->dir_fd));
}

/* Replaces place->path by the target of the link there. */
static int follow(struct place *at, const struct atoll_agent_user *user, struct atoll_error *err)
{
    char target[ATOLL_AGENT_PATH_MAX], joined[2 * ATOLL_AGENT_PATH_MAX];
    ssize_t n = readlinkat(at->dir_fd, at->name, target, sizeof(target) - 1);

    if (n < 0)
        return atoll_agent_path_fail(err, errno, at->path);
    target[n] = '\0';
    if (target[0] == '/')
        (void)snprintf(joined, sizeof(joined), "%s", target);
    else
        (void)snprintf(joined, sizeof(joined), "%.*s%s", (int)(at->name - at->path), at->path,
                       target);
    return atoll_agent_path_absolute(user, joined, at->path, err);
}

/* Follows links at the end of the path, as an editor does, so that the link itself is kept. */
static int find_place(struct place *at, const struct atoll_agent_path *p, bool parents,
                      bool exclusive, struct atoll_error *err)
{
    int r;

    (void)snprintf(at->path, sizeof(at->path), "%s", p->text);
    for (int links = 0; links < LINKS_MAX; links++) {
        place_done(at);
        r = atoll_agent_path_open_parent(at->path, &at->name, err);
        if (r == -ENOENT && parents) {
            char dir[ATOLL_AGENT_PATH_MAX];
            const char *slash = strrchr(at->path, '/');
            (void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - at->path), at->path);
            r = atoll_agent_path_make_dirs(&p->user, dir, 0755, err);
            if (r == 0)
                r = atoll_agent_path_open_parent(at->path, &at->name, err);
        }
        if (r < 0)
            return r;
        at->dir_fd = r;
        at->exists = fstatat(at->dir_fd, at->name, &at->st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!at->exists && errno != ENOENT)
            return atoll_agent_path_fail(err, errno, at->path);
        if (!at->exists || exclusive || !S_ISLNK(at->st.st_mode))
            return 0;
        r = follow(at, &p->user, err);
        if (r < 0)
            return r;
    }
    return atoll_agent_path_fail(err, ELOOP, p->text);
}

/* Creates the temporary file in the destination's directory. */
static int open_temp(struct atoll_agent_handle *h)
{
    uint64_t random;
    char name[40];

    atoll_rand_bytes(&random, sizeof(random));
    (void)snprintf(name, sizeof(name), ".atoll-%016llx.tmp", (unsigned long long)random);
    h->fd = openat(h->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (h->fd < 0)
        return -errno;
    h->temp_name = strdup(name);
    if (!h->temp_name) {
        (void)unlinkat(h->dir_fd, name, 0);
        return -ENOMEM;
    }
    return atoll_agent_path_give(h->user, h->fd);
}

/* Writing to a kernel interface (such as /proc) acts at once with the writer's credentials; the
 * agent does not do that for a tenant. */
static bool is_kernel_fs(int fd)
{
    static const long magics[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
                                  CGROUP2_SUPER_MAGIC};
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(magics); i++)
        if ((long)fs.f_type == magics[i])
            return true;
    return false;
}

/* Opens the file itself, new or truncated. The owner is set only if it differs, because watchers
 * see each change. */
static int open_in_place(struct atoll_agent_handle *h, const struct place *at)
{
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat st;

    if (is_kernel_fs(h->dir_fd))
        return -EROFS;
    h->fd = at->exists ? openat(h->dir_fd, h->name, flags)
                       : openat(h->dir_fd, h->name, flags | O_CREAT | O_EXCL, h->mode);
    if (h->fd < 0 || fstat(h->fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || is_kernel_fs(h->fd))
        return -EROFS;
    if (h->user->as_root &&
        (!at->exists || st.st_uid != h->user->uid || st.st_gid != h->user->gid) &&
        fchown(h->fd, h->user->uid, h->user->gid) < 0)
        return -errno;
    if (st.st_size > 0 && ftruncate(h->fd, 0) < 0)
        return -errno;
    h->is_new = !at->exists;
    return 0;
}

static int fill_handle(struct atoll_agent_handle *h, struct place *at,
                       const struct atoll_agent_path *p, const struct atoll_am_create *msg)
{
    h->writing = true;
    h->exclusive = msg->exclusive;
    h->in_place = msg->in_place;
    h->mode = msg->mode    ? msg->mode & MODE_BITS
              : at->exists ? at->st.st_mode & MODE_BITS
                           : FILE_MODE;
    h->dir_fd = ATOLL_TAKE_FD(at->dir_fd);
    h->path = strdup(h->in_place ? p->text : at->path); /* in place: as in the request */
    h->name = strdup(at->name);
    h->user = malloc(sizeof(*h->user));
    if (!h->path || !h->name || !h->user)
        return -ENOMEM;
    *h->user = p->user;
    if (h->in_place)
        return open_in_place(h, at);
    return open_temp(h);
}

int atoll_agent_on_file_create(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_create *msg = message;
    ATOLL_AGENT_AUTO_PATH struct atoll_agent_path p;
    struct place at ATOLL_CLEANUP(place_done) = {.dir_fd = ATOLL_NO_FD};
    struct atoll_agent_handle *h;
    struct atoll_am_opened opened = {0};
    int r = atoll_agent_path_init(&p, a, msg->user, msg->path, err);

    if (r == 0)
        r = find_place(&at, &p, msg->parents, msg->exclusive, err);
    if (r == 0 && at.exists && msg->exclusive)
        r = atoll_agent_path_fail(err, EEXIST, p.text);
    if (r == 0 && at.exists && !S_ISREG(at.st.st_mode))
        r = refuse_kind(err, at.st.st_mode, at.path);
    if (r == 0)
        r = handle_new(a, &h, err);
    if (r < 0)
        return r;
    r = fill_handle(h, &at, &p, msg);
    if (r < 0) {
        atoll_agent_path_done(&p); /* handle_drop() switches the identity itself */
        handle_drop(a, h);
        return atoll_agent_path_fail(err, -r, at.path);
    }
    opened.handle = h->id;
    atoll_agent_reply_fd(a, request, &atoll_am_opened_desc, &opened, h->fd);
    return ATOLL_AGENT_ANSWERED;
}

int atoll_agent_on_file_write(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_write *msg = message;
    struct atoll_agent_handle *h;
    size_t done = 0;
    int r = find_handle(a, msg->handle, true, &h, err);

    (void)request;
    if (r < 0)
        return r;
    if (msg->offset > INT64_MAX - ATOLL_FRAME_PAYLOAD_MAX)
        return atoll_agent_path_fail(err, EFBIG, h->path);
    while (done < msg->data.len) {
        ssize_t n =
            pwrite(h->fd, msg->data.data + done, msg->data.len - done, (off_t)(msg->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return atoll_agent_path_fail(err, errno, h->path);
        done += (size_t)n;
    }
    return 0;
}

static int put_in_place(const struct atoll_agent_handle *h)
{
    if (h->in_place)
        return 0;
    if (fchmod(h->fd, h->mode) < 0)
        return -errno;
    if (!h->exclusive)
        return renameat(h->dir_fd, h->temp_name, h->dir_fd, h->name) < 0 ? -errno : 0;
    if (syscall(SYS_renameat2, h->dir_fd, h->temp_name, h->dir_fd, h->name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    /* A file system without RENAME_NOREPLACE: linkat() also fails if the name exists. */
    if (linkat(h->dir_fd, h->temp_name, h->dir_fd, h->name, 0) < 0)
        return -errno;
    (void)unlinkat(h->dir_fd, h->temp_name, 0);
    return 0;
}

int atoll_agent_on_file_commit(struct atoll_agent *a, uint32_t request, const void *message,
                               struct atoll_error *err)
{
    const struct atoll_am_handle *msg = message;
    struct atoll_agent_entry entry;
    struct atoll_agent_handle *h;
    int r = find_handle(a, msg->handle, true, &h, err);

    if (r == 0)
        r = atoll_agent_become(a, h->user, err);
    if (r < 0)
        return r;
    r = put_in_place(h);
    if (r == 0) {
        free(ATOLL_TAKE_PTR(h->temp_name));
        r = atoll_agent_entry_read(a, h->fd, "", h->path, &entry);
    }
    atoll_agent_unbecome(a);
    if (r < 0)
        (void)atoll_agent_path_fail(err, -r, h->path);
    else
        atoll_agent_reply(a, request, &atoll_am_entry_desc, &entry.msg);
    handle_drop(a, h);
    return r < 0 ? r : ATOLL_AGENT_ANSWERED;
}

/* An empty file in the place of one that was removed and has its space freed by the close. */
static void make_empty(struct atoll_agent_handle *h, mode_t mode)
{
    (void)close(h->fd);
    h->fd = openat(h->dir_fd, h->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (h->fd >= 0)
        (void)!fchmod(h->fd, mode & 0777);
}

/* Truncates an incomplete file and removes it if it is new: it would use disk space and look
 * complete. A file that another process put there meanwhile is kept. On a full disk with quotas files
 * can be removed, but not truncated. */
static void undo_in_place(struct atoll_agent *a, struct atoll_agent_handle *h)
{
    struct stat ours, there;
    bool emptied;

    if (atoll_agent_become(a, h->user, NULL) < 0)
        return;
    emptied = ftruncate(h->fd, 0) == 0;
    if ((h->is_new || !emptied) && fstat(h->fd, &ours) == 0 &&
        fstatat(h->dir_fd, h->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino &&
        unlinkat(h->dir_fd, h->name, 0) == 0 && !h->is_new)
        make_empty(h, ours.st_mode);
    atoll_agent_unbecome(a);
}

int atoll_agent_on_file_close(struct atoll_agent *a, uint32_t request, const void *message,
                              struct atoll_error *err)
{
    const struct atoll_am_handle *msg = message;
    struct atoll_agent_handle *h = handle_get(a, msg->handle);

    (void)request;
    if (!h)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, EBADF, "there is no open file %u", msg->handle);
    if (h->in_place)
        undo_in_place(a, h);
    handle_drop(a, h);
    return 0;
}
