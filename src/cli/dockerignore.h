#pragma once
#include "base/error.h"

/*
 * Which files of a directory are not for a build: the patterns of its .dockerignore. A line is a path from
 * the top with "*", "?" and "[...]" within a name and "**" for any number of directories; it also
 * means all below what it names. "!" before it takes an exception back, "#" begins a comment, and the last
 * line that matches decides. Pure, but for atoll_dockerignore_load().
 */
#define ATOLL_DOCKERIGNORE_MAX 1024 /* lines */

struct atoll_dockerignore {
    struct {
        char *pattern; /* owned */
        bool except;
    } lines[ATOLL_DOCKERIGNORE_MAX];
    size_t count;
    bool excepts; /* some line does */
};

/* INVALID_ARGUMENT for too many lines. */
int atoll_dockerignore_parse(struct atoll_dockerignore *ret, const char *text,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* From the file of that name in a directory; none is an empty one. */
int atoll_dockerignore_load(struct atoll_dockerignore *ret, int dir_fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_dockerignore_done(struct atoll_dockerignore *d);
/* path: from the top, without "./". */
bool atoll_dockerignore_match(const struct atoll_dockerignore *d, const char *path);
