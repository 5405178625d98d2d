#pragma once
#include <jansson.h>
#include "image/recipe.h"

/*
 * The definition of a template as E2B's Template SDK sends it, and the recipe that is built from it.
 * Pure.
 *
 * The line of a recipe's step is the number of the client's step, from 1; steps that the client did
 * not write have line 0. Clients find the place in their program by this number.
 */
#define ATOLL_E2B_STEPS_MAX 1000
#define ATOLL_E2B_COMMAND_MAX ((size_t)64 * 1024)
/* Names of contexts: this and the hash of the files, as the client computed it. */
#define ATOLL_E2B_FILES "e2b-"
#define ATOLL_E2B_HASH_LEN 64 /* hex digits */

/* Borrowed from the body of the request. */
struct atoll_e2b_definition {
    const char *from_image, *from_template; /* one of them, or none: the default image */
    const json_t *registry;                 /* credentials for the image; or NULL */
    const json_t *steps;                    /* array; NULL: none */
    bool force;                             /* uses no cached step */
    const char *start_cmd, *ready_cmd;      /* NULL or "": none */
};

/* What the base is like. */
struct atoll_e2b_base {
    const char *reference; /* as the base of a stage */
    bool has_user;    /* the user `user` and its home exist; otherwise the first step makes them */
    const char *user; /* of the base's config; NULL or "": user */
    const char *workdir; /* likewise: /home/user */
};

struct atoll_e2b_recipe {
    struct atoll_recipe *recipe; /* owned */
    bool force;                  /* no step comes from the cache */
    const char **contexts;       /* names of those that COPY steps need, each once; in its memory */
    size_t context_count;
};

bool atoll_e2b_hash_is_valid(const char *hash);

/* INVALID_ARGUMENT names the step; RESOURCE_EXHAUSTED. */
int atoll_e2b_recipe_make(const struct atoll_e2b_definition *definition,
                          const struct atoll_e2b_base *base, struct atoll_e2b_recipe *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_e2b_recipe_done(struct atoll_e2b_recipe *recipe);
