#pragma once
#include "engine/engine_internal.h"

/*
 * Internal to the pool.
 *   pool.c           the pool classes, and taking a sandbox
 *   pool_refill.c    making sandboxes for them
 *   pool_declared.c  classes that environments of the registry declare, and views of all classes
 */

static inline struct atoll_pool_class *atoll_pool_first(struct atoll_engine *engine)
{
    return &engine->pool_classes[0];
}

static inline bool atoll_pool_is_used(const struct atoll_pool_class *pool_class)
{
    return *pool_class->version_id != '\0';
}

/* Whether a sandbox made from one spec can be changed to the other. */
bool atoll_pool_can_become(const struct atoll_spec *made, const struct atoll_spec *wanted);
/* Lists of texts; NULL is the same as an empty one. */
bool atoll_pool_same_strings(char *const *a, const char *const *b);
/* Makes it unused, and destroys its sandboxes. */
void atoll_pool_clear(struct atoll_pool_class *pool_class);
/* Says what the sandboxes of an unused class are; copies everything. False: no memory. */
bool atoll_pool_define(struct atoll_pool_class *pool_class, const struct atoll_version *version,
                       const struct atoll_spec *spec, const char *language, const char *const *env,
                       const char *const *warm);

/* Whether the bounds of all declared classes together leave room for one more of this. */
bool atoll_pool_fits(const struct atoll_pool_class *pool_class);
/* Measures the memory of a ready sandbox, for those bounds. */
void atoll_pool_measure(struct atoll_sandbox *sandbox);
