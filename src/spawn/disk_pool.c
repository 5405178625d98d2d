#include "spawn/disk_pool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/log.h"
#include "base/switches.h"
#include "spawn/bandwidth.h"
#include "spawn/child.h"
#include "spawn/layers.h"
#include "spawn/loop_device.h"
#include "spawn/paths.h"
#include "spawn/pool_bound.h"
#include "spawn/pool_layers.h"
#include "sys/mnt.h"

#define ABOVE "above/" /* in gVisor's instance: the native state directory */
#define LINK_BEGIN "../" ATOLL_DISK_POOL "/"
#define LINK_END "/u"

/* A snapshot writes this in a few milliseconds. Each change of a directory reserves some 100 KiB of
 * metadata, and writes some hundred bytes. */
#define LITTLE_DATA (UINT64_C(512) << 10)
#define LITTLE_METADATA (UINT64_C(64) << 20)

#define ATTACH_RETRY_US 5000
#define ATTACH_TRIES_MAX 1000 /* five seconds */

void atoll_disk_pool_name(char ret[static ATOLL_DISK_POOL_NAME_CAP], char kind, const char *id)
{
    (void)snprintf(ret, ATOLL_DISK_POOL_NAME_CAP, "%c-%.65s", kind, id);
}

/* The image is attached once: two devices of one file system would destroy it. The device keeps the lock
 * of the image. So either we get the lock, or the device of another process is found: of gVisor's
 * instance, or of sandboxes of a killed atoll-spawn that are just ending. */
static int attach(int image, char device[static ATOLL_LOOP_DEVICE_PATH], struct atoll_error *err)
{
    for (int tries = 0; tries < ATTACH_TRIES_MAX; tries++) {
        int fd = flock(image, LOCK_EX | LOCK_NB) == 0
                     ? atoll_loop_device_attach(image, ATOLL_DISK_POOL, device, err)
                     : atoll_loop_device_find(image, device);

        if (fd >= 0)
            return fd;
        if (fd != -ENOENT)
            return atoll_fail_errno(err, -fd, "attach the image of the pool");
        (void)usleep(ATTACH_RETRY_US);
    }
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBUSY, "the image of the pool is in use");
}

static int mount_image(const struct atoll_spawn_host *host, int image, struct atoll_error *err)
{
    char device[ATOLL_LOOP_DEVICE_PATH];
    const struct atoll_mnt_option options[] = {{"source", device}, {"discard", "async"}, {0}};
    ATOLL_AUTOCLOSE int loop_fd = attach(image, device, err);
    int fd;

    if (loop_fd < 0)
        return loop_fd;
    atoll_bandwidth_unlimit(host, loop_fd);
    fd = atoll_mnt_new("btrfs", options, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV);
    return fd < 0 ? atoll_fail_errno(err, -fd, "mount the image of the pool") : fd;
}

/* Attaches the image's file system to the directory `point`. */
static int use_image(const struct atoll_spawn_host *host, const char *prefix, int point,
                     struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int image = ATOLL_NO_FD;
    ATOLL_AUTOCLOSE int mount_fd = ATOLL_NO_FD;
    char path[32];
    int r;

    (void)snprintf(path, sizeof(path), "%s" ATOLL_DISK_POOL_IMAGE, prefix);
    image = atoll_paths_open(host->state_fd, path, O_RDWR);
    if (image < 0)
        return image; /* -ENOENT: the daemon made none */
    mount_fd = mount_image(host, image, err);
    if (mount_fd < 0)
        return -EIO;
    r = atoll_mnt_attach(mount_fd, point, "");
    return r < 0 ? atoll_fail_errno(err, -r, "attach the pool") : 0;
}

static int open_top(const struct atoll_spawn_host *host, const char *prefix,
                    struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int point = ATOLL_NO_FD;
    char path[32];
    int fd, r;

    (void)snprintf(path, sizeof(path), "%s" ATOLL_DISK_POOL, prefix);
    if (mkdirat(host->state_fd, path, 0700) < 0 && errno != EEXIST)
        return atoll_fail_errno(err, errno, "make the directory of the pool");
    point = atoll_paths_open(host->state_fd, path, O_RDONLY | O_DIRECTORY);
    if (point < 0)
        return atoll_fail_errno(err, -point, "open the directory of the pool");
    if (atoll_btrfs_is(point) && atoll_btrfs_has_simple_quotas(point))
        return ATOLL_TAKE_FD(point);
    r = use_image(host, prefix, point, err);
    if (r < 0)
        return r;
    fd = atoll_paths_open(host->state_fd, path, O_RDONLY | O_DIRECTORY);
    return fd < 0 ? atoll_fail_errno(err, -fd, "open the pool") : fd;
}

int atoll_disk_pool_link(const struct atoll_spawn_host *host, const char *name,
                         const char *subvolume)
{
    char target[ATOLL_DISK_POOL_NAME_CAP + sizeof(LINK_BEGIN LINK_END)];

    (void)snprintf(target, sizeof(target), LINK_BEGIN "%s" LINK_END, subvolume);
    return symlinkat(target, host->layers_fd, name) < 0 ? -errno : 0;
}

bool atoll_disk_pool_is_link(int layers_fd, const char *name,
                             char ret[static ATOLL_DISK_POOL_NAME_CAP])
{
    const size_t begin = strlen(LINK_BEGIN), end = strlen(LINK_END);
    char target[ATOLL_DISK_POOL_NAME_CAP + sizeof(LINK_BEGIN LINK_END)];
    ssize_t n = readlinkat(layers_fd, name, target, sizeof(target) - 1);

    if (n <= (ssize_t)(begin + end) || (size_t)n - begin - end >= ATOLL_DISK_POOL_NAME_CAP)
        return false;
    target[n] = '\0';
    if (memcmp(target, LINK_BEGIN, begin) != 0 || strcmp(target + n - end, LINK_END) != 0)
        return false;
    target[(size_t)n - end] = '\0';
    memcpy(ret, target + begin, (size_t)n - end - begin + 1);
    return *ret != '.' && !strchr(ret, '/');
}

/* Whether an entry of the pool belongs to something that still exists. The disks of sandboxes that ended
 * with an earlier atoll-spawn do not. */
static bool is_used(const struct atoll_spawn_host *host, const char *name)
{
    char subvolume[ATOLL_DISK_POOL_NAME_CAP], kept[48];

    switch (name[1] == '-' ? name[0] : '\0') {
    case ATOLL_DISK_POOL_LAYER:
        return atoll_disk_pool_is_link(host->layers_fd, name + 2, subvolume) &&
               strcmp(subvolume, name) == 0;
    case ATOLL_DISK_POOL_KEPT:
        (void)snprintf(kept, sizeof(kept), "%.32s.cow", name + 2);
        return faccessat(host->disks_fd, kept, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    default:
        return false;
    }
}

/* Renames the entry, so that a sandbox of the same id can be made, and notes it among the dropped layers. */
static void put_aside(const struct atoll_spawn_host *host, const char *name)
{
    char aside[ATOLL_LAYER_NAME_CAP];
    int r;

    atoll_layer_aside_name(aside);
    r = renameat(host->pool_fd, name, host->pool_fd, aside) < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_disk_pool_link(host, aside, aside);
    if (r < 0)
        atoll_log(ATOLL_LOG_ERROR, "a disk of an earlier run cannot be removed", "name", name,
                  "error", strerror(-r), NULL);
}

static void put_unused_aside(const struct atoll_spawn_host *host)
{
    int fd = openat(host->pool_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL)
        if (*entry->d_name != '.' && !is_used(host, entry->d_name))
            put_aside(host, entry->d_name);
    if (dir)
        (void)closedir(dir);
    else if (fd >= 0)
        (void)close(fd);
}

/* Without figures, disks are flushed before each snapshot. */
static void open_groups(struct atoll_spawn_host *host, int top)
{
    const struct atoll_mnt_option none[] = {{0}};
    ATOLL_AUTOCLOSE int sysfs = atoll_mnt_new("sysfs", none, ATOLL_MNT_RDONLY);

    host->pool_groups_fd = sysfs < 0 ? sysfs : atoll_btrfs_open_groups(sysfs, top);
}

static int prepare(int top, struct atoll_error *err)
{
    int r = -atoll_fault("spawn.pool");

    if (r == 0)
        r = atoll_btrfs_enable_simple_quotas(top);
    if (r < 0)
        return atoll_fail_errno(err, -r, "simple quotas");
    (void)!atoll_btrfs_grow(top); /* the daemon may have made the image larger */
    return 0;
}

/* Before the pool is bounded: a repair may lift the bound. */
static int take_over(struct atoll_spawn_host *host, int top, struct atoll_error *err)
{
    int r;

    open_groups(host, top);
    host->pool_fd = top;
    r = atoll_pool_layers_repair(host);
    host->pool_fd = ATOLL_NO_FD;
    if (r < 0)
        return atoll_fail_errno(err, -r, "look at the layers of the pool");
    if (faccessat(host->state_fd, ATOLL_DISK_POOL_IMAGE, F_OK, 0) == 0)
        r = atoll_pool_bound_open(host, top, err);
    return r < 0 ? r : 0;
}

void atoll_disk_pool_open(struct atoll_spawn_host *host)
{
    bool below = faccessat(host->state_fd, ABOVE, F_OK, 0) == 0;
    struct atoll_error err;
    int r = open_top(host, below ? ABOVE : "", &err);
    ATOLL_AUTOCLOSE int top = r;

    if (r >= 0)
        r = prepare(top, &err);
    if (r >= 0 && !below)
        r = take_over(host, top, &err);
    if (r < 0 && r != -ENOENT)
        atoll_log(ATOLL_LOG_WARN, "there are no copy-on-write disks", "error", err.text, NULL);
    if (r < 0 || below)
        return;
    host->pool_fd = ATOLL_TAKE_FD(top);
    put_unused_aside(host);
}

static int make_disk(int pool, const char *name, uint64_t group, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int top = ATOLL_NO_FD;
    int r = -atoll_fault("spawn.pool_disk");

    if (r == 0)
        r = atoll_btrfs_make(pool, name, group);
    if (r < 0)
        return atoll_fail_errno(err, -r, "make a disk in the pool");
    top = openat(pool, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0 || fchmod(top, 0711) < 0 ? atoll_fail_errno(err, errno, "open the disk") : 0;
}

/* A disk that is full has no place for what the next steps write. */
static int lift_limit(int pool, const char *name, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int top = openat(pool, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = top < 0 ? -errno : atoll_btrfs_limit(top, UINT64_MAX);

    if (r == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, ENOENT, "the disk of the sandbox is missing");
    return r < 0 ? atoll_fail_errno(err, -r, "use the disk") : 0;
}

int atoll_disk_pool_limit(const struct atoll_plan_run *b, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = top < 0 ? -errno : atoll_btrfs_limit(top, b->cow_disk_bytes);

    return r < 0 ? atoll_fail_errno(err, -r, "limit the disk") : 0;
}

int atoll_disk_pool_mount_disk(struct atoll_plan_run *b, const struct atoll_po_disk *disk,
                               struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int pool =
        atoll_paths_open(b->state_fd, ATOLL_DISK_POOL, O_RDONLY | O_DIRECTORY);
    ATOLL_AUTOCLOSE int tree = ATOLL_NO_FD;
    char name[ATOLL_DISK_POOL_NAME_CAP];
    int r;

    if (b->host->pool_fd < 0 || pool < 0)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                          "this host has no copy-on-write disks; `atoll doctor` says why");
    if (b->ids.mode != ATOLL_IDS_RANGE || b->layer_userns_fd < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "a disk without an id map");
    atoll_disk_pool_name(name, b->kept_disk ? ATOLL_DISK_POOL_KEPT : ATOLL_DISK_POOL_DISK, b->id);
    r = b->existing_disk ? lift_limit(pool, name, err)
                         : make_disk(pool, name, b->host->pool_group, err);
    if (r < 0)
        return r;
    b->cow_disk_bytes = disk->size_bytes;
    r = tree = atoll_mnt_clone(pool, name, false);
    if (r >= 0)
        r = atoll_mnt_idmap(tree, b->layer_userns_fd);
    if (r >= 0)
        r = atoll_mnt_set_attr(tree, ATOLL_MNT_NOSUID | ATOLL_MNT_NODEV, false);
    return r < 0 ? atoll_fail_errno(err, -r, "mount the disk") : ATOLL_TAKE_FD(tree);
}

bool atoll_disk_pool_has(const struct atoll_spawn_host *host, char kind, const char *id)
{
    char name[ATOLL_DISK_POOL_NAME_CAP];

    atoll_disk_pool_name(name, kind, id);
    return host->pool_fd >= 0 && faccessat(host->pool_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int atoll_disk_pool_group(const struct atoll_spawn_host *host, const char *id,
                          struct atoll_btrfs_group *ret)
{
    static const char kinds[] = {ATOLL_DISK_POOL_DISK, ATOLL_DISK_POOL_KEPT};
    int fd = -ENOENT, r;

    for (size_t i = 0; fd == -ENOENT && host->pool_fd >= 0 && i < ATOLL_ARRAY_LEN(kinds); i++) {
        char name[ATOLL_DISK_POOL_NAME_CAP];

        atoll_disk_pool_name(name, kinds[i], id);
        fd = atoll_paths_open(host->pool_fd, name, O_RDONLY | O_DIRECTORY);
    }
    if (fd < 0)
        return fd;
    r = atoll_btrfs_group_of(fd, ret);
    (void)close(fd);
    return r;
}

bool atoll_disk_pool_has_little(const struct atoll_spawn_host *host, const char *id)
{
    struct atoll_btrfs_group group;
    struct atoll_btrfs_unwritten found;

    return host->pool_groups_fd >= 0 && atoll_disk_pool_group(host, id, &group) == 0 &&
           atoll_btrfs_unwritten(host->pool_groups_fd, group.subvolume, &found) == 0 &&
           found.data_bytes <= LITTLE_DATA && found.metadata_bytes <= LITTLE_METADATA;
}

/* What a separate process removes. */
struct removal {
    const struct atoll_spawn_host *host;
    const char *subvolume;
    const char *link; /* among the layers, or NULL */
};

static int do_remove(const void *arg)
{
    const struct removal *w = arg;
    /* The pool may be missing: then the next atoll-spawn that has it finds the subvolume unused. */
    int r = w->host->pool_fd < 0 ? 0 : atoll_btrfs_remove(w->host->pool_fd, w->subvolume);

    if (r == 0 && w->link && unlinkat(w->host->layers_fd, w->link, 0) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

static pid_t start_removal(const struct removal *w)
{
    const struct atoll_po_ids own = {.mode = ATOLL_IDS_SINGLE};
    const int keep[] = {w->host->pool_fd, w->host->layers_fd};

    return atoll_child_work(w->host, &own, do_remove, w, keep, ATOLL_ARRAY_LEN(keep));
}

pid_t atoll_disk_pool_remove(const struct atoll_spawn_host *host, const char *name)
{
    return start_removal(&(struct removal){host, name, NULL});
}

pid_t atoll_disk_pool_sweep(const struct atoll_spawn_host *host, const char *name)
{
    char subvolume[ATOLL_DISK_POOL_NAME_CAP];

    if (!atoll_disk_pool_is_link(host->layers_fd, name, subvolume))
        return -EINVAL;
    return start_removal(&(struct removal){host, subvolume, name});
}

struct flushing {
    const struct atoll_spawn_host *host;
    const char *id;
};

/* A snapshot has written all data of its subvolume, and only that, when it is made. */
static int do_flush(const void *arg)
{
    const struct flushing *w = arg;
    char disk[ATOLL_DISK_POOL_NAME_CAP], name[ATOLL_DISK_POOL_NAME_CAP];
    ATOLL_AUTOCLOSE int source = ATOLL_NO_FD;
    int r;

    atoll_disk_pool_name(disk, ATOLL_DISK_POOL_KEPT, w->id);
    atoll_disk_pool_name(name, ATOLL_DISK_POOL_PASSING, w->id);
    source = atoll_paths_open(w->host->pool_fd, disk, O_RDONLY | O_DIRECTORY);
    r = source < 0 ? source : -atoll_fault("spawn.flush");
    if (r == 0)
        r = atoll_btrfs_snapshot(w->host->pool_fd, name, source, w->host->pool_group);
    /* A process that was killed here has left its own. */
    if (r == -EEXIST && (r = atoll_btrfs_remove(w->host->pool_fd, name)) == 0)
        r = atoll_btrfs_snapshot(w->host->pool_fd, name, source, w->host->pool_group);
    /* While this one exists, files that are removed from the disk free nothing. */
    return r < 0 ? r : atoll_btrfs_remove_soon(w->host->pool_fd, name);
}

pid_t atoll_disk_pool_flush(const struct atoll_spawn_host *host, const char *id)
{
    const struct atoll_po_ids own = {.mode = ATOLL_IDS_SINGLE};
    const struct flushing work = {host, id};

    return atoll_child_work(host, &own, do_flush, &work, &host->pool_fd, 1);
}
