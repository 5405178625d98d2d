#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/bandwidth.h"
#include "spawn/disk_pool.h"
#include "spawn/loop_device.h"
#include "spawn/paths.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"

/*
 * The disk of a sandbox: one bounded file system, mounted on state/mnt in the sandbox's own mount
 * namespace, invisible elsewhere. At its top: `u` (the writable layer), `w` (overlay's work
 * directory), `r` (the root under construction) and a directory per read-only layer. Its top is the
 * current directory until the pivot, so that overlay gets relative names and the mount table inside
 * shows no path of the host.
 */

#define LOCK_RETRY_US 5000
#define LOCK_TRIES_MAX 1000 /* five seconds */

static int mount_tmpfs(const struct atoll_po_disk *disk, struct atoll_error *err)
{
    char size[24], inodes[24];
    const struct atoll_mnt_option options[] = {
        {"size", size}, {"nr_inodes", inodes}, {"mode", "0711"}, {0}};
    int fd;

    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)disk->size_bytes);
    (void)snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)disk->inodes);
    fd = atoll_mnt_new("tmpfs", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    return fd < 0 ? atoll_fail_errno(err, -fd, "mount tmpfs") : fd;
}

/* The loop device shares this open file description, so the lock lasts exactly as long as the image
 * is attached: an image cannot be mounted twice, and a process that gets the lock knows that it is
 * not mounted. After a spawn was killed, its loop device may need a moment to detach. */
static int lock_image(int fd, struct atoll_error *err)
{
    for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; tries++) {
        if (errno != EWOULDBLOCK || tries == LOCK_TRIES_MAX)
            return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errno,
                              "the disk is still in use by an earlier run; try again");
        (void)usleep(LOCK_RETRY_US);
    }
    return 0;
}

/* Attaches the image and sets or removes the limit on the bandwidth of the device. */
static int attach_limited(struct atoll_plan_run *b, uint64_t io_bytes,
                          char ret_path[static ATOLL_LOOP_DEVICE_PATH], struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int lock = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    if (io_bytes == 0) {
        fd = atoll_loop_device_attach(b->image_fd, b->id, ret_path, err);
        if (fd >= 0)
            atoll_bandwidth_unlimit(b->host, fd);
        return ATOLL_TAKE_FD(fd);
    }
    lock = atoll_bandwidth_lock(b->host, err);
    if (lock < 0)
        return lock;
    fd = atoll_loop_device_attach(b->image_fd, b->id, ret_path, err);
    if (fd >= 0 && atoll_bandwidth_limit(b, fd, io_bytes, err) < 0)
        return -EIO;
    return ATOLL_TAKE_FD(fd);
}

static int mount_image(struct atoll_plan_run *b, uint64_t io_bytes, struct atoll_error *err)
{
    char device[ATOLL_LOOP_DEVICE_PATH];
    const struct atoll_mnt_option options[] = {{"source", device}, {"discard", NULL}, {0}};
    ATOLL_AUTOCLOSE int loop_fd = ATOLL_NO_FD;
    int fd;

    if (b->image_fd < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the plan made no image");
    if (b->kept_disk && lock_image(b->image_fd, err) < 0)
        return -EBUSY;
    /* A new image must be on stable storage before a tenant relies on data written to it. */
    if (b->kept_disk && !b->existing_disk && fsync(b->image_fd) < 0)
        return atoll_fail_errno(err, errno, "write disk image");
    loop_fd = attach_limited(b, io_bytes, device, err);
    if (loop_fd < 0)
        return loop_fd;
    /* Replays the journal of a disk that was not unmounted. */
    fd = atoll_mnt_new("ext4", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    return fd < 0 ? atoll_fail_errno(err, -fd, "mount ext4 image") : fd;
}

int atoll_disk_mount_kept(const struct atoll_spawn_host *host, const char *id)
{
    char device[ATOLL_LOOP_DEVICE_PATH], name[48];
    const struct atoll_mnt_option options[] = {{"source", device}, {0}};
    ATOLL_AUTOCLOSE int image = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int loop_fd = ATOLL_NO_FD;
    struct atoll_error err;

    (void)snprintf(name, sizeof(name), "%s.img", id);
    image = openat(host->disks_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0)
        return -errno;
    if (lock_image(image, &err) < 0)
        return -EBUSY;
    loop_fd = atoll_loop_device_attach(image, id, device, &err);
    if (loop_fd < 0)
        return err.errnum > 0 ? -err.errnum : -EIO;
    return atoll_mnt_new("ext4", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV | ATOLL_MNT_RDONLY);
}

/* A directory of the state directory instead of a file system, for building layers. */
static int enter_plain(struct atoll_plan_run *b, struct atoll_error *err)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "sandboxes/%s.disk", b->id);
    if (mkdir(path, 0711) < 0 || chdir(path) < 0)
        return atoll_fail_errno(err, errno, "make disk directory");
    return 0;
}

static int enter_mounted(struct atoll_plan_run *b, const struct atoll_po_disk *disk,
                         struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int mount_fd = disk->kind == ATOLL_DISK_TMPFS ? mount_tmpfs(disk, err)
                                   : disk->kind == ATOLL_DISK_COW
                                       ? atoll_disk_pool_mount_disk(b, disk, err)
                                       : mount_image(b, disk->io_bytes, err);
    int r;

    if (mount_fd < 0)
        return mount_fd;
    r = atoll_mnt_attach(mount_fd, b->mount_fd, "");
    if (r < 0)
        return atoll_fail_errno(err, -r, "attach disk");
    return fchdir(mount_fd) < 0 ? atoll_fail_errno(err, errno, "enter disk") : 0;
}

/* Creates a directory at the top of the disk; keeps an existing one. */
static int make_top(struct atoll_plan_run *b, const char *name, mode_t mode)
{
    return mkdir(name, mode) < 0 && !(errno == EEXIST && b->existing_disk) ? -errno : 0;
}

int atoll_step_disk(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_disk *disk = step;
    int r;

    if (disk->kind < ATOLL_DISK_TMPFS || disk->kind > ATOLL_DISK_COW)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "disk kind %u", disk->kind);
    r = disk->kind == ATOLL_DISK_PLAIN ? enter_plain(b, err) : enter_mounted(b, disk, err);
    if (r < 0)
        return r;
    b->disk_in_memory = disk->kind == ATOLL_DISK_TMPFS;
    b->cow_disk = disk->kind == ATOLL_DISK_COW;
    b->plain_disk = disk->kind == ATOLL_DISK_PLAIN;
    b->laid_out = b->existing_disk && access("u", F_OK) == 0;
    r = make_top(b, "u", 0755);
    if (r == 0)
        r = make_top(b, "w", 0700);
    if (r == 0)
        r = make_top(b, "r", 0755);
    if (r < 0)
        return atoll_fail_errno(err, -r, "lay out disk");
    if (!b->laid_out && chown("u", atoll_plan_run_outside(b, 0), atoll_plan_run_outside(b, 0)) < 0)
        return atoll_fail_errno(err, errno, "own writable layer");
    b->upper_fd = open("u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return b->upper_fd < 0 ? atoll_fail_errno(err, errno, "open writable layer") : 0;
}

/* Opens the parent of `path` in the writable layer, creates missing directories and points
 * *ret_name at the last component. The layer is not part of the root yet, so an image's links are
 * not followed. */
static int open_parent(struct atoll_plan_run *b, const char *path, const char **ret_name,
                       struct atoll_error *err)
{
    int dir;

    if (!atoll_paths_is_inside(path))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "path is not relative");
    dir = fcntl(b->upper_fd, F_DUPFD_CLOEXEC, 0);
    if (dir < 0)
        return atoll_fail_errno(err, errno, "open writable layer");
    for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[256];
        int next;

        if ((size_t)(slash - path) >= sizeof(name)) {
            (void)close(dir);
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG, "a name is too long");
        }
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = '\0';
        if (mkdirat(dir, name, 0755) == 0)
            (void)!fchownat(dir, name, atoll_plan_run_outside(b, 0), atoll_plan_run_outside(b, 0),
                            AT_SYMLINK_NOFOLLOW);
        next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(dir);
        if (next < 0)
            return atoll_fail_errno(err, errno, "open directory %s", name);
        dir = next;
    }
    *ret_name = path;
    return dir;
}

int atoll_step_directory(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_directory *want = step;
    const char *name;
    ATOLL_AUTOCLOSE int parent = ATOLL_NO_FD;

    if (b->laid_out) /* the tenant may have changed it since */
        return 0;
    if (b->ids.mode == ATOLL_IDS_RANGE && (want->uid >= b->ids.count || want->gid >= b->ids.count))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "an owner without an id");
    parent = open_parent(b, want->path, &name, err);
    if (parent < 0)
        return parent;
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make directory %s", want->path);
    if (fchmodat(parent, name, (mode_t)want->mode, 0) < 0 ||
        fchownat(parent, name, atoll_plan_run_outside(b, want->uid),
                 atoll_plan_run_outside(b, want->gid), AT_SYMLINK_NOFOLLOW) < 0)
        return atoll_fail_errno(err, errno, "own directory %s", want->path);
    return 0;
}

int atoll_step_file(struct atoll_plan_run *b, const void *step, struct atoll_error *err)
{
    const struct atoll_po_file *want = step;
    const char *name;
    ATOLL_AUTOCLOSE int parent = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    if (b->laid_out)
        return 0;
    parent = open_parent(b, want->path, &name, err);
    if (parent < 0)
        return parent;
    fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return atoll_fail_errno(err, errno, "create %s", want->path);
    r = atoll_fd_write_all(fd, want->content.data, want->content.len);
    if (r < 0)
        return atoll_fail_errno(err, -r, "write %s", want->path);
    if (fchmod(fd, (mode_t)want->mode) < 0 ||
        fchown(fd, atoll_plan_run_outside(b, 0), atoll_plan_run_outside(b, 0)) < 0)
        return atoll_fail_errno(err, errno, "own %s", want->path);
    return 0;
}
