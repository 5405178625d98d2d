#pragma once
#include "spawn/plan_run.h"

/* Where the state directory is in it. */
#define ATOLL_OWN_STATE "/state"
/* An empty directory to everybody, over which a sandbox of gVisor hangs its bundle. */
#define ATOLL_OWN_BUNDLE "/bundle"

/*
 * Spawn's own small root: a mount namespace with nothing in it but the host's /usr, /proc, /dev and
 * the state directory. Every sandbox starts from a copy of it, so it is small for speed, and so that
 * a mistake in a plan finds nothing of the host to show.
 * A state directory that lies in another instance's says so by a directory `above` in it: there its
 * parent is shown, so that both instances share templates and layers.
 * Re-opens host->state_fd inside and makes it the current directory. Needs root.
 */
int atoll_own_root(struct atoll_spawn_host *host, struct atoll_error *err) ATOLL_MUST_CHECK;
