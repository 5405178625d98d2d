#pragma once
#include "base/error.h"

/*
 * STATE/pool.img: the image of the disk pool (spawn/disk_pool.h). It is sparse: it may grow to nine tenths of
 * what was free when the daemon started, takes what its disks use, and gives back what they free.
 * Blocking: some milliseconds while mkfs.btrfs runs.
 */

/* Makes the image, or makes it larger if there is more space than before. 0 also if the state directory has
 * simple quotas of its own and needs none. FAILED_PRECONDITION: this host lacks a program or space. */
int atoll_pool_image_make(const char *state_dir, struct atoll_error *err) ATOLL_MUST_CHECK;
