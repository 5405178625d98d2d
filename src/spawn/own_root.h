#pragma once
#include "spawn/plan_run.h"

/* Path of the state directory in spawn's own root. */
#define ATOLL_OWN_STATE "/state"
/* An empty directory; a gVisor sandbox mounts its bundle on it, in its own mount namespace. */
#define ATOLL_OWN_BUNDLE "/bundle"

/*
 * Spawn's own small root: a mount namespace that contains only the host's /usr, /proc, /dev, the
 * state directory, and the folders that the operator has listed (folders.h). Every sandbox starts from a copy of it: a small one is fast to copy, and a
 * mistake in a plan cannot expose other files of the host. A state directory inside that of another
 * instance contains a directory `above`: the parent state directory is mounted there, so that both
 * instances share templates and layers. Re-opens host->state_fd inside and makes it the current
 * directory. Needs root.
 */
int atoll_own_root(struct atoll_spawn_host *host, struct atoll_error *err) ATOLL_MUST_CHECK;
