#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/defs.h"

/*
 * Rules of .gitignore files (gitignore(5)): which files of a tree are left out. The files may come from a
 * tenant: the size of all rules is bounded, and so is the time of a match (size of the rules times length of
 * the path, for each directory in it).
 */
#define ATOLL_IGNORE_BYTES_MAX ((size_t)8 * 1024)

struct atoll_ignore;

struct atoll_ignore *atoll_ignore_new(void);
struct atoll_ignore *atoll_ignore_free(struct atoll_ignore *ignore); /* accepts NULL */
/* Adds the rules of one file in `dir`, a relative path without a slash at its end; "" is the top. -E2BIG:
 * there are too many; those that fit are kept. */
int atoll_ignore_add(struct atoll_ignore *ignore, const char *dir, const char *text,
                     size_t n) ATOLL_MUST_CHECK;
/* Whether the rules leave out the file at this relative path, or a directory above it. Nothing in a
 * directory .git is left out. */
bool atoll_ignore_match(const struct atoll_ignore *ignore, const char *path);
/* The size of all rules, to estimate the time of a match. */
size_t atoll_ignore_bytes(const struct atoll_ignore *ignore);
