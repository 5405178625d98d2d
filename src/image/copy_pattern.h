#pragma once
#include <stdbool.h>
#include <stddef.h>

/*
 * Patterns of COPY sources, as Go's filepath.Match: "*" and "?" do not match "/", "[a-z]" and "[^a-z]" are
 * sets, "\" quotes the next character. Pure.
 */

/* 1: matches, 0: does not, -EINVAL: not a valid pattern (whatever the path is). */
int atoll_copy_pattern_match(const char *pattern, const char *path);
/* Whether the first n bytes have a character with a meaning. */
bool atoll_copy_has_pattern(const char *text, size_t n);
/* Removes "/" at the beginning and end, "//", "." and ".." (which stays inside). `out` has room for the
 * path. */
void atoll_copy_clean(const char *path, char *out);
