#pragma once
#include "engine/engine.h"
#include "registry/registry.h"

/*
 * Templates that are built for environments: of a Dockerfile, or of a template or image with packages. The
 * template is called "env-NAME" and belongs to all tenants, as the registry does. It is built at the first
 * use, and again when the definition or the base has changed.
 *
 * Thread: the loop's.
 */

#define ATOLL_ENVIRONMENT_TEMPLATE_MAX 65 /* name of such a template, with its NUL */

/* Whether sandboxes of the environment need such a template. */
bool atoll_environment_is_built(const struct atoll_environment *environment);

/* The template that was built for the environment; false if it was not built yet. */
bool atoll_environment_built(struct atoll_engine *engine,
                             const struct atoll_environment *environment,
                             char ret_name[static ATOLL_ENVIRONMENT_TEMPLATE_MAX]);

/* Whether that template is of the present definition, so that atoll_environment_build() builds nothing. */
bool atoll_environment_is_current(struct atoll_engine *engine,
                                  const struct atoll_environment *environment);

typedef void atoll_environment_built_fn(void *arg, const char *template_name,
                                        const struct atoll_error *error);
/* Builds the template unless it is there. Requests for the same environment share one build. Borrows the
 * environment for the call. done is called exactly once, possibly before the call returns; its name is
 * borrowed. The error of a failed step has the last line of its output. */
void atoll_environment_build(struct atoll_engine *engine,
                             const struct atoll_environment *environment,
                             atoll_environment_built_fn *done, void *arg);
