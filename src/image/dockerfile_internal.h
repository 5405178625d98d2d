#pragma once
#include "image/dockerfile.h"
#include "image/recipe_internal.h"

/*
 * Internal to the parser of Dockerfiles: dockerfile_lines.c makes lines of instructions, dockerfile_words.c
 * takes them apart, dockerfile_flags.c and mount.c read flags, dockerfile.c makes steps.
 */

/* Reads a text line by line. */
struct atoll_dockerfile_reader {
    const char *p, *end;
    int line; /* of the line that was read last */
    char escape;
    bool directives_done; /* an instruction or another comment was read */
    const char *syntax;   /* in memory m */
    unsigned seen;        /* which directives were read */
    struct atoll_recipe_memory *memory;
};

/* An instruction with its continuation lines joined. */
struct atoll_dockerfile_line {
    const char *text;    /* without white space at both ends */
    int line, last_line; /* last_line: also of here-documents, once they are read */
    bool gap;            /* an empty line continues it; deprecated */
};

/* 1: *ret is filled; 0: end of the text. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
int atoll_dockerfile_next(struct atoll_dockerfile_reader *r, struct atoll_dockerfile_line *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* One word "<<EOF" of a line. */
struct atoll_dockerfile_end {
    const char *name;
    bool expand, tabs;
};
/* Whether a text is exactly one such word: 1, 0, or an error for its quotes. */
int atoll_dockerfile_is_heredoc(struct atoll_recipe_memory *m, const char *text,
                                struct atoll_dockerfile_end *ret,
                                struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads the bodies of all here-documents that begin in `line`. */
int atoll_dockerfile_heredocs(struct atoll_dockerfile_reader *r, struct atoll_dockerfile_line *line,
                              const struct atoll_recipe_heredoc **ret, size_t *ret_count,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* An instruction, its flags "--name=value" and the rest of its line, trimmed. */
struct atoll_dockerfile_parts {
    const char *name;
    size_t name_len;
    struct atoll_recipe_words flags;
    const char *rest;
};
int atoll_dockerfile_split(struct atoll_recipe_memory *m, const char *text, char escape,
                           struct atoll_dockerfile_parts *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Words at white space; quotes have no meaning. */
int atoll_dockerfile_fields(struct atoll_recipe_memory *m, const char *rest,
                            struct atoll_recipe_words *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Words at white space outside of quotes; quotes and escapes stay in the words. */
int atoll_dockerfile_quoted(struct atoll_recipe_memory *m, const char *rest, char escape,
                            struct atoll_recipe_words *ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* 1: a JSON array of strings; 0: not JSON. INVALID_ARGUMENT: an array of something else. */
int atoll_dockerfile_json(struct atoll_recipe_memory *m, const char *rest,
                          struct atoll_recipe_words *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fills the step's flags or health. `kind` ATOLL_RECIPE_KINDS is FROM, whose platform is set. */
int atoll_dockerfile_flags(struct atoll_recipe_memory *m, const struct atoll_recipe_words *flags,
                           enum atoll_recipe_kind kind, struct atoll_recipe_step *step,
                           const char **platform, struct atoll_error *err) ATOLL_MUST_CHECK;
