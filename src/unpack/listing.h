#pragma once
#include "base/error.h"
#include "base/tree_line.h"

/*
 * The manifest of a tree while it is unpacked: entries in the order of the archive, of which the last one of
 * a path counts. Directories that only the paths of other entries name are part of it. Written sorted by path. Held in memory.
 */
struct atoll_listing;

struct atoll_listing *atoll_listing_new(void);
struct atoll_listing *atoll_listing_free(struct atoll_listing *l);
/* Copies. A hard link (target is a path of the listing) is added by _link. -ENOMEM. */
int atoll_listing_add(struct atoll_listing *l, const struct atoll_tree_line *line) ATOLL_MUST_CHECK;
/* path is the same file as target. Ignored if target is not listed. -ENOMEM. */
int atoll_listing_link(struct atoll_listing *l, const char *path,
                       const char *target) ATOLL_MUST_CHECK;
/* Writes the lines. -errno. */
int atoll_listing_write(struct atoll_listing *l, int fd) ATOLL_MUST_CHECK;
