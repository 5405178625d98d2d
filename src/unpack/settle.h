#pragma once
#include "base/error.h"

/*
 * Directories that archives of upper layers only imply. Such a directory has mode 0755 and root as its
 * owner in its layer, and in an overlay it would hide the mode, owner, times and attributes that a lower
 * layer gives it. Tools that unpack all layers into one tree keep these.
 *
 * So a layer is made for the top of the stack: it has only these directories and those that lead to them,
 * with the attributes that the uppermost archive with an entry for them gives. A directory of which only
 * the time differs is left as it is.
 */

/* dirs: paths of the layers, bottom first; out: an empty directory. *ret_made: how many directories it has
 * then; 0: the stack needs no such layer. Blocking. RESOURCE_EXHAUSTED, INTERNAL. */
int atoll_settle(char *const *dirs, size_t count, int out, uint64_t *ret_made,
                 struct atoll_error *err) ATOLL_MUST_CHECK;
