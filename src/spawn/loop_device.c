#include "spawn/loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include "base/fd.h"

#define ATTACH_TRIES 64
/* Numbers of devices are given from the lowest on. */
#define DEVICES_MAX 4096

int atoll_loop_device_attach(int image_fd, const char *name,
                             char ret_path[static ATOLL_LOOP_DEVICE_PATH], struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    struct loop_config config = {.fd = (uint32_t)image_fd, .block_size = 4096};

    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    (void)snprintf((char *)config.info.lo_file_name, sizeof(config.info.lo_file_name),
                   ATOLL_LOOP_DEVICE_NAME "%s", name);
    if (control < 0)
        return atoll_fail_errno(err, errno, "open loop-control");
    /* Another process may take the free device between the two calls: try again. */
    for (int tries = 0; tries < ATTACH_TRIES; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        int fd;
        if (number < 0)
            return atoll_fail_errno(err, errno, "find a free loop device");
        (void)snprintf(ret_path, ATOLL_LOOP_DEVICE_PATH, "/dev/loop%d", number);
        fd = open(ret_path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return atoll_fail_errno(err, errno, "open loop device");
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return fd;
        if (errno == EINVAL && config.info.lo_flags & LO_FLAGS_DIRECT_IO)
            config.info.lo_flags &= ~(uint32_t)LO_FLAGS_DIRECT_IO; /* not on this file system */
        else if (errno != EBUSY)
            tries = ATTACH_TRIES;
        (void)close(fd);
    }
    return atoll_fail_errno(err, errno, "configure loop device");
}

int atoll_loop_device_find(int image_fd, char ret_path[static ATOLL_LOOP_DEVICE_PATH])
{
    struct loop_info64 info;
    struct stat st;

    if (fstat(image_fd, &st) < 0)
        return -errno;
    for (int number = 0; number < DEVICES_MAX; number++) {
        int fd;

        (void)snprintf(ret_path, ATOLL_LOOP_DEVICE_PATH, "/dev/loop%d", number);
        fd = open(ret_path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return errno == ENOENT || errno == ENXIO ? -ENOENT : -errno;
        /* While it is open, it stays attached. */
        if (ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == st.st_ino &&
            info.lo_device == st.st_dev)
            return fd;
        (void)close(fd);
    }
    return -ENOENT;
}
