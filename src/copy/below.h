#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * Paths below a root, which is a descriptor: symbolic links, ".." and leading slashes stay inside it, as after
 * a chroot. Return -errno.
 */
/* A file that O_CREAT makes has the mode 0600. */
int atoll_below_open(int root, const char *path, int flags) ATOLL_MUST_CHECK;
/* Opens a directory (O_PATH); missing ones are made with 0755 and the owner. */
int atoll_below_make(int root, const char *path, uid_t uid, gid_t gid) ATOLL_MUST_CHECK;
