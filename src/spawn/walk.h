#pragma once
#include "base/defs.h"

/*
 * The directories of a tree that are still to be visited, as paths below its top. A walk opens each by
 * its path, so it needs neither recursion nor a descriptor for each level, however deep a tree is. A
 * path of ATOLL_WALK_PATH bytes or more is refused.
 */
#define ATOLL_WALK_PATH 4096

struct atoll_walk {
    struct atoll_walk_item *top;
    size_t bytes; /* of all paths, bounded */
};

/* dir/name, or name if dir is "". -ENAMETOOLONG. */
int atoll_walk_join(char ret[static ATOLL_WALK_PATH], const char *dir,
                    const char *name) ATOLL_MUST_CHECK;
/* -ENOMEM. */
int atoll_walk_push(struct atoll_walk *walk, const char *path) ATOLL_MUST_CHECK;
/* Takes the path that was pushed last; false if all were taken. */
bool atoll_walk_pop(struct atoll_walk *walk, char ret[static ATOLL_WALK_PATH]);
void atoll_walk_done(struct atoll_walk *walk);

/* What a tree has: bytes of its regular files, each once, without holes; and number of entries below
 * its top. Blocking. -errno. */
struct atoll_walk_sum {
    uint64_t bytes, files;
};
int atoll_walk_count(int top, struct atoll_walk_sum *ret) ATOLL_MUST_CHECK;
/* The same of what is left without its sockets. */
int atoll_walk_remove_sockets(int top, struct atoll_walk_sum *ret) ATOLL_MUST_CHECK;
/* Removes an entry of a directory, which keeps its times. Success if it does not exist. */
int atoll_walk_remove(int dir, const char *name) ATOLL_MUST_CHECK;

struct stat;
/* The bytes that a regular file takes, without its holes. */
uint64_t atoll_walk_bytes(const struct stat *st);
/* The part of them for each of its names. */
uint64_t atoll_walk_share(const struct stat *st);
