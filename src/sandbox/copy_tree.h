#pragma once
#include "base/defs.h"

/*
 * Copies a file, link or directory tree for a template: world-readable regular files, symbolic
 * links (not followed) and directories; other entries are skipped. Each entry decrements *budget.
 * Blocking. -ENOENT if the source does not exist, -EACCES if it is not world-readable, -E2BIG if
 * the budget is used up, -errno.
 */
int atoll_copy_tree(int from_dir, const char *from, int to_dir, const char *to,
                    unsigned *budget) ATOLL_MUST_CHECK;
