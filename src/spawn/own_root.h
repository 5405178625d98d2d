#pragma once
#include "spawn/build.h"

/*
 * Spawn's own small root: a mount namespace with nothing in it but the host's /usr, /proc, /dev and
 * the state directory. Every sandbox starts from a copy of it, so it is small for speed, and so that
 * a mistake in a plan finds nothing of the host to show.
 * Re-opens host->state_fd inside and makes it the current directory. Needs root.
 */
int atoll_own_root(struct atoll_spawn_host *host, struct atoll_error *err) ATOLL_MUST_CHECK;
