#pragma once
#include "base/error.h"
#include "engine/engine.h"

/* Checks a mount of a request: the name of its volume or its directory of the host, its path, and that the path
 * does not overlap with one of the mounts before it. INVALID_ARGUMENT. */
int atoll_mount_check(const struct atoll_mount *mount, const struct atoll_mount *before,
                      size_t count, struct atoll_error *err) ATOLL_MUST_CHECK;
