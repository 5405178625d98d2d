#pragma once
#include "base/error.h"

/*
 * What the daemon and atoll-egress do to their own process before they read the first byte of a client.
 * Blocking: a few system calls each.
 */

/* Raises the limit of open descriptors as far as permitted. */
void atoll_self_raise_files(void);
/* Forbids core dumps, drops all capabilities for good, installs the seccomp filter of sandboxes, and lets
 * Landlock restrict writes to the directory it was prepared with. */
int atoll_self_confine(struct atoll_error *err) ATOLL_MUST_CHECK;
