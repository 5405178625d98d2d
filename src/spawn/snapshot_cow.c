#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/disk_pool.h"
#include "spawn/paths.h"
#include "spawn/snapshot_work.h"
#include "sys/btrfs.h"
#include "sys/tree.h"

/*
 * Snapshots of disks in the pool: a snapshot of the subvolume. The file system writes all data of a
 * subvolume to its disk before it makes one, so a first snapshot, which is removed, is made while the
 * processes run, and the second one, while they stand still, finds little to write. Then what plans
 * put into every disk is removed from it.
 */

struct job {
    const struct atoll_snapshot_work *w;
    int source; /* top of the disk */
    char name[ATOLL_DISK_POOL_NAME_CAP];
};

static int flush(const struct job *j)
{
    const struct atoll_spawn_host *host = j->w->host;
    int r = -atoll_fault("spawn.snapshot_copy");

    if (r == 0)
        r = atoll_btrfs_snapshot(host->pool_fd, j->name, j->source, host->pool_group);
    return r < 0 ? r : atoll_btrfs_remove(host->pool_fd, j->name);
}

/* Of the disk only the writable layer stays. */
static int remove_others(int top)
{
    int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int r = dir ? 0 : -errno;

    if (!dir && copy >= 0)
        (void)close(copy);
    while (r == 0 && dir && (entry = readdir(dir)) != NULL)
        if (*entry->d_name != '.' && strcmp(entry->d_name, "u") != 0)
            r = atoll_tree_remove(top, entry->d_name);
    if (dir)
        (void)closedir(dir);
    return r;
}

/* On the host template, /usr is an overlay of its own, with a writable layer of its own. */
static int join_usr(int top, int upper)
{
    int r;

    if (faccessat(top, "u.usr", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    r = atoll_tree_remove(upper, "usr");
    return r < 0 ? r : renameat(top, "u.usr", upper, "usr") < 0 ? -errno : 0;
}

/* Parents and names of what plans put into the writable layer: see snapshot_work.c. */
static const char *const written[][2] = {{"etc", "hosts"},
                                         {"etc", "hostname"},
                                         {"etc", "resolv.conf"},
                                         {"usr/share", "atoll"},
                                         {"usr/lib", "atoll"}};

static int clean(const struct job *j, int top, int upper)
{
    int r = join_usr(top, upper);

    if (r == 0)
        r = remove_others(top);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(written); i++) {
        ATOLL_AUTOCLOSE int dir = atoll_paths_open(upper, written[i][0], O_RDONLY | O_DIRECTORY);

        r = dir < 0 ? 0 : atoll_walk_remove(dir, written[i][1]);
    }
    if (r == 0)
        atoll_commit_remove_tools(j->w->host->state_fd, upper);
    return r;
}

static int tell_sum(const struct job *j, int upper)
{
    struct atoll_snapshot_copied copied;
    int r = atoll_walk_remove_sockets(upper, &copied.sum);

    return r < 0 ? r : atoll_fd_write_all(j->w->link_fd, &copied, sizeof(copied));
}

/* The link is the last: with it the layer exists. */
static int keep(const struct job *j)
{
    const struct atoll_spawn_host *host = j->w->host;
    ATOLL_AUTOCLOSE int top = atoll_paths_open(host->pool_fd, j->name, O_RDONLY | O_DIRECTORY);
    ATOLL_AUTOCLOSE int upper = top < 0 ? top : atoll_paths_open(top, "u", O_RDONLY | O_DIRECTORY);
    int r = upper < 0 ? upper : clean(j, top, upper);

    if (r == 0)
        r = tell_sum(j, upper);
    if (r == 0)
        r = atoll_btrfs_set_read_only(top);
    if (r == 0)
        r = -atoll_fault("spawn.snapshot_rename");
    return r < 0 ? r : atoll_disk_pool_link(host, j->w->layer, j->name);
}

int atoll_snapshot_cow(const struct atoll_snapshot_work *w, const char *disk)
{
    const struct atoll_snapshot_copied nothing_known = {0};
    struct job j = {.w = w};
    ATOLL_AUTOCLOSE int source = atoll_paths_open(w->host->pool_fd, disk, O_RDONLY | O_DIRECTORY);
    int r = source < 0 ? source : 0;

    j.source = source;
    atoll_disk_pool_name(j.name, ATOLL_DISK_POOL_LAYER, w->layer);
    if (r == 0 && w->moves) {
        r = flush(&j);
        if (r == 0)
            r = atoll_snapshot_ask(w);
    }
    if (r == 0)
        r = -atoll_fault("spawn.snapshot_still");
    if (r == 0)
        r = atoll_btrfs_snapshot(w->host->pool_fd, j.name, source, w->host->pool_group);
    if (r == 0)
        r = atoll_fd_write_all(w->link_fd, &nothing_known, sizeof(nothing_known));
    return r < 0 ? r : keep(&j);
}
