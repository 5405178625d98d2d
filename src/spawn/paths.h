#pragma once
#include "base/defs.h"

/*
 * Places on the host that a plan may name: a path below the state directory. Opened without
 * leaving it: a link or ".." that points outside is refused.
 */
int atoll_paths_open(int state_fd, const char *path, int flags) ATOLL_MUST_CHECK;

/* Whether it is a place below the root that a plan puts together: relative, and without empty, "." or
 * ".." parts. */
bool atoll_paths_is_inside(const char *path);

/* Whether there is anything in that directory, named from dirfd. */
bool atoll_paths_holds_entries(int dirfd, const char *path);
