#pragma once
#include "spawn/plan_run.h"
#include "sys/btrfs.h"

/*
 * The pool: the directory STATE/pool, on btrfs with simple quotas. It has one subvolume for each disk of the
 * kind COW and for each layer that is a snapshot of such a disk. It is the state directory's own file system
 * if that has simple quotas already; else the image STATE/pool.img, which the daemon makes, mounted in the
 * mount namespace of this process, so that the mount ends with the last process that uses it.
 *
 * layers/NAME of a snapshot is a link to its subvolume. A layer exists if its link does: the link is made
 * last and removed first, and a subvolume without a link is removed at the next start. Paths through
 * the link lead to the pool in the state directory, and on the disk of a sandbox, where the plan's process
 * mounts the pool beside the layers.
 *
 * The pool of gVisor's instance is that of the native one, for its layers only.
 */
#define ATOLL_DISK_POOL "pool"
#define ATOLL_DISK_POOL_IMAGE "pool.img"

/* What a subvolume is; its name is this letter, '-' and the id of the sandbox or name of the layer. */
#define ATOLL_DISK_POOL_DISK 'd'
#define ATOLL_DISK_POOL_KEPT 'k' /* a disk that can outlive its sandbox; disks/ID.cow exists */
#define ATOLL_DISK_POOL_LAYER 'l'
#define ATOLL_DISK_POOL_PASSING 'p' /* removed by the process that makes it */
#define ATOLL_DISK_POOL_NAME_CAP 72

void atoll_disk_pool_name(char ret[static ATOLL_DISK_POOL_NAME_CAP], char kind, const char *id);

/* Opens the pool and moves aside what an earlier run left in it: atoll_layers_sweep() removes it. A host
 * without a pool is success: host->pool_fd is ATOLL_NO_FD then. Blocking: some milliseconds. Needs root. */
void atoll_disk_pool_open(struct atoll_spawn_host *host);

/* In a sandbox's process: the disk of the kind COW, detached, with the ids of the sandbox and without a
 * limit. */
int atoll_disk_pool_mount_disk(struct atoll_plan_run *b, const struct atoll_po_disk *disk,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same, as the last step that writes to the disk, which is the current directory: sets its limit. */
int atoll_disk_pool_limit(const struct atoll_plan_run *b, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether the sandbox has a disk of this kind in the pool. */
bool atoll_disk_pool_has(const struct atoll_spawn_host *host, char kind, const char *id);
/* The quota group of the disk of a sandbox. -ENOENT: it has none in the pool. */
int atoll_disk_pool_group(const struct atoll_spawn_host *host, const char *id,
                          struct atoll_btrfs_group *ret) ATOLL_MUST_CHECK;
/* Whether the sandbox has a disk in the pool of which so little is not written yet that a snapshot of it
 * takes as long as one of a disk without changes. */
bool atoll_disk_pool_has_little(const struct atoll_spawn_host *host, const char *id);
/* Starts a process that removes a subvolume. */
pid_t atoll_disk_pool_remove(const struct atoll_spawn_host *host,
                             const char *name) ATOLL_MUST_CHECK;
/* Starts a process that writes the data of a kept disk to the host's disk. */
pid_t atoll_disk_pool_flush(const struct atoll_spawn_host *host, const char *id) ATOLL_MUST_CHECK;

/* Makes layers/NAME the link to a subvolume of the pool. */
int atoll_disk_pool_link(const struct atoll_spawn_host *host, const char *name,
                         const char *subvolume) ATOLL_MUST_CHECK;
/* Whether layers/NAME is such a link; ret receives the name of the subvolume. */
bool atoll_disk_pool_is_link(int layers_fd, const char *name,
                             char ret[static ATOLL_DISK_POOL_NAME_CAP]);
/* Starts a process that removes layers/NAME, which is a link, and its subvolume. */
pid_t atoll_disk_pool_sweep(const struct atoll_spawn_host *host, const char *name) ATOLL_MUST_CHECK;
