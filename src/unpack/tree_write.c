#include "unpack/tree_write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/memory.h"
#include "sys/tree.h"

#define OVERFLOW_ID 65534
#define OPAQUE_NAME "user.overlay.opaque"
#define TRIES 3 /* to make an entry in the place of another */

/* A directory whose time is set at the end. */
struct dated {
    struct timespec mtime;
    char path[]; /* clean */
};

struct atoll_tree_writer {
    int root;                  /* borrowed */
    struct atoll_notes *notes; /* borrowed */
    uid_t uid;                 /* new files have these */
    gid_t gid;
    bool mark;        /* directories that are only implied */
    uint64_t implied; /* that have the mark */
    bool acls;        /* an ACL was set, so that new files may get another mode than asked for */
    /* The directory of the last entry. */
    int dir; /* owned */
    bool dir_gives_group;
    char dir_path[PATH_MAX];
    struct dated **dated; /* owned, each too */
    size_t dated_count, dated_room;
};

struct atoll_tree_writer *atoll_tree_writer_new(int root, struct atoll_notes *notes, bool mark)
{
    struct atoll_tree_writer *w = atoll_alloc(sizeof(*w));

    w->root = root;
    w->mark = mark;
    w->notes = notes;
    w->dir = ATOLL_NO_FD;
    w->uid = geteuid();
    w->gid = getegid();
    (void)umask(0);
    return w;
}

static void forget_dir(struct atoll_tree_writer *w)
{
    if (w->dir >= 0)
        (void)close(w->dir);
    w->dir = ATOLL_NO_FD;
}

struct atoll_tree_writer *atoll_tree_writer_free(struct atoll_tree_writer *w)
{
    if (!w)
        return NULL;
    forget_dir(w);
    for (size_t i = 0; i < w->dated_count; i++)
        free(w->dated[i]);
    free(w->dated);
    free(w);
    return NULL;
}

int atoll_tree_failed(struct atoll_error *err, int errnum, const char *path, const char *what)
{
    if (atoll_errno_is_full(errnum) || errnum == EFBIG)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, errnum,
                          "no room on the disk for %.200s", path);
    if (errnum == ENAMETOOLONG || errnum == ENOTDIR || errnum == ELOOP || errnum == ENOENT ||
        errnum == EISDIR || errnum == EMLINK)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, errnum, "the archive has %.200s: %s: %s",
                          path, what, strerror(errnum));
    return atoll_fail_errno(err, errnum, "%s %.200s", what, path);
}

/* Opens a directory below the root. Links are followed inside the root, as Docker does; the first attempt
 * without them is that of nearly all paths, and its result is exactly what the path says. */
static int open_below(const struct atoll_tree_writer *w, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    const char *at = *path ? path : ".";
    int fd = (int)syscall(SYS_openat2, w->root, at, &how, sizeof(how));

    if (fd < 0 && errno == ELOOP) {
        how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
        fd = (int)syscall(SYS_openat2, w->root, at, &how, sizeof(how));
    }
    return fd < 0 ? -errno : fd;
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(int dir)
{
    return fsetxattr(dir, OPAQUE_NAME, "y", 1, 0) < 0 ? -errno : 0;
}

/* Marks a new directory that the archive does not list. Without marks it keeps what it has. */
static int mark_implied(struct atoll_tree_writer *w, int parent, const char *name)
{
    int fd, r;

    if (!w->mark)
        return 0;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = fsetxattr(fd, ATOLL_TREE_IMPLIED, "y", 1, 0) < 0 ? -errno : 0;
    (void)close(fd);
    w->implied += r == 0;
    return r == -EOPNOTSUPP ? 0 : r;
}

static void drop_mark(struct atoll_tree_writer *w, int fd)
{
    if (w->implied > 0 && fremovexattr(fd, ATOLL_TREE_IMPLIED) == 0)
        w->implied--;
}

uint64_t atoll_tree_implied(const struct atoll_tree_writer *w)
{
    return w->implied;
}

/* Makes a directory at name, which may exist. `listed`: by the archive; then what is not a directory
 * goes. In the place of a whiteout it hides what lower layers have. The result has the mode of a parent
 * that the archive does not list. */
static int make_dir(struct atoll_tree_writer *w, int parent, const char *name, bool listed)
{
    struct stat st;
    int fd, r = 0;

    if (mkdirat(parent, name, 0755) == 0)
        return listed ? 0 : mark_implied(w, parent, name);
    if (errno != EEXIST || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return 0;
    if (!listed && !is_whiteout(&st))
        return -ENOTDIR;
    if (unlinkat(parent, name, 0) < 0 || mkdirat(parent, name, 0755) < 0)
        return -errno;
    if (!is_whiteout(&st))
        return 0;
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = set_opaque(fd);
    (void)close(fd);
    return r;
}

/* Makes the missing directories of path, in order, and opens the last one. */
static int make_parents(struct atoll_tree_writer *w, const char *path)
{
    char part[PATH_MAX];
    ATOLL_AUTOCLOSE int above = open_below(w, "", O_PATH | O_DIRECTORY);
    const char *at = path;

    while (above >= 0) {
        size_t n = strcspn(at, "/");
        int next, r;

        memcpy(part, path, (size_t)(at - path) + n);
        part[(size_t)(at - path) + n] = '\0';
        next = open_below(w, part, O_PATH | O_DIRECTORY);
        if (next == -ENOENT || next == -ENOTDIR) {
            r = make_dir(w, above, part + (at - path), false);
            next = r < 0 ? r : open_below(w, part, O_PATH | O_DIRECTORY);
        }
        if (next < 0 || !at[n])
            return next;
        (void)close(above);
        above = next;
        at += n + 1;
    }
    return above;
}

/* The directory that path is in, and its last component. The descriptor is the writer's. */
static int enter(struct atoll_tree_writer *w, const char *path, const char **ret_name,
                 struct atoll_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    struct stat st;
    int fd;

    *ret_name = slash ? slash + 1 : path;
    if (n >= sizeof(w->dir_path))
        return atoll_tree_failed(err, ENAMETOOLONG, path, "open its directory");
    if (w->dir >= 0 && strlen(w->dir_path) == n && memcmp(w->dir_path, path, n) == 0)
        return w->dir;
    forget_dir(w);
    memcpy(w->dir_path, path, n);
    w->dir_path[n] = '\0';
    fd = open_below(w, w->dir_path, O_PATH | O_DIRECTORY);
    if (fd == -ENOENT || fd == -ENOTDIR)
        fd = make_parents(w, w->dir_path);
    if (fd >= 0 && fstat(fd, &st) < 0) {
        int errnum = errno;
        (void)close(fd);
        fd = -errnum;
    }
    if (fd < 0)
        return atoll_tree_failed(err, -fd, path, "open its directory");
    w->dir = fd;
    w->dir_gives_group = (st.st_mode & S_ISGID) != 0;
    return fd;
}

/* Removes what is at name. */
static int clear(int dir, const char *name)
{
    int copy, r;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return -errno;
    r = atoll_tree_remove(copy, name);
    (void)close(copy);
    return r;
}

static int owner_failed(struct atoll_tree_writer *w, const char *path, int errnum,
                        struct atoll_error *err)
{
    if (errnum != EINVAL && errnum != EPERM)
        return atoll_tree_failed(err, errnum, path, "set the owner of");
    atoll_notes_add(w->notes, "owner", path,
                    "its owner does not exist in a sandbox; it belongs to 65534");
    return 0;
}

static uint32_t id_of(uint64_t id)
{
    return id < UINT32_MAX ? (uint32_t)id : OVERFLOW_ID;
}

/* name "" is dir itself. */
static int set_owner(struct atoll_tree_writer *w, int dir, const char *name, const char *path,
                     const struct atoll_tar_item *item, struct atoll_error *err)
{
    int flags = *name ? AT_SYMLINK_NOFOLLOW : AT_EMPTY_PATH;
    int r;

    if (fchownat(dir, name, id_of(item->uid), id_of(item->gid), flags) == 0)
        return 0;
    r = owner_failed(w, path, errno, err);
    if (r == 0)
        (void)!fchownat(dir, name, item->uid > UINT16_MAX ? OVERFLOW_ID : id_of(item->uid),
                        item->gid > UINT16_MAX ? OVERFLOW_ID : id_of(item->gid), flags);
    return r;
}

bool atoll_tree_is_kept_xattr(const char *name)
{
    static const char *const prefixes[] = {"user.", "security.capability", "system.posix_acl_"};

    if (strncmp(name, "user.overlay.", strlen("user.overlay.")) == 0)
        return false;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* fd < 0: an entry that cannot have attributes. */
static void set_xattrs(struct atoll_tree_writer *w, int fd, const char *path,
                       const struct atoll_tar_item *item)
{
    for (size_t i = 0; i < item->xattr_count; i++) {
        const struct atoll_tar_xattr *x = &item->xattrs[i];
        bool kept = atoll_tree_is_kept_xattr(x->name);

        if (kept && fd >= 0 && fsetxattr(fd, x->name, x->value, x->len, 0) == 0)
            w->acls = w->acls || strncmp(x->name, "system.", strlen("system.")) == 0;
        else
            atoll_notes_add(w->notes, "attribute", path, x->name);
    }
}

static struct timespec time_of(const struct atoll_tar_item *item)
{
    return (struct timespec){.tv_sec = item->mtime_s, .tv_nsec = item->mtime_ns};
}

/* An entry that was just made: its mode is right unless the owner is changed. */
static bool owner_differs(const struct atoll_tree_writer *w, const struct atoll_tar_item *item)
{
    return item->uid != w->uid || item->gid != w->gid || w->dir_gives_group;
}

int atoll_tree_file(struct atoll_tree_writer *w, const char *path,
                    const struct atoll_tar_item *item, int *ret_fd, struct atoll_error *err)
{
    const char *name;
    int dir = enter(w, path, &name, err);
    int r = dir;

    if (dir < 0)
        return dir;
    if (!*path)
        return atoll_tree_failed(err, EISDIR, "its root", "make");
    for (int i = 0; i < TRIES; i++) {
        int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        item->mode & 0777);

        r = fd < 0 ? -errno : 0;
        if (fd >= 0) {
            *ret_fd = fd;
            return 0;
        }
        if (r != -EEXIST || (r = clear(dir, name)) < 0)
            break;
    }
    return atoll_tree_failed(err, -r, path, "make");
}

int atoll_tree_file_done(struct atoll_tree_writer *w, const char *path,
                         const struct atoll_tar_item *item, int fd, struct atoll_error *err)
{
    struct timespec times[2] = {time_of(item), time_of(item)};
    bool chown = owner_differs(w, item);
    int r = chown ? set_owner(w, fd, "", path, item, err) : 0;

    if (r < 0)
        return r;
    if ((chown || w->acls || item->mode > 0777) && fchmod(fd, item->mode) < 0)
        return atoll_tree_failed(err, errno, path, "set the mode of");
    set_xattrs(w, fd, path, item);
    return futimens(fd, times) < 0 ? atoll_tree_failed(err, errno, path, "set the time of") : 0;
}

static int remember_time(struct atoll_tree_writer *w, const char *path,
                         const struct atoll_tar_item *item)
{
    size_t n = strlen(path) + 1;
    struct dated *d;

    if (w->dated_count == w->dated_room) {
        size_t room = w->dated_room ? w->dated_room * 2 : 256;
        void *grown = reallocarray(w->dated, room, sizeof(*w->dated));

        if (!grown)
            return -ENOMEM;
        w->dated = grown;
        w->dated_room = room;
    }
    d = malloc(sizeof(*d) + n);
    if (!d)
        return -ENOMEM;
    d->mtime = time_of(item);
    memcpy(d->path, path, n);
    w->dated[w->dated_count++] = d;
    return 0;
}

/* Owner, mode and attributes of a directory that exists. */
static int set_directory(struct atoll_tree_writer *w, int fd, const char *path,
                         const struct atoll_tar_item *item, struct atoll_error *err)
{
    int r = set_owner(w, fd, "", path, item, err);

    if (r < 0)
        return r;
    if (fchmod(fd, item->mode) < 0)
        return atoll_tree_failed(err, errno, path, "set the mode of");
    set_xattrs(w, fd, path, item);
    return remember_time(w, path, item) < 0
               ? atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "out of memory")
               : 0;
}

int atoll_tree_directory(struct atoll_tree_writer *w, const char *path,
                         const struct atoll_tar_item *item, struct atoll_error *err)
{
    const char *name;
    int dir = enter(w, path, &name, err);
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r = dir;

    if (dir < 0)
        return dir;
    if (*path)
        r = make_dir(w, dir, name, true);
    if (r >= 0)
        fd = openat(dir, *path ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r < 0 || fd < 0)
        return atoll_tree_failed(err, r < 0 ? -r : errno, path, "make");
    drop_mark(w, fd);
    if (w->dir >= 0 && strcmp(w->dir_path, path) == 0)
        forget_dir(w); /* its mode is kept with it */
    return set_directory(w, fd, path, item, err);
}

typedef int make_fn(int dir, const char *name, const struct atoll_tar_item *item);

static int make_symlink(int dir, const char *name, const struct atoll_tar_item *item)
{
    return symlinkat(item->target, dir, name);
}

static int make_fifo(int dir, const char *name, const struct atoll_tar_item *item)
{
    return mkfifoat(dir, name, item->mode & 0777);
}

/* An entry without content, in the place of what is there. */
static int make_special(struct atoll_tree_writer *w, const char *path,
                        const struct atoll_tar_item *item, make_fn *make, struct atoll_error *err)
{
    struct timespec times[2] = {time_of(item), time_of(item)};
    const char *name;
    int dir = enter(w, path, &name, err);
    int r = dir;

    if (dir < 0)
        return dir;
    if (!*path)
        return atoll_tree_failed(err, EISDIR, "its root", "make");
    for (int i = 0; i < TRIES; i++) {
        r = make(dir, name, item) < 0 ? -errno : 0;
        if (r != -EEXIST || (r = clear(dir, name)) < 0)
            break;
    }
    if (r < 0)
        return atoll_tree_failed(err, -r, path, "make");
    r = owner_differs(w, item) ? set_owner(w, dir, name, path, item, err) : 0;
    if (r < 0)
        return r;
    if (make != make_symlink && item->mode > 0777 && fchmodat(dir, name, item->mode, 0) < 0)
        return atoll_tree_failed(err, errno, path, "set the mode of");
    set_xattrs(w, -1, path, item);
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0
               ? atoll_tree_failed(err, errno, path, "set the time of")
               : 0;
}

int atoll_tree_symlink(struct atoll_tree_writer *w, const char *path,
                       const struct atoll_tar_item *item, struct atoll_error *err)
{
    return make_special(w, path, item, make_symlink, err);
}

int atoll_tree_fifo(struct atoll_tree_writer *w, const char *path,
                    const struct atoll_tar_item *item, struct atoll_error *err)
{
    return make_special(w, path, item, make_fifo, err);
}

/* Links from (of target) to name in dir, in the place of what is there. */
static int link_to(int from, const char *from_name, int dir, const char *name)
{
    struct stat a, b;
    int r = linkat(from, from_name, dir, name, 0) < 0 ? -errno : 0;

    if (r != -EEXIST)
        return r;
    if (fstatat(from, from_name, &a, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return 0;
    r = clear(dir, name);
    if (r == 0 && linkat(from, from_name, dir, name, 0) < 0)
        r = -errno;
    return r;
}

int atoll_tree_hard_link(struct atoll_tree_writer *w, const char *path, const char *target,
                         struct atoll_error *err)
{
    const char *slash = strrchr(target, '/');
    const char *name;
    char above[PATH_MAX] = "";
    ATOLL_AUTOCLOSE int from = ATOLL_NO_FD;
    int dir = enter(w, path, &name, err);
    int r;

    if (dir < 0)
        return dir;
    if (!*path || !*target || (slash && (size_t)(slash - target) >= sizeof(above)))
        return atoll_tree_failed(err, EISDIR, path, "link");
    if (slash)
        memcpy(above, target, (size_t)(slash - target));
    from = open_below(w, above, O_PATH | O_DIRECTORY);
    r = from < 0 ? from : link_to(from, slash ? slash + 1 : target, dir, name);
    if (r == -ENOENT || r == -EPERM)
        return atoll_fail(
            err, ATOLL_ERR_INVALID_ARGUMENT, -r,
            "the archive has a hard link %.150s to %.150s, which is no file before it", path,
            target);
    return r < 0 ? atoll_tree_failed(err, -r, path, "link") : 0;
}

/* Hides what lower layers have in a directory that is there already; `whole`: and the directory that they
 * have in its place. */
static int hide_below(struct atoll_tree_writer *w, int dir, const char *name, bool whole)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : set_opaque(fd);

    if (fd >= 0 && whole)
        drop_mark(w, fd);
    if (fd >= 0)
        (void)close(fd);
    return r == -ENOTDIR || r == -ELOOP ? 0 : r; /* a file hides what is below it */
}

int atoll_tree_whiteout(struct atoll_tree_writer *w, const char *path, struct atoll_error *err)
{
    const char *name;
    int dir = enter(w, path, &name, err);
    int r;

    if (dir < 0)
        return dir;
    r = mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
    if (r == -EEXIST)
        r = hide_below(w, dir, name, true);
    return r < 0 ? atoll_tree_failed(err, -r, path, "hide") : 0;
}

int atoll_tree_opaque(struct atoll_tree_writer *w, const char *path, struct atoll_error *err)
{
    char inside[PATH_MAX];
    const char *name;
    size_t n = strlen(path);
    int dir, r;

    if (n + 2 >= sizeof(inside))
        return atoll_tree_failed(err, ENAMETOOLONG, path, "open");
    /* Enters the directory itself, which is made if the archive does not list it. */
    memcpy(inside, path, n);
    memcpy(inside + n, *path ? "/x" : "x", *path ? 3 : 2);
    dir = enter(w, inside, &name, err);
    if (dir < 0)
        return dir;
    r = hide_below(w, dir, ".", false);
    return r < 0 ? atoll_tree_failed(err, -r, path, "hide what is below") : 0;
}

int atoll_tree_finish(struct atoll_tree_writer *w, struct atoll_error *err)
{
    /* The last entry of a directory is the one that counts, so in order. */
    for (size_t i = 0; i < w->dated_count; i++) {
        const struct timespec times[2] = {w->dated[i]->mtime, w->dated[i]->mtime};
        int fd = open_below(w, w->dated[i]->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

        /* Replaced by a later entry. */
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
            continue;
        if (fd < 0 || futimens(fd, times) < 0) {
            int errnum = fd < 0 ? -fd : errno;
            if (fd >= 0)
                (void)close(fd);
            return atoll_tree_failed(err, errnum, w->dated[i]->path, "set the time of");
        }
        (void)close(fd);
    }
    return 0;
}
