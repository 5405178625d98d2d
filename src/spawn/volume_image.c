#include "spawn/volume_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "spawn/loop_device.h"
#include "spawn/plan_run.h"
#include "sys/mnt.h"

#define RETRY_US 5000
#define TRIES_MAX 1000 /* five seconds */

int atoll_volume_image_make(int dir_fd, const char *name, int source_fd)
{
    ATOLL_AUTOCLOSE int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char link[32];
    int r = fd < 0 ? -errno : atoll_copy_sparse(source_fd, fd);

    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r < 0)
        return r;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    /* Another sandbox may have made it meanwhile. */
    return linkat(AT_FDCWD, link, dir_fd, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST ? -errno
                                                                                          : 0;
}

/* The device of the image. A process that gets the lock attaches it; else another sandbox has it attached, attaches
 * it at this moment, or has just ended. */
static int open_device(int image_fd, char path[static ATOLL_LOOP_DEVICE_PATH])
{
    struct atoll_error err;
    int fd;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        if (flock(image_fd, LOCK_EX | LOCK_NB) == 0) {
            fd = atoll_loop_device_attach(image_fd, "volume", path, &err);
            return fd < 0 ? -(err.errnum ? err.errnum : EIO) : fd;
        }
        if (errno != EWOULDBLOCK)
            return -errno;
        fd = atoll_loop_device_find(image_fd, path);
        if (fd != -ENOENT)
            return fd;
        (void)usleep(RETRY_US);
    }
    return -EBUSY;
}

bool atoll_volume_image_is_attached(int image_fd)
{
    if (flock(image_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK;
    (void)flock(image_fd, LOCK_UN);
    return false;
}

/* mkfs gives the top to root of the host, which no sandbox can do. */
static int own_top(int mount_fd, uint32_t owner, uint32_t mode)
{
    ATOLL_AUTOCLOSE int top = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (top < 0 || fstat(top, &st) < 0)
        return -errno;
    if (st.st_uid != 0 || owner == 0)
        return 0;
    (void)unlinkat(top, "lost+found", AT_REMOVEDIR); /* e2fsck makes it again */
    return fchmod(top, (mode_t)mode) < 0 || fchown(top, owner, owner) < 0 ? -errno : 0;
}

int atoll_volume_image_mount(int dir_fd, const char *name, uint32_t owner, uint32_t mode)
{
    ATOLL_AUTOCLOSE int image = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    char path[ATOLL_LOOP_DEVICE_PATH];
    const struct atoll_mnt_option options[] = {{"source", path}, {"discard", NULL}, {0}};
    ATOLL_AUTOCLOSE int device = image < 0 ? -errno : open_device(image, path);
    ATOLL_AUTOCLOSE int mount = ATOLL_NO_FD;
    int r;

    if (device < 0)
        return device;
    mount = atoll_mnt_new("ext4", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    if (mount < 0)
        return mount;
    r = own_top(mount, owner, mode);
    return r < 0 ? r : ATOLL_TAKE_FD(mount);
}
