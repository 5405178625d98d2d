#pragma once
#include <stdbool.h>

/*
 * Patterns of relative paths, segment by segment: "?" stands for a character, "*" for any number of
 * them, "[a-z]" and "[!a-z]" for one of a set, and the segment "**" for any number of segments. A
 * pattern that ends with "/" means everything below. None of these matches a dot at the beginning
 * of a segment; one that is meant is written. "\" takes the meaning from what follows.
 *
 * Pure; takes at most as many steps as both have bytes, multiplied.
 */
bool atoll_glob_match(const char *pattern, const char *path);
