#pragma once
#include "base/defs.h"

/*
 * Terminals. Blocking: no.
 */

/* Opens the slave of an unlocked pty master. Returns the descriptor or -errno. Close-on-exec; does
 * not become the controlling terminal. */
int atoll_pty_peer(int master) ATOLL_MUST_CHECK;
