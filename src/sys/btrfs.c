#include "sys/btrfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include "base/fd.h"

/* Since Linux 6.7; older headers lack them. */
#define QUOTA_CTL_ENABLE_SIMPLE 4
#define FEATURE_INCOMPAT_SIMPLE_QUOTA (UINT64_C(1) << 16)

#define TOP_INODE 256 /* of each subvolume */

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

/* What a new subvolume is a member of from its first block on: a head, and one group after it. */
union membership {
    struct btrfs_qgroup_inherit head;
    unsigned char room[sizeof(struct btrfs_qgroup_inherit) + sizeof(uint64_t)];
};

static void set_group(struct btrfs_ioctl_vol_args_v2 *args, union membership *m, uint64_t group)
{
    if (group == ATOLL_BTRFS_NO_GROUP)
        return;
    memset(m, 0, sizeof(*m));
    m->head.num_qgroups = 1;
    memcpy(m->room + sizeof(m->head), &group, sizeof(group));
    args->flags |= BTRFS_SUBVOL_QGROUP_INHERIT;
    args->size = sizeof(*m);
    args->qgroup_inherit = &m->head;
}

int atoll_btrfs_make(int dir, const char *name, uint64_t group)
{
    struct btrfs_ioctl_vol_args_v2 args = {0};
    union membership m;
    int r = set_name(args.name, sizeof(args.name), name);

    set_group(&args, &m, group);
    return r < 0 ? r : result(ioctl(dir, BTRFS_IOC_SUBVOL_CREATE_V2, &args));
}

int atoll_btrfs_snapshot(int dir, const char *name, int source, uint64_t group)
{
    struct btrfs_ioctl_vol_args_v2 args = {.fd = source};
    union membership m;
    int r = set_name(args.name, sizeof(args.name), name);

    set_group(&args, &m, group);
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

int atoll_btrfs_free_soon(int fd)
{
    uint64_t transaction;

    /* Wakes the thread that commits, which wakes the one that frees; writes no data of other files. */
    return result(ioctl(fd, BTRFS_IOC_START_SYNC, &transaction));
}

int atoll_btrfs_remove_soon(int dir, const char *name)
{
    int r = atoll_btrfs_remove(dir, name);

    if (r == 0)
        (void)!atoll_btrfs_free_soon(dir);
    return r;
}

static int limit(int fd, uint64_t group, uint64_t bytes)
{
    struct btrfs_ioctl_qgroup_limit_args args = {
        .qgroupid = group, .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = bytes}};

    return result(ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args));
}

int atoll_btrfs_limit(int fd, uint64_t bytes)
{
    return limit(fd, 0, bytes); /* 0: of the file's subvolume */
}

int atoll_btrfs_limit_all(int fd, uint64_t bytes)
{
    return limit(fd, ATOLL_BTRFS_ALL, bytes);
}

int atoll_btrfs_make_all(int fd)
{
    struct btrfs_ioctl_qgroup_create_args args = {.create = 1, .qgroupid = ATOLL_BTRFS_ALL};
    int r = result(ioctl(fd, BTRFS_IOC_QGROUP_CREATE, &args));

    return r == -EEXIST ? 0 : r;
}

int atoll_btrfs_join_all(int fd)
{
    struct btrfs_ioctl_qgroup_assign_args args = {.assign = 1, .dst = ATOLL_BTRFS_ALL};
    struct atoll_btrfs_group group;
    int r = atoll_btrfs_group_of(fd, &group);

    args.src = r < 0 ? 0 : group.subvolume;
    if (r == 0)
        r = result(ioctl(fd, BTRFS_IOC_QGROUP_ASSIGN, &args));
    return r == -EEXIST ? 0 : r;
}

int atoll_btrfs_group_of(int fd, struct atoll_btrfs_group *ret)
{
    struct btrfs_ioctl_ino_lookup_args lookup = {.objectid = TOP_INODE};
    struct btrfs_ioctl_fs_info_args info = {0};

    if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0 || ioctl(fd, BTRFS_IOC_INO_LOOKUP, &lookup) < 0)
        return -errno;
    memcpy(ret->file_system, info.fsid, sizeof(ret->file_system));
    ret->subvolume = lookup.treeid;
    return 0;
}

#define GROUPS_PATH_CAP 80

/* Below the top of sysfs. */
static void groups_path(char out[static GROUPS_PATH_CAP], const uint8_t *u)
{
    (void)snprintf(out, GROUPS_PATH_CAP,
                   "fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
                   "%02x%02x%02x%02x%02x%02x/qgroups",
                   u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
                   u[13], u[14], u[15]);
}

int atoll_btrfs_open_groups(int sysfs, int fd)
{
    struct btrfs_ioctl_fs_info_args info = {0};
    char path[GROUPS_PATH_CAP];
    int dir;

    if (ioctl(fd, BTRFS_IOC_FS_INFO, &info) < 0)
        return -errno;
    groups_path(path, info.fsid);
    dir = openat(sysfs, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -errno : dir;
}

/* The number of a group has its level in the upper 16 bits. */
static int open_group(int groups, uint64_t group)
{
    char name[32];
    int fd;

    (void)snprintf(name, sizeof(name), "%u_%llu", (unsigned)(group >> 48),
                   (unsigned long long)(group & (ATOLL_BTRFS_ALL - 1)));
    fd = openat(groups, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int atoll_btrfs_open_all(int groups)
{
    return open_group(groups, ATOLL_BTRFS_ALL);
}

static int add_figure(int group, const char *name, uint64_t *sum)
{
    char text[32];
    int r = atoll_fd_read_file(group, name, text, sizeof(text));

    if (r >= 0)
        *sum += strtoull(text, NULL, 10);
    return r < 0 ? r : 0;
}

int atoll_btrfs_stored(int group, uint64_t *ret_bytes)
{
    uint64_t sum = 0;
    int r = add_figure(group, "referenced", &sum);

    if (r == 0)
        *ret_bytes = sum;
    return r;
}

int atoll_btrfs_used(const struct atoll_btrfs_group *group, uint64_t *ret_bytes)
{
    char path[sizeof("/sys/") + GROUPS_PATH_CAP] = "/sys/";
    ATOLL_AUTOCLOSE int groups = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int dir = ATOLL_NO_FD;
    uint64_t sum = 0;
    int r;

    groups_path(path + strlen(path), group->file_system);
    groups = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r = dir = groups < 0 ? -errno : open_group(groups, group->subvolume);
    if (r >= 0)
        r = add_figure(dir, "referenced", &sum);

    /* Reservations for metadata are far larger than what is used of them. */
    if (r == 0)
        r = add_figure(dir, "rsv_data", &sum);
    if (r == 0)
        *ret_bytes = sum;
    return r;
}

int atoll_btrfs_unwritten(int groups, uint64_t subvolume, struct atoll_btrfs_unwritten *ret)
{
    ATOLL_AUTOCLOSE int dir = open_group(groups, subvolume);
    struct atoll_btrfs_unwritten sum = {0};
    int r = dir < 0 ? dir : add_figure(dir, "rsv_data", &sum.data_bytes);

    if (r == 0)
        r = add_figure(dir, "rsv_meta_pertrans", &sum.metadata_bytes);
    if (r == 0)
        r = add_figure(dir, "rsv_meta_prealloc", &sum.metadata_bytes);
    if (r == 0)
        *ret = sum;
    return r;
}

int atoll_btrfs_is_read_only(int fd)
{
    uint64_t flags;

    if (ioctl(fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0)
        return -errno;
    return (flags & BTRFS_SUBVOL_RDONLY) != 0;
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
