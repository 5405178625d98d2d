#pragma once
#include "base/error.h"

/*
 * The simple commands in a text for a POSIX shell or bash: those of pipelines, lists, compound commands,
 * subshells and substitutions, and those that sh -c, env, xargs, sudo and similar programs run. It is for rules
 * about commands, so it prefers too many commands to too few: the body of a function is a command of the text.
 *
 * What only the shell knows is a hole: $X, $(…), *, {a,b}. Pure.
 */
#define ATOLL_SHELL_TEXT_MAX ((size_t)64 * 1024)
#define ATOLL_SHELL_COMMANDS_MAX 512
#define ATOLL_SHELL_DEPTH_MAX 16

#define ATOLL_SHELL_HOLE '\x01' /* in a word: any text */

struct atoll_shell_word {
    char *text; /* owned; without quotes */
    bool many;  /* it may become any number of words, none included */
};

struct atoll_shell_command {
    struct atoll_shell_word *words; /* owned; the first is the program; at least one */
    size_t count;
    /* It only runs others, which are in the list: env, xargs, sh -c … */
    bool runs_others;
};

struct atoll_shell {
    struct atoll_shell_command *commands; /* owned */
    size_t count, bytes;
};

/* INVALID_ARGUMENT: it is not complete, not a text, or uses what is not understood here. RESOURCE_EXHAUSTED: it
 * is larger than the maxima above. Free *ret in all cases. */
int atoll_shell_parse(const char *text, size_t n, struct atoll_shell *ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_shell_done(struct atoll_shell *shell);
