#pragma once
#include "base/defs.h"

/*
 * Removes the tree `name` below dirfd. The content may be hostile: links are never followed, other
 * file systems are never entered, and stack and descriptors are bounded at any depth of the tree.
 * Success if it does not exist. Blocking, and slow on a large tree. Returns -errno.
 */
int atoll_tree_remove(int dirfd, const char *name) ATOLL_MUST_CHECK;
