#pragma once
#include "base/defs.h"

/*
 * Subvolumes of btrfs: trees that are copied at once, share their blocks and have a limit of their own.
 * Names are those of entries of the directory `dir`. All return -errno.
 * Blocking: changes can wait for a commit of the file system, a snapshot always does.
 */

/* Whether the file is on btrfs. */
bool atoll_btrfs_is(int fd);
/* Simple quotas (Linux 6.7): each block counts for the subvolume that wrote it. Others count shared blocks
 * exactly, at a price that grows with the number of snapshots. */
bool atoll_btrfs_has_simple_quotas(int fd);
int atoll_btrfs_enable_simple_quotas(int fd) ATOLL_MUST_CHECK;

/* A quota group of several subvolumes: what any of them writes counts for its limit, too. */
#define ATOLL_BTRFS_ALL (UINT64_C(1) << 48)
#define ATOLL_BTRFS_NO_GROUP UINT64_C(0)

/* `group`: ATOLL_BTRFS_ALL, which must exist, or ATOLL_BTRFS_NO_GROUP. */
int atoll_btrfs_make(int dir, const char *name, uint64_t group) ATOLL_MUST_CHECK;
/* A writable copy of the subvolume whose top is `source`. */
int atoll_btrfs_snapshot(int dir, const char *name, int source, uint64_t group) ATOLL_MUST_CHECK;
/* Success also if it does not exist. Its blocks are freed later. */
int atoll_btrfs_remove(int dir, const char *name) ATOLL_MUST_CHECK;
/* Begins to free the blocks of what was removed now, instead of at the next commit, up to 30 s later. */
int atoll_btrfs_free_soon(int fd) ATOLL_MUST_CHECK;
/* Both. */
int atoll_btrfs_remove_soon(int dir, const char *name) ATOLL_MUST_CHECK;
/* Of the subvolume that has the file. Beyond the limit writes fail with EDQUOT. UINT64_MAX: no limit. */
int atoll_btrfs_limit(int fd, uint64_t bytes) ATOLL_MUST_CHECK;
/* The same, of the group ATOLL_BTRFS_ALL of the file system. */
int atoll_btrfs_limit_all(int fd, uint64_t bytes) ATOLL_MUST_CHECK;
/* Makes that group. Success also if it exists. */
int atoll_btrfs_make_all(int fd) ATOLL_MUST_CHECK;
/* Adds the subvolume that has the file to that group. Success also if it is in it. */
int atoll_btrfs_join_all(int fd) ATOLL_MUST_CHECK;
/* In a mounted sysfs: the directory that has one with figures for each group of the file system. */
int atoll_btrfs_open_groups(int sysfs, int fd) ATOLL_MUST_CHECK;
/* Below it: that of the group ATOLL_BTRFS_ALL. */
int atoll_btrfs_open_all(int groups) ATOLL_MUST_CHECK;
/* What is stored of a group, whose directory this is. */
int atoll_btrfs_stored(int group, uint64_t *ret_bytes) ATOLL_MUST_CHECK;
/* What a subvolume has reserved for what is not on the disk yet. Both are at least what will be written:
 * far more for metadata, of which it grows with the number of changes since the last commit. */
struct atoll_btrfs_unwritten {
    uint64_t data_bytes, metadata_bytes;
};
int atoll_btrfs_unwritten(int groups, uint64_t subvolume,
                          struct atoll_btrfs_unwritten *ret) ATOLL_MUST_CHECK;
/* Waits for a commit. */
int atoll_btrfs_set_read_only(int fd) ATOLL_MUST_CHECK;
/* Whether the subvolume whose top this is is read-only: 1 or 0. */
int atoll_btrfs_is_read_only(int fd) ATOLL_MUST_CHECK;
/* Names the quota group of a subvolume in sysfs, also for a process that does not see the file system. */
struct atoll_btrfs_group {
    uint8_t file_system[16];
    uint64_t subvolume;
};
/* Of the subvolume that has the file. */
int atoll_btrfs_group_of(int fd, struct atoll_btrfs_group *ret) ATOLL_MUST_CHECK;
/* What counts for its limit, with data that is not on the disk yet. */
int atoll_btrfs_used(const struct atoll_btrfs_group *group, uint64_t *ret_bytes) ATOLL_MUST_CHECK;
/* Uses all of a device that has become larger. */
int atoll_btrfs_grow(int fd) ATOLL_MUST_CHECK;
