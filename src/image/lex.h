#pragma once
#include "base/buf.h"
#include "image/recipe.h"

/*
 * Words of Dockerfiles: quotes, escapes and variables, as BuildKit reads them. Pure; results are in memory
 * of the caller. Time and size are bounded: a result has at most ATOLL_LEX_TEXT_MAX bytes.
 */
#define ATOLL_LEX_TEXT_MAX ((size_t)1024 * 1024)
#define ATOLL_LEX_PATTERN_MAX \
    ((size_t)64 * 1024)        /* of a value that "${X#p}" and the like work on */
#define ATOLL_LEX_DEPTH_MAX 32 /* of "${A:-${B:-…}}" */

struct atoll_lex {
    char escape;
    bool raw_quotes;  /* quotes stay in the result */
    bool raw_escapes; /* escape characters stay in the result */
    bool no_quotes;   /* quotes have no meaning, as in here-documents */
    bool keep_unset;  /* "$X" stays when X is not set */
    /* The value of a variable; NULL: not set. */
    const char *(*get)(void *arg, const char *name);
    void *arg;
};

/* Replaces variables and removes quotes. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_lex_text(const struct atoll_lex *lex, struct atoll_recipe_memory *m, const char *text,
                   const char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, split at white space outside of quotes; at most ATOLL_RECIPE_WORDS_MAX words. */
int atoll_lex_words(const struct atoll_lex *lex, struct atoll_recipe_memory *m, const char *text,
                    const char ***ret, size_t *ret_count, struct atoll_error *err) ATOLL_MUST_CHECK;

/* lex_pattern.c: operators on the value of a variable. Patterns have "*" and "?"; "\" quotes. Appends the
 * result. INVALID_ARGUMENT for a bad escape or a value beyond ATOLL_LEX_PATTERN_MAX. */
enum atoll_lex_trim {
    ATOLL_LEX_PREFIX, /* "#" */
    ATOLL_LEX_SUFFIX, /* "%" */
};
int atoll_lex_trim(struct atoll_buf *out, const char *value, const char *pattern,
                   enum atoll_lex_trim what, bool longest,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_lex_replace(struct atoll_buf *out, const char *value, const char *pattern,
                      const char *replacement, bool all, struct atoll_error *err) ATOLL_MUST_CHECK;

/* White space as Dockerfiles have it. */
static inline bool atoll_lex_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}
