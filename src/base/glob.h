#pragma once
#include <stdbool.h>

/*
 * Patterns for relative paths, matched by components: "?" matches one character, "*" any number of
 * characters, "[a-z]" and "[!a-z]" one character of a set, and the component "**" any number of
 * components. A pattern that ends with "/" matches everything below. None of these matches a dot at the
 * beginning of a component; such a dot must be written. "\" quotes the next character.
 *
 * Pure. Worst case: length of the pattern times length of the path.
 */
bool atoll_glob_match(const char *pattern, const char *path);
/* The same, but dots are characters like any other. */
bool atoll_glob_match_dots(const char *pattern, const char *path);
