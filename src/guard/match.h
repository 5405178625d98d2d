#pragma once
#include "guard/shell.h"

/*
 * Patterns for commands, such as "git push *": a pattern is a list of words. In a word, "*" is any text and "?" one
 * character, unless they are quoted; the word "*" is any number of words. A program without "/" in the pattern matches
 * its base name. Pure.
 */
enum atoll_match {
    ATOLL_MATCH_NO,
    ATOLL_MATCH_MAYBE, /* it depends on what is known only when the command runs */
    ATOLL_MATCH_YES,
};

#define ATOLL_PATTERN_MAX 256 /* bytes */

struct atoll_pattern {
    char **words; /* owned; with ATOLL_PATTERN_ANY and ATOLL_PATTERN_ONE */
    size_t count;
};
#define ATOLL_PATTERN_ANY '\x02'
#define ATOLL_PATTERN_ONE '\x03'

/* INVALID_ARGUMENT. */
int atoll_pattern_parse(const char *text, struct atoll_pattern *ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Whether it can match: the commands of a line are compared one by one, so that operators are in none of them. For
 * new rules: those that are stored keep on meaning nothing. INVALID_ARGUMENT. */
int atoll_pattern_check(const char *text, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_pattern_done(struct atoll_pattern *pattern);

/* *work bounds the steps of all matches of one decision; when it is 0, the answer is MAYBE. */
enum atoll_match atoll_pattern_match(const struct atoll_pattern *pattern,
                                     const struct atoll_shell_command *command, size_t *work);
