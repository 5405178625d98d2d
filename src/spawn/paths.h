#pragma once
#include "base/defs.h"

/*
 * Places on the host that a plan may name: a path below the state directory. Opened without
 * leaving it: a link or ".." that points outside is refused.
 */
int atoll_paths_open(int state_fd, const char *path, int flags) ATOLL_MUST_CHECK;
