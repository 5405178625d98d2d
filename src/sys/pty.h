#pragma once
#include "base/defs.h"

/*
 * Terminals. Blocking: no.
 */

/* The other side of an unlocked /dev/ptmx, or -errno. Close-on-exec, not the controlling terminal. */
int atoll_pty_peer(int master) ATOLL_MUST_CHECK;
