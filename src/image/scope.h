#pragma once
#include "image/stages.h"

/*
 * Variables of a build: ARG and ENV while the steps of one stage are walked, and the replacement of
 * "$X", "${X}", "${X:-d}", "${X-d}", "${X:+a}", "${X+a}", "${X:?e}", "${X?e}", "${X#p}", "${X##p}",
 * "${X%p}", "${X%%p}", "${X/p/r}" and "${X//p/r}". An ENV hides an ARG of the same name.
 *
 * How a build uses it, for each stage:
 *   scope = atoll_recipe_scope_new(recipe, inputs), or _child(scope of the base) if the base is a stage;
 *   atoll_recipe_scope_set_env() for each variable of the base image's config;
 *   for each step: atoll_recipe_scope_expand(scope, step, &expanded), which also applies ARG and ENV;
 *   for RUN: atoll_recipe_scope_next() iterates the variables that the command gets.
 * Thread: one scope is used by one thread at a time.
 */
struct atoll_recipe_scope;

/* Both borrow the recipe and the inputs. NULL: no memory, or a global ARG that atoll_recipe_plan()
 * refuses. */
struct atoll_recipe_scope *atoll_recipe_scope_new(const struct atoll_recipe *r,
                                                  const struct atoll_recipe_inputs *inputs);
/* A copy of what `parent` has now: a stage FROM another stage inherits its ARG and ENV. */
struct atoll_recipe_scope *atoll_recipe_scope_child(const struct atoll_recipe_scope *parent);
struct atoll_recipe_scope *atoll_recipe_scope_free(struct atoll_recipe_scope *s);

/* Copies both. RESOURCE_EXHAUSTED. */
int atoll_recipe_scope_set_env(struct atoll_recipe_scope *s, const char *name, const char *value,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/*
 * Replaces variables in a step, as its kind has it: in all of ADD COPY ENV ARG EXPOSE LABEL STOPSIGNAL
 * USER VOLUME WORKDIR; of RUN only in its flags; nothing in CMD ENTRYPOINT HEALTHCHECK MAINTAINER ONBUILD
 * SHELL. The result lives as long as the scope. An ARG gets the value that holds: a build argument, else
 * its default, else the global ARG's, else NULL. ARG and ENV then hold for the steps that follow.
 * INVALID_ARGUMENT ("line N: …"): "${X:?message}" or bad syntax; RESOURCE_EXHAUSTED.
 */
int atoll_recipe_scope_expand(struct atoll_recipe_scope *s, const struct atoll_recipe_step *step,
                              struct atoll_recipe_step *ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same for one text, quotes removed. */
int atoll_recipe_scope_expand_text(struct atoll_recipe_scope *s, const char *text, const char **ret,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;

struct atoll_recipe_variable {
    const char *name, *value;
    bool env;        /* ENV: part of the image's config; else ARG: only of the build */
    bool predefined; /* HTTP_PROXY and the like, given without an ARG: not part of any key */
};
/* Iterates what RUN gets, in the order of names: start with *pos = 0; false at the end. */
bool atoll_recipe_scope_next(struct atoll_recipe_scope *s, size_t *pos,
                             struct atoll_recipe_variable *ret);
/* The value that "$name" has; NULL: not set. */
const char *atoll_recipe_scope_get(const struct atoll_recipe_scope *s, const char *name);
