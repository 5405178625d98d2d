#pragma once
#include "base/defs.h"

/*
 * Differences of two texts by lines: the algorithm of Myers, "An O(ND) Difference Algorithm and Its
 * Variations" (1986). Where two texts differ in more than a bounded number of lines, what is between their common
 * beginning and their common end is one difference: correct, but not the shortest.
 */
struct atoll_diff_line {
    const uint8_t *bytes; /* with its newline, if it has one */
    size_t len;
    uint64_t hash;
};
struct atoll_diff_lines {
    struct atoll_diff_line *at; /* owned */
    size_t count;
};
/* Borrows the bytes. -ENOMEM. */
int atoll_diff_lines_split(struct atoll_diff_lines *lines, const uint8_t *bytes,
                           size_t n) ATOLL_MUST_CHECK;
void atoll_diff_lines_done(struct atoll_diff_lines *lines);
bool atoll_diff_lines_equal(const struct atoll_diff_line *a, const struct atoll_diff_line *b);

/* Lines a … a+a_count of the first text are replaced by lines b … b+b_count of the second one. */
struct atoll_diff_edit {
    size_t a, a_count, b, b_count;
};
struct atoll_diff_edits {
    struct atoll_diff_edit *at; /* owned; ascending, with equal lines between them */
    size_t count;
};
/* -ENOMEM. */
int atoll_diff_lines_compare(const struct atoll_diff_lines *a, const struct atoll_diff_lines *b,
                             struct atoll_diff_edits *ret) ATOLL_MUST_CHECK;
void atoll_diff_edits_done(struct atoll_diff_edits *edits);
