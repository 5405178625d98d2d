#pragma once
#include "base/error.h"

/*
 * The patterns of a .dockerignore file: which files of a directory are not sent to a build. A line is a
 * path relative to the directory, with "*", "?" and "[...]" within a name and "**" for any number of
 * directories; it also matches everything below. A line with "!" includes files again, "#" begins a
 * comment, and the last line that matches decides. Pure, except atoll_dockerignore_load().
 */
#define ATOLL_DOCKERIGNORE_MAX 1024 /* lines */

struct atoll_dockerignore {
    struct {
        char *pattern; /* owned */
        bool except;
    } lines[ATOLL_DOCKERIGNORE_MAX];
    size_t count;
    bool excepts; /* at least one line has "!" */
};

/* INVALID_ARGUMENT for too many lines. */
int atoll_dockerignore_parse(struct atoll_dockerignore *ret, const char *text,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads .dockerignore in a directory; a missing file has no patterns. */
int atoll_dockerignore_load(struct atoll_dockerignore *ret, int dir_fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds one line to a zeroed or parsed list; "#" has no meaning in it. INVALID_ARGUMENT: too many. */
int atoll_dockerignore_add(struct atoll_dockerignore *d, const char *pattern,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_dockerignore_done(struct atoll_dockerignore *d);
/* Whether the path is ignored. `path` is relative to the directory, without "./". */
bool atoll_dockerignore_match(const struct atoll_dockerignore *d, const char *path);
/* Whether one pattern matches the path or one of its parent directories. */
bool atoll_dockerignore_names(const char *pattern, const char *path);
