#pragma once
#include "base/defs.h"

/*
 * Removes the tree `name` below dirfd, whatever is in it: descriptor by descriptor, never following
 * a link, never crossing into another file system, with bounded stack and descriptors however deep
 * the tree is. Absent is success. Blocking, and slow on a large tree. Returns -errno.
 */
int atoll_tree_remove(int dirfd, const char *name) ATOLL_MUST_CHECK;
