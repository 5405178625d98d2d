#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/switches.h"
#include "base/text.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"
#include "sys/ns.h"

/*
 * Folders of the host in a sandbox. The path is followed from the listed folder down, component by component: no link,
 * no "..", no other file system, and not the state directory. The mount shows the files of the folder's owner as the
 * files of one user of the sandbox, and all other ids as nobody; so a sandbox has the rights of that one owner, and new files
 * get its ids. With COW the folder is the lower layer of an overlay whose changes are on the disk of the sandbox.
 */

static bool is_same(const struct stat *st, dev_t dev, ino_t ino)
{
    return st->st_dev == dev && st->st_ino == ino;
}

/* The listed folder that contains the path; of several the deepest. */
static const struct atoll_spawn_folder *find(const struct atoll_spawn_folders *folders,
                                             const char *path)
{
    const struct atoll_spawn_folder *found = NULL;

    for (size_t i = 0; i < folders->count; i++) {
        const struct atoll_spawn_folder *folder = &folders->items[i];

        if (*folder->path && atoll_text_is_below(path, folder->path) &&
            (!found || strlen(folder->path) > strlen(found->path)))
            found = folder;
    }
    return found;
}

/* As root they are in spawn's own root; else this process sees the tree of the host. */
static int open_listed(const struct atoll_plan_run *b, const struct atoll_spawn_folder *folder)
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/folders/%zu", (size_t)(folder - b->host->folders.items));
    fd = open(b->host->root ? path : folder->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return is_same(&st, folder->dev, folder->ino) ? ATOLL_TAKE_FD(fd) : -ESTALE;
}

static int step_down(int at, const char *name)
{
    const struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = atoll_weakened("folder_links")
                       ? 0
                       : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof(how));

    return fd < 0 ? -errno : fd;
}

/* Opens `rest` below the listed folder. -EACCES: it leads through the state directory. */
static int descend(const struct atoll_spawn_folders *folders, int listed_fd, const char *rest,
                   struct stat *ret_st)
{
    ATOLL_AUTOCLOSE int at = fcntl(listed_fd, F_DUPFD_CLOEXEC, 0);
    char name[NAME_MAX + 1];

    for (;;) {
        size_t n;
        int next;

        if (at < 0 || fstat(at, ret_st) < 0)
            return -errno;
        if (S_ISLNK(ret_st->st_mode)) /* O_PATH opens one that is the last component */
            return -ELOOP;
        if (is_same(ret_st, folders->state[0].dev, folders->state[0].ino))
            return -EACCES;
        rest += strspn(rest, "/");
        n = strcspn(rest, "/");
        if (n == 0)
            break;
        if (n > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, rest, n);
        name[n] = '\0';
        rest += n;
        if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
            return -ELOOP;
        next = step_down(at, name);
        if (next < 0)
            return next;
        (void)close(at);
        at = next;
    }
    for (size_t i = 0; i < folders->state_depth; i++)
        if (is_same(ret_st, folders->state[i].dev, folders->state[i].ino))
            return -EACCES;
    return ATOLL_TAKE_FD(at);
}

static int refuse(struct atoll_error *err, int r, const char *path)
{
    static const struct {
        int errnum;
        const char *why;
    } reasons[] = {
        {EACCES, "it is, contains or is in the state directory of atolld"},
        {ENOENT, "it does not exist"},
        {ENOTDIR, "it does not exist"},
        {ELOOP, "there is a symbolic link in the path; name what it leads to"},
        {EXDEV, "another file system is mounted in the path; the operator can list that folder"},
        {ESTALE, "the listed folder was replaced since atoll-spawn was started; restart atolld"},
        {EINVAL, "its file system, or one below it, cannot be mounted with the ids of a sandbox"},
        {EPERM, "its file system cannot be mounted with the ids of a sandbox"},
    };

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(reasons); i++)
        if (reasons[i].errnum == -r)
            return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, -r,
                              "%.200s of the host cannot be mounted: %s", path, reasons[i].why);
    return atoll_fail_errno(err, -r, "mount %.200s of the host", path);
}

/* Without root the files have the ids of the daemon's user, which are the sandbox's own. */
static int map_owner(const struct atoll_plan_run *b, const struct atoll_po_folder *want, int tree,
                     const struct stat *st)
{
    ATOLL_AUTOCLOSE int map = ATOLL_NO_FD;

    if (b->ids.mode != ATOLL_IDS_RANGE)
        return 0;
    if (want->uid >= b->ids.count || want->gid >= b->ids.count)
        return -EINVAL;
    map = atoll_sys_make_owner_map(atoll_plan_run_owner(b), st->st_uid, st->st_gid,
                                   atoll_plan_run_outside(b, want->uid),
                                   atoll_plan_run_outside(b, want->gid));
    return map < 0 ? map : atoll_mnt_idmap(tree, map);
}

/* A directory at the top of the disk; that of an earlier run is used again. */
static int make_top(const struct atoll_plan_run *b, const char *name, mode_t mode)
{
    if (mkdir(name, mode) < 0)
        return errno == EEXIST && b->existing_disk ? 0 : -errno;
    return 1;
}

/* Takes the place of *tree, which becomes the lower layer. */
static int stack(const struct atoll_plan_run *b, const struct atoll_po_folder *want, int *tree,
                 const struct stat *st)
{
    char lower[16], upper[16], work[16];
    bool userxattr = b->ids.mode != ATOLL_IDS_RANGE || b->cow_disk;
    const struct atoll_mnt_option options[] = {{"lowerdir", lower},
                                               {"upperdir", upper},
                                               {"workdir", work},
                                               {userxattr ? "userxattr" : NULL, NULL},
                                               {0}};
    int r, fd;

    (void)snprintf(lower, sizeof(lower), "h%u", want->number);
    (void)snprintf(upper, sizeof(upper), "hu%u", want->number);
    (void)snprintf(work, sizeof(work), "hw%u", want->number);
    r = make_top(b, lower, 0700);
    if (r >= 0)
        r = atoll_mnt_attach(*tree, AT_FDCWD, lower);
    if (r >= 0)
        r = make_top(b, work, 0700);
    if (r >= 0)
        r = make_top(b, upper, 0700);
    if (r > 0 && (chown(upper, atoll_plan_run_outside(b, want->uid),
                        atoll_plan_run_outside(b, want->gid)) < 0 ||
                  chmod(upper, st->st_mode & 0777) < 0))
        return -errno;
    if (r < 0)
        return r;
    fd = atoll_mnt_new("overlay", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    if (fd < 0)
        return fd;
    (void)close(*tree);
    *tree = fd;
    return 0;
}

static int mount_folder(struct atoll_plan_run *b, const struct atoll_po_folder *want, int fd,
                        const struct stat *st, struct atoll_error *err)
{
    uint64_t attrs = ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV |
                     (want->access == ATOLL_FOLDER_READ ? ATOLL_MNT_RDONLY : 0);
    ATOLL_AUTOCLOSE int tree = atoll_mnt_clone(fd, "", false);
    ATOLL_AUTOCLOSE int point = ATOLL_NO_FD;
    int r = tree < 0 ? tree : map_owner(b, want, tree, st);

    if (r >= 0)
        r = atoll_mnt_set_attr(tree, attrs, false);
    if (r >= 0 && want->access == ATOLL_FOLDER_COW)
        r = stack(b, want, &tree, st);
    if (r < 0)
        return refuse(err, r, want->path);
    point = atoll_point_open(b, want->target, S_ISDIR(st->st_mode), err);
    if (point < 0)
        return point;
    r = atoll_mnt_attach(tree, point, "");
    return r < 0 ? atoll_fail_errno(err, -r, "mount /%.200s", want->target) : 0;
}

int atoll_step_folder(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_folder *want = step;
    const struct atoll_spawn_folder *folder = find(&b->host->folders, want->path);
    ATOLL_AUTOCLOSE int listed = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;

    if (want->access < ATOLL_FOLDER_COW || want->access > ATOLL_FOLDER_WRITE || b->plain_disk)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "not a mount of a folder");
    if (!folder || want->access > folder->most)
        return atoll_fail(
            err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
            "atoll-spawn was started without %.200s in --host-folders, or with less access, or it did "
            "not exist; it reads the list when it starts: stop and start atolld",
            want->path);
    listed = open_listed(b, folder);
    fd = listed < 0 ? listed
                    : descend(&b->host->folders, listed, want->path + strlen(folder->path), &st);
    if (fd < 0)
        return refuse(err, fd, want->path);
    if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || want->access == ATOLL_FOLDER_COW))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOTDIR,
                          "%.200s of the host is not a directory%s", want->path,
                          S_ISREG(st.st_mode) ? "; a file can be mounted with ro or rw" : "");
    return mount_folder(b, want, fd, &st, err);
}
