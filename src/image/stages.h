#pragma once
#include "image/recipe.h"

/*
 * Which stages a build needs, and what they are made from. Pure.
 */

/* What the client gave to a build. All borrowed. */
struct atoll_recipe_inputs {
    const struct atoll_recipe_pair
        *args; /* build arguments; a value NULL is as if it were not given */
    size_t arg_count;
    const char *target;   /* stage, or its number; NULL: the last one */
    const char *platform; /* "linux/amd64", of the result and of this host */
};

enum atoll_recipe_source_kind {
    ATOLL_RECIPE_FROM_SCRATCH,
    ATOLL_RECIPE_FROM_STAGE,
    ATOLL_RECIPE_FROM_IMAGE,
    ATOLL_RECIPE_FROM_CONTEXT, /* of COPY and mounts without "from" */
};

struct atoll_recipe_source {
    enum atoll_recipe_source_kind kind;
    size_t stage;      /* FROM_STAGE */
    const char *image; /* FROM_IMAGE: a reference, variables replaced */
};

struct atoll_recipe_plan_stage {
    bool needed;                     /* by the target */
    struct atoll_recipe_source base; /* never FROM_CONTEXT */
    const char *platform;            /* variables replaced; NULL: that of the build */
    const size_t *needs;             /* stages that must be ready first; ascending, all are lower */
    size_t need_count;
    const char *const *images; /* of COPY --from and mounts; without the base */
    size_t image_count;
};

struct atoll_recipe_plan {
    struct atoll_recipe_memory memory; /* of all that it points to */
    size_t target;
    struct atoll_recipe_plan_stage *stages; /* as many as the recipe has */
    size_t stage_count;
};

/* INVALID_ARGUMENT, with the line: a base that is empty after expansion, a stage that uses itself or a
 * later one; NOT_FOUND: the target. */
int atoll_recipe_plan(const struct atoll_recipe *r, const struct atoll_recipe_inputs *inputs,
                      struct atoll_recipe_plan **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_recipe_plan *atoll_recipe_plan_free(struct atoll_recipe_plan *plan);

/* What "--from=NAME" or "from=NAME" means in a stage: a lower stage by name or number, else an image.
 * NULL: the context. INVALID_ARGUMENT: the stage itself or a later one. */
int atoll_recipe_find_source(const struct atoll_recipe *r, size_t stage, const char *from,
                             struct atoll_recipe_source *ret,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
