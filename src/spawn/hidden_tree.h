#pragma once
#include "base/buf.h"

/*
 * Finds the private entries of a host tree: files that others may not read, and directories that
 * others may not list and enter. Root of a sandbox could read them (its user namespace maps the
 * owner), so they must not be visible at all.
 * Blocking: scans the whole tree, about a second for 200,000 files.
 */

/* Enough for some ten thousand entries. */
#define ATOLL_HIDDEN_LIST_MAX ((size_t)1024 * 1024)

/* Appends the path of each private entry, relative to root_fd and NUL-terminated. The contents of a
 * private directory are not listed, nor are symbolic links. An entry that cannot be examined is
 * listed. -ENOBUFS if there are too many, -errno. */
int atoll_hidden_find(int root_fd, struct atoll_buf *paths) ATOLL_MUST_CHECK;

/* Creates in the empty directory to_fd an overlay layer that hides these entries: one whiteout for
 * each. Their parent directories get the owner, mode and times of the tree's, because a merged
 * directory shows the attributes of its uppermost layer. -EBADMSG if the list is malformed. */
int atoll_hidden_lay_out(int root_fd, const char *paths, size_t len, int to_fd) ATOLL_MUST_CHECK;
