#pragma once
#include "base/defs.h"

/*
 * Opens a host path that a plan may name: a path below the state directory. A link or ".." that
 * leads outside is refused.
 */
int atoll_paths_open(int state_fd, const char *path, int flags) ATOLL_MUST_CHECK;

/* True if the path is relative and has no empty, "." or ".." components: it stays below the root
 * that a plan builds. */
bool atoll_paths_is_inside(const char *path);

/* True if the directory dirfd/path exists and is not empty. */
bool atoll_paths_holds_entries(int dirfd, const char *path);
