#pragma once
#include "git/git.h"

/*
 * From the end of a git command to a problem and the error for the client. Pure.
 */

/* What git means by its words. stdout and stderr are texts; stdout counts for pushes only. */
enum atoll_git_problem atoll_git_judge(enum atoll_git_op op, const char *out, const char *words);
/* Fills *err: kind, a sentence with git's own words, and what the client can do. */
int atoll_git_fail(struct atoll_error *err, enum atoll_git_op op, enum atoll_git_problem problem,
                   const char *words);
/* The indented file names in git's words, NUL-terminated each, for DIRTY. */
void atoll_git_words_files(const char *words, struct atoll_buf *out);
