#pragma once
#include "base/tree_line.h"
#include "image/copy_match.h"

/*
 * Internal to COPY: the entries of a tree in an order in which a directory is followed by all that is below
 * it, so that a subtree is a range.
 */
struct atoll_copy_entry {
    const char *path;   /* "" is the root */
    const char *target; /* of a link */
    uint32_t mode, uid, gid;
    uint8_t type; /* enum atoll_tree_type */
    uint8_t sha256[32];
};

struct atoll_copy_tree {
    char *text;                       /* owned */
    struct atoll_copy_entry *entries; /* owned; entries[0] is the root */
    size_t count;
};

/* The entry of exactly that path; NULL: it is not in the tree. */
const struct atoll_copy_entry *atoll_copy_tree_find(const struct atoll_copy_tree *tree,
                                                    const char *path, size_t n);
/* Follows a path component by component, with ".", ".." and links, inside the tree. NULL: it does not
 * exist, with *ret_loop false; or it has too many links. */
const struct atoll_copy_entry *atoll_copy_tree_walk(const struct atoll_copy_tree *tree,
                                                    const char *path, bool *ret_loop);
/* The end of the range of entries below `entry` (which is the first behind it). */
const struct atoll_copy_entry *atoll_copy_tree_end(const struct atoll_copy_tree *tree,
                                                   const struct atoll_copy_entry *entry);
