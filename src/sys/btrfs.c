#include "sys/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include "base/fd.h"

/* Since Linux 6.7; older headers lack them. */
#define QUOTA_CTL_ENABLE_SIMPLE 4
#define FEATURE_INCOMPAT_SIMPLE_QUOTA (UINT64_C(1) << 16)

static int result(int r)
{
    return r < 0 ? -errno : 0;
}

bool atoll_btrfs_is(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (uint64_t)fs.f_type == BTRFS_SUPER_MAGIC;
}

bool atoll_btrfs_has_simple_quotas(int fd)
{
    struct btrfs_ioctl_feature_flags flags;

    return ioctl(fd, BTRFS_IOC_GET_FEATURES, &flags) == 0 &&
           flags.incompat_flags & FEATURE_INCOMPAT_SIMPLE_QUOTA;
}

int atoll_btrfs_enable_simple_quotas(int fd)
{
    struct btrfs_ioctl_quota_ctl_args args = {.cmd = QUOTA_CTL_ENABLE_SIMPLE};
    int r = result(ioctl(fd, BTRFS_IOC_QUOTA_CTL, &args));

    if (r == 0 && !atoll_btrfs_has_simple_quotas(fd))
        return -EOPNOTSUPP; /* quotas of the other kind are on */
    return r;
}

static int set_name(char *out, size_t cap, const char *name)
{
    return (size_t)snprintf(out, cap, "%s", name) < cap ? 0 : -ENAMETOOLONG;
}

int atoll_btrfs_make(int dir, const char *name)
{
    struct btrfs_ioctl_vol_args_v2 args = {0};
    int r = set_name(args.name, sizeof(args.name), name);

    return r < 0 ? r : result(ioctl(dir, BTRFS_IOC_SUBVOL_CREATE_V2, &args));
}

int atoll_btrfs_snapshot(int dir, const char *name, int source)
{
    struct btrfs_ioctl_vol_args_v2 args = {.fd = source};
    int r = set_name(args.name, sizeof(args.name), name);

    return r < 0 ? r : result(ioctl(dir, BTRFS_IOC_SNAP_CREATE_V2, &args));
}

int atoll_btrfs_remove(int dir, const char *name)
{
    struct btrfs_ioctl_vol_args args = {0};
    int r = set_name(args.name, sizeof(args.name), name);

    if (r == 0)
        r = result(ioctl(dir, BTRFS_IOC_SNAP_DESTROY, &args));
    return r == -ENOENT ? 0 : r;
}

int atoll_btrfs_limit(int fd, uint64_t bytes)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};

    return result(ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args));
}

int atoll_btrfs_set_read_only(int fd)
{
    uint64_t flags = BTRFS_SUBVOL_RDONLY;

    return result(ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS, &flags));
}

int atoll_btrfs_grow(int fd)
{
    struct btrfs_ioctl_vol_args args = {.name = "max"};

    return result(ioctl(fd, BTRFS_IOC_RESIZE, &args));
}
