#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

/* From linux/mount.h, which cannot be included together with sys/mount.h. */
#define K_OPEN_TREE_CLONE 1
#define K_AT_RECURSIVE 0x8000
#define K_MOVE_MOUNT_F_EMPTY_PATH 0x4
#define K_MOVE_MOUNT_T_EMPTY_PATH 0x40
#define K_FSOPEN_CLOEXEC 1
#define K_FSMOUNT_CLOEXEC 1
#define K_FSCONFIG_SET_FLAG 0
#define K_FSCONFIG_SET_STRING 1
#define K_FSCONFIG_CMD_CREATE 6
#define K_MOUNT_ATTR_IDMAP 0x00100000

struct mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};

static int result(long r)
{
    return r < 0 ? -errno : (int)r;
}

int atoll_mnt_clone(int dirfd, const char *path, bool recursive)
{
    return result(
        syscall(SYS_open_tree, dirfd, path,
                K_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | (recursive ? K_AT_RECURSIVE : 0)));
}

static int set_attr(int mount_fd, const struct mount_attr *attr, unsigned flags)
{
    return result(
        syscall(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH | flags, attr, sizeof(*attr)));
}

int atoll_mnt_idmap(int mount_fd, int userns_fd)
{
    struct mount_attr attr = {.attr_set = K_MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
    return set_attr(mount_fd, &attr, 0);
}

int atoll_mnt_set_attr(int mount_fd, uint64_t attr_set, bool recursive)
{
    struct mount_attr attr = {.attr_set = attr_set};
    return set_attr(mount_fd, &attr, recursive ? K_AT_RECURSIVE : 0);
}

int atoll_mnt_change_attr(int mount_fd, uint64_t attr_set, uint64_t attr_clear)
{
    struct mount_attr attr = {.attr_set = attr_set, .attr_clr = attr_clear};
    return set_attr(mount_fd, &attr, 0);
}

int atoll_mnt_attach(int mount_fd, int dirfd, const char *path)
{
    unsigned flags = K_MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : K_MOVE_MOUNT_T_EMPTY_PATH);
    return result(syscall(SYS_move_mount, mount_fd, "", dirfd, path, flags));
}

int atoll_mnt_new(const char *fstype, const struct atoll_mnt_option *options, uint64_t attrs)
{
    ATOLL_AUTOCLOSE int fs = result(syscall(SYS_fsopen, fstype, K_FSOPEN_CLOEXEC));

    if (fs < 0)
        return fs;
    for (; options && options->key; options++) {
        int cmd = options->value ? K_FSCONFIG_SET_STRING : K_FSCONFIG_SET_FLAG;
        if (syscall(SYS_fsconfig, fs, cmd, options->key, options->value, 0) < 0)
            return -errno;
    }
    if (syscall(SYS_fsconfig, fs, K_FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return result(syscall(SYS_fsmount, fs, K_FSMOUNT_CLOEXEC, attrs));
}
