#pragma once
#include "registry/registry.h"

/*
 * Tells the engine which environments have a pool ("pool" and "warm" of their files), and tells it
 * again when the registry or the template of one changes.
 *
 * Thread: the loop's. Ownership: borrows both, which must live until close.
 */
struct atoll_environment_pool;

struct atoll_environment_pool *atoll_environment_pool_open(struct atoll_engine *engine,
                                                           struct atoll_registry *registry);
struct atoll_environment_pool *atoll_environment_pool_close(struct atoll_environment_pool *pool);
