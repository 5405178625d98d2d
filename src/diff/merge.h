#pragma once
#include "base/buf.h"
#include "diff/compare.h"

/*
 * Three-way merges: what leads from BASE to THEIRS, for a tree that is OURS now.
 *
 * A path that only THEIRS has changed is taken. One that both have changed in the same way is left. Texts that both
 * have changed in different lines are joined; anything else is a conflict, which `prefer` decides.
 */
enum atoll_diff_prefer { ATOLL_DIFF_PREFER_NONE, ATOLL_DIFF_PREFER_OURS, ATOLL_DIFF_PREFER_THEIRS };

struct atoll_diff_merge {
    const struct atoll_diff_view *ours;
    /* What OURS was made from, or NULL. Then only conflicts are printed, and only where OURS has changed something since
     * as well: both can be forks of a tree that has changed in between. Something in a directory that the other one has
     * removed or replaced is such a conflict, too. */
    const struct atoll_diff_view *since;
    enum atoll_diff_prefer prefer;
    bool stream; /* print what is to be written, with its bytes (apply.h), instead of JSON */
    int out_fd;
    uint64_t lines_left; /* of JSON, about changes */
    uint64_t conflict_lines_left;
    uint64_t bytes_left; /* of a stream */
    uint64_t changes, conflicts;
};
/* As atoll_diff_change_fn, for the changes from BASE to THEIRS. */
int atoll_diff_merge_add(void *arg, const struct atoll_diff_change *change,
                         struct atoll_error *err);
/* The last line. */
int atoll_diff_merge_finish(struct atoll_diff_merge *merge,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Joins two texts that were made from one. 1: done; 0: they have changed the same lines. -ENOMEM, -ENOBUFS. */
int atoll_diff_join(const struct atoll_buf *base, const struct atoll_buf *ours,
                    const struct atoll_buf *theirs, struct atoll_buf *out) ATOLL_MUST_CHECK;
