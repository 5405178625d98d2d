#pragma once
#include "base/defs.h"

/*
 * Restricts by Landlock where this process may change files. Dropping capabilities is not enough: a
 * process with uid 0 and no capability can still write every file that root owns, including kernel
 * settings in /proc/sys. Reading is not restricted, nor are descriptors that are already open.
 */

/* Prepares the rule: threads that call atoll_landlock_enter() may change files only below
 * `directory` (and write /dev/null). Call it before the first such thread is started. 0 also if the
 * kernel's Landlock is absent or cannot allow renames between directories (before Linux 5.19); then
 * nothing is restricted. */
int atoll_landlock_prepare(const char *directory) ATOLL_MUST_CHECK;
/* Restricts the calling thread and the threads it starts, permanently. Needs no_new_privs. Does
 * nothing if nothing was prepared. */
int atoll_landlock_enter(void) ATOLL_MUST_CHECK;
