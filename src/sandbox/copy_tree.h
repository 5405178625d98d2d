#pragma once
#include "base/defs.h"

/*
 * Copies a file, link or directory tree for a template: regular files that everybody may read,
 * symbolic links as they are, directories; everything else is left out. Each entry takes one from
 * *budget. Blocking. -ENOENT when the source is not there, -EACCES when it may not be copied,
 * -E2BIG when the budget is used up, -errno.
 */
int atoll_copy_tree(int from_dir, const char *from, int to_dir, const char *to,
                    unsigned *budget) ATOLL_MUST_CHECK;
