#pragma once
#include "base/buf.h"
#include "diff/compare.h"

/*
 * Changes as a patch that `git apply` takes: text as unified hunks, other content as git's binary literals, links
 * and modes as git has them. Directories, fifos and device nodes cannot be in such a patch and are left out;
 * a type that changes is a removal and a new file. Owners and modes other than "executable" are not in it.
 */
struct atoll_diff_patch {
    int out_fd;
    size_t skip; /* bytes at the begin of each path that the patch leaves out */
    uint64_t bytes, max_bytes;
};
/* As atoll_diff_change_fn. RESOURCE_EXHAUSTED: the patch is longer than max_bytes. */
int atoll_diff_patch_add(void *arg, const struct atoll_diff_change *change,
                         struct atoll_error *err);
