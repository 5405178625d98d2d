#pragma once
#include "base/defs.h"

/*
 * Owner, attributes that a layer may have, mode and time of modification, from one file or directory of a
 * layer to another. Attributes that overlayfs has renamed for a tenant (user.overlay.overlay.*) are of them,
 * marks of the layer itself are not. One thread. Blocking. -errno.
 */
int atoll_attributes_copy(int from, int to) ATOLL_MUST_CHECK;
