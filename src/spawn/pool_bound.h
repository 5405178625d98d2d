#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * What the host's disk has room for bounds the pool. Its image is sparse: a write that the host's disk does
 * not take would make btrfs read-only, with the disks of all sandboxes. So all subvolumes together have a
 * limit: what they have stored and what is free on the host's disk, less a reserve. Beyond it a write fails
 * with EDQUOT, as on a disk that is full, and succeeds again when there is room. Each second the limit
 * follows the host's disk.
 *
 * Removing files, disks and layers is possible beyond the limit.
 */

/* Bounds the pool whose top this is, and sets host->pool_group. Needs host->pool_groups_fd. Blocking: some
 * milliseconds. */
int atoll_pool_bound_open(struct atoll_spawn_host *host, int top,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Keeps the bound up to date. Without a bounded pool nothing happens. */
void atoll_pool_bound_start(struct atoll_loop *loop, const struct atoll_spawn_host *host);
