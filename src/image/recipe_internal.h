#pragma once
#include "image/recipe.h"

/*
 * Internal to the files that make recipes: arrays in the memory of a recipe, and the error for its limit.
 */

/* Room for one more element behind `count` elements of `size` bytes: returns the array, which may have
 * moved, or NULL without memory. All elements must have been added by this function. */
void *atoll_recipe_grow(struct atoll_recipe_memory *m, void *array, size_t count, size_t size);

/* RESOURCE_EXHAUSTED: a definition that needs more memory than it may. */
int atoll_recipe_no_room(struct atoll_error *err);
/* INVALID_ARGUMENT: "line N: …"; without the line if it is 0. */
int atoll_recipe_refuse(struct atoll_error *err, int line, const char *fmt, ...) ATOLL_PRINTF(3, 4);
/* Puts "line N: " before the text of an error, unless the line is 0. Returns the same errno. */
int atoll_recipe_at_line(struct atoll_error *err, int line);

/* Words that are added one by one. */
struct atoll_recipe_words {
    const char **items;
    size_t count;
};
/* Copies the word. RESOURCE_EXHAUSTED. */
int atoll_recipe_add_word(struct atoll_recipe_memory *m, struct atoll_recipe_words *w,
                          const char *text, size_t n, struct atoll_error *err) ATOLL_MUST_CHECK;

/* scope.c: atoll_recipe_scope_new() with an error, and text with the variables of FROM only. */
struct atoll_recipe_scope;
struct atoll_recipe_inputs;
int atoll_recipe_scope_open(const struct atoll_recipe *r, const struct atoll_recipe_inputs *inputs,
                            struct atoll_recipe_scope **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_recipe_scope_expand_global(struct atoll_recipe_scope *s, const char *text,
                                     const char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
