#pragma once
#include "engine/engine.h"
#include "registry/registry.h"

/*
 * The options of a sandbox that is made from an environment: those of the request, with what the
 * environment adds. Thread: the loop's.
 */
struct atoll_environment_options {
    struct atoll_options sandbox; /* borrows from the request, the environment and the two below */
    const char **env, **warm;     /* owned */
    char *policy;                 /* owned */
    struct atoll_mount *mounts;   /* owned */
};

/* The environment adds the template or image (unless one is set, or it has to be built), limits
 * that are 0, variables that the request does not set, its network if the request names none, its volumes likewise, the
 * language's interpreter and the modules for it. INVALID_ARGUMENT. */
int atoll_environment_options_init(struct atoll_environment_options *ret,
                                   const struct atoll_environment *environment,
                                   const struct atoll_options *request, struct atoll_engine *engine,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* The mounts of "volumes"; *ret_mounts is to be freed, or NULL. Returns their number. INVALID_ARGUMENT. */
int atoll_environment_mounts(const json_t *volumes, struct atoll_mount **ret_mounts,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_environment_options_done(struct atoll_environment_options *options);
