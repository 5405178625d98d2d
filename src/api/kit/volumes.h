#pragma once
#include "api/fields.h"
#include "engine/engine.h"

/* Volumes for requests of facades, whose bodies and errors differ. */

/* What was found. */
struct atoll_volume_found {
    bool found;
    int64_t created_unix_ms;
};
typedef void atoll_volume_found_fn(void *arg, const struct atoll_volume_found *volume,
                                   const struct atoll_error *error);
/* Looks for a volume of the tenant by its name. UNIMPLEMENTED: there is no provider of volumes. */
void atoll_volume_find(struct atoll_engine *engine, const char *tenant, const char *name,
                       atoll_volume_found_fn *done, void *arg);

/* Whether they are the name of a volume and an absolute path, for facades with an error of their own. */
bool atoll_mount_is_named(const char *volume, const char *path);
/* Adds a mount to the options. The memory belongs to the body. INVALID_ARGUMENT. */
int atoll_mounts_add(struct atoll_body *body, struct atoll_options *options, const char *volume,
                     const char *path, bool read_only, struct atoll_error *err) ATOLL_MUST_CHECK;
