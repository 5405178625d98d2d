#pragma once
#include "base/buf.h"
#include "diff/compare.h"

/*
 * Changes as lines of JSON, and their numbers. Members of a line: diff.h.
 */
struct atoll_diff_report {
    int out_fd;
    uint64_t lines_left; /* how many are still printed; all are counted */
    uint64_t counts[ATOLL_DIFF_CHANGE_KINDS];
    uint64_t bytes; /* of files that were added or changed, as they are after it */
    bool truncated;
    struct atoll_buf out;
};
void atoll_diff_report_init(struct atoll_diff_report *report, int out_fd, uint64_t max_lines);
/* As atoll_diff_change_fn. */
int atoll_diff_report_add(void *arg, const struct atoll_diff_change *change,
                          struct atoll_error *err);
/* The last line, with the numbers. */
int atoll_diff_report_finish(struct atoll_diff_report *report,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_diff_report_done(struct atoll_diff_report *report);
