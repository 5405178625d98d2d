#pragma once
#include "base/error.h"

/*
 * The keepers of atoll-spawn: processes that only start it, and restart it after it was killed. The
 * daemon cannot restart it, because the daemon has dropped its privileges by then.
 * There are two. The acting keeper is the parent of atoll-spawn; the watcher replaces it if it is
 * killed, and starts a new watcher. See docs/adr/0023-two-keepers.md.
 */

/* Descriptors that the keeper passes to atoll-spawn. */
#define ATOLL_KEEPER_STATE_FD 3 /* the state directory */
#define ATOLL_KEEPER_OVER_FD 4  /* readable when the end is intended */

#define ATOLL_KEEPER_LIST_FD 5    /* the list of folders of the host (folders.h) */
#define ATOLL_KEEPER_FOLDERS_FD 6 /* the first of them; up to ATOLL_HOST_FOLDERS_MAX */

/* Becomes the acting keeper of an atoll-spawn for that state directory: confined, in a new session. folders: see
 * atoll_folders_keep(). Ends the process when atoll-spawn has exited by itself; returns only errors. */
int atoll_keeper_run(const char *state, char *const *folders, int folder_count,
                     struct atoll_error *err);

/* Called by atoll-spawn before an intended end: keepers do not restart it. */
void atoll_keeper_release(void);
