#pragma once
#include "image/recipe.h"

/*
 * Dockerfiles: text to recipe, and advice about it. The syntax is that of BuildKit's frontend
 * docker/dockerfile:1 (directives, continuation lines, here-documents, all instructions and flags).
 * Errors begin with "line N: "; several lines are parsed as one when they are continued.
 */

/* INVALID_ARGUMENT: syntax, an unknown instruction or flag, no FROM; RESOURCE_EXHAUSTED. */
int atoll_dockerfile_parse(const char *text, size_t n, struct atoll_recipe **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Parses one instruction (a trigger of ONBUILD, say) into memory of the caller. */
int atoll_dockerfile_parse_step(struct atoll_recipe_memory *m, const char *text, size_t n,
                                char escape, struct atoll_recipe_step *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;

/*
 * What the shell gets for a RUN in shell form with or without here-documents: the text of `args[0]`, or
 * with here-documents one of two forms, as BuildKit does it:
 * - the command is only a here-document: its body. With "#!" in its first line it is a script
 *   (*ret_script), a file to execute; otherwise it is the text for the shell.
 * - else: the command, a newline, and the bodies with their end words, for the shell to read.
 * Returns text in memory m; NULL without memory.
 */
const char *atoll_dockerfile_script(struct atoll_recipe_memory *m,
                                    const struct atoll_recipe_step *step, bool *ret_script);

struct atoll_dockerfile_warning {
    int line;
    const char *rule; /* as BuildKit's checks are called: "StageNameCasing" … */
    char text[200];
};
/* Calls fn for each warning, at most 200, in the order of lines. */
void atoll_dockerfile_lint(const struct atoll_recipe *r,
                           void (*fn)(const struct atoll_dockerfile_warning *w, void *arg),
                           void *arg);
