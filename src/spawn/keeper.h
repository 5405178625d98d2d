#pragma once
#include "base/error.h"

/*
 * The keepers of atoll-spawn: processes without a task of their own that start it, and start it again
 * when it was killed. The daemon cannot do that, since it has given its privileges away by then.
 * There are two. One acts; the other watches it, takes its place when it was killed, and starts another
 * to watch in turn. See docs/adr/0023-two-keepers.md.
 */

/* Where atoll-spawn finds what its keeper hands on. */
#define ATOLL_KEEPER_STATE_FD 3 /* the state directory */
#define ATOLL_KEEPER_OVER_FD 4  /* readable once the end is on purpose */

/* Becomes the acting keeper of an atoll-spawn for that state directory: confined, in a session of its
 * own. Ends the process when atoll-spawn has ended by itself; returns only errors. */
int atoll_keeper_run(const char *state, struct atoll_error *err);

/* For atoll-spawn: its end is on purpose, and no keeper is to start another. */
void atoll_keeper_release(void);
