#pragma once
#include "base/buf.h"

/*
 * What of a tree of the host is not for all of its users: files that others may not read, and
 * directories that others may not list and enter. Root of a sandbox has the rights of root over
 * them (its user namespace maps the owner), so they must not be in sight at all.
 * Blocking: goes through the whole tree, which takes about a second for 200,000 files.
 */

/* Enough for some ten thousand entries. */
#define ATOLL_HIDDEN_LIST_MAX ((size_t)1024 * 1024)

/* Appends the path of each such entry, relative to root_fd and with its terminating NUL. What is below
 * such a directory is not listed, and neither are symbolic links. An entry that cannot be looked
 * at is listed. -ENOBUFS when there are too many, -errno. */
int atoll_hidden_find(int root_fd, struct atoll_buf *paths) ATOLL_MUST_CHECK;

/* Makes an overlay layer in the empty directory to_fd that hides these entries of the tree: a whiteout
 * for each, in directories with owner, mode and times of those of the tree, since a merged directory
 * shows those of its uppermost layer. -EBADMSG for a list that is none. */
int atoll_hidden_lay_out(int root_fd, const char *paths, size_t len, int to_fd) ATOLL_MUST_CHECK;
