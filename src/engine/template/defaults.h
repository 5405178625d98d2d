#pragma once
#include "engine/engine.h"

/*
 * What the config of a version (of an image: Env, User, WorkingDir, Entrypoint, Cmd) means for a sandbox
 * that is made from it. What the request gives takes precedence. Pure.
 */
struct atoll_defaults {
    char **env;     /* owned: Env, then the request's; NULL: as the request has it */
    char *user;     /* owned, or NULL */
    char *workdir;  /* owned, or NULL */
    char **command; /* owned: Entrypoint and Cmd; NULL: neither */
};

/* Reads the config of a version and changes the options: they then borrow from *ret. An image without a
 * user means root, as for Docker; other templates without one keep the built-in user. */
void atoll_defaults_apply(struct atoll_defaults *ret, const char *config_json, const char *source,
                          struct atoll_options *options);
void atoll_defaults_done(struct atoll_defaults *d);
/* The default user of a config without User, for versions made of source; NULL: the built-in one. */
const char *atoll_defaults_user(const char *source);
#define ATOLL_BUILT_IN_USER "user"
