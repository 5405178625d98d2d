#include <fcntl.h>
#include "base/fd.h"
#include "base/switches.h"
#include "spawn/disk_pool.h"
#include "spawn/paths.h"
#include "spawn/pool_layers.h"
#include "spawn/snapshot_work.h"
#include "sys/btrfs.h"

/*
 * Snapshots of disks in the pool: a snapshot of the subvolume. The file system writes all data of a
 * subvolume to its disk before it makes one, so if there is much of it, a first snapshot, which is removed,
 * is made while the processes run. The one that is kept is made while they stand still. Then what plans put
 * into every disk is removed from it (pool_layers.c).
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

static int tell_sum(const void *arg, const struct atoll_walk_sum *sum)
{
    const struct atoll_snapshot_copied copied = {.sum = *sum};
    const struct job *j = arg;

    return atoll_fd_write_all(j->w->link_fd, &copied, sizeof(copied));
}

/* The link is the last: with it the layer exists. */
static int keep(const struct job *j)
{
    const struct atoll_spawn_host *host = j->w->host;
    ATOLL_AUTOCLOSE int top = atoll_paths_open(host->pool_fd, j->name, O_RDONLY | O_DIRECTORY);
    int r = top < 0 ? top : atoll_pool_layer_finish(host, top, tell_sum, j);

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
    if (r == 0 && w->moves && !w->small) {
        r = flush(&j);
        if (r == 0)
            r = atoll_snapshot_ask(w);
    }
    if (r == 0 && w->moves)
        r = atoll_snapshot_await(w);
    if (r == 0)
        r = -atoll_fault("spawn.snapshot_still");
    if (r == 0)
        r = atoll_btrfs_snapshot(w->host->pool_fd, j.name, source, w->host->pool_group);
    if (r == 0)
        r = atoll_fd_write_all(w->link_fd, &nothing_known, sizeof(nothing_known));
    return r < 0 ? r : keep(&j);
}
