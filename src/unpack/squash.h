#pragma once
#include "base/error.h"

/*
 * Makes one layer of several: on any stack, the result shows what the layers show there. In each directory
 * the uppermost layer that has a name decides about it, as in overlayfs:
 *
 *   - a whiteout stays one, and hides the name of the layers below the result
 *   - a directory is made of those of the layers below it, down to the first one that is opaque or to a
 *     name that is none; in these cases the result is opaque
 *   - of other entries the uppermost one is copied. Names of one file of a layer stay names of one file
 *   - sockets and devices, which a layer cannot have, become whiteouts
 *
 * The layers may be hostile: links are not followed, and directories are opened by their path, so that
 * descriptors and the stack do not grow with the depth of a tree.
 */
struct atoll_squash_options {
    uint64_t max_bytes, max_files; /* of the result */
};
struct atoll_squash_result {
    uint64_t bytes, files; /* of files, each once, without holes; of entries below the top */
};

/* dirs: paths of the layers, bottom first; out: an empty directory. Blocking. RESOURCE_EXHAUSTED: a limit, or
 * no room; FAILED_PRECONDITION: a path is too long; INTERNAL. */
int atoll_squash(char *const *dirs, size_t count, int out,
                 const struct atoll_squash_options *options, struct atoll_squash_result *ret,
                 struct atoll_error *err) ATOLL_MUST_CHECK;
