#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Spawn's conversation with the daemon over state/spawn.sock: one daemon at a time; a new one
 * takes the place of the old. Sandboxes go on while no daemon is there.
 */
struct atoll_server;

/* listen_fd is taken over. */
int atoll_server_new(struct atoll_loop *loop, const struct atoll_spawn_host *host, int listen_fd,
                     struct atoll_server **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
