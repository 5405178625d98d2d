#pragma once
#include "base/defs.h"

/*
 * The mount system calls, based on descriptors. All return -errno; the caller owns returned
 * descriptors. Path lookup below dirfd cannot leave it.
 */

/* Returns a detached copy of the mount at dirfd/path. */
int atoll_mnt_clone(int dirfd, const char *path, bool recursive) ATOLL_MUST_CHECK;
/* Makes the detached mount show file owners through the id map of userns_fd. */
int atoll_mnt_idmap(int mount_fd, int userns_fd) ATOLL_MUST_CHECK;
/* Sets MOUNT_ATTR_* bits on a mount. */
int atoll_mnt_set_attr(int mount_fd, uint64_t attr_set, bool recursive) ATOLL_MUST_CHECK;
/* Sets some MOUNT_ATTR_* bits of a mount and clears others. */
int atoll_mnt_change_attr(int mount_fd, uint64_t attr_set, uint64_t attr_clear) ATOLL_MUST_CHECK;
/* Attaches a detached mount at dirfd/path ("" means dirfd itself). */
int atoll_mnt_attach(int mount_fd, int dirfd, const char *path) ATOLL_MUST_CHECK;

/* A key and value of a file system's configuration; a NULL value is a flag. */
struct atoll_mnt_option {
    const char *key, *value;
};
/* Makes a new file system instance and returns its detached mount. Options end with a NULL key. */
int atoll_mnt_new(const char *fstype, const struct atoll_mnt_option *options,
                  uint64_t attrs) ATOLL_MUST_CHECK;

#define ATOLL_MNT_RDONLY 0x1u
#define ATOLL_MNT_NOSUID 0x2u
#define ATOLL_MNT_NODEV 0x4u
#define ATOLL_MNT_NOEXEC 0x8u
