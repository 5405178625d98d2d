#pragma once
#include "image/lex.h"

/*
 * RUN --mount=KEY=VALUE,… Pure.
 */

/* Parses the text of a flag. With `lex` variables are replaced, and everything is checked; without it
 * values that have a variable are left for later, except `from`, which cannot have one. */
int atoll_recipe_mount_parse(struct atoll_recipe_memory *m, const char *text,
                             const struct atoll_lex *lex, struct atoll_recipe_mount *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
