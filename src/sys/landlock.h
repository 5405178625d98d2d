#pragma once
#include "base/defs.h"

/*
 * Where this process may still change files, by Landlock. Capabilities do not decide that: what
 * belongs to root is open to a process with root's id and no capability at all, down to the kernel's
 * own settings. Reading is not touched, nor is what is open already.
 */

/* Below this directory and nowhere else (but /dev/null), for the threads that enter. Before the first of them is
 * started. 0 also where the kernel has no Landlock that knows of renaming (before Linux 5.19). */
int atoll_landlock_prepare(const char *directory) ATOLL_MUST_CHECK;
/* For good, for this thread and all it starts. It needs no_new_privs. Nothing where nothing was
 * prepared. */
int atoll_landlock_enter(void) ATOLL_MUST_CHECK;
