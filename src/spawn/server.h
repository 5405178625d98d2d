#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Serves requests of the daemon over state/spawn.sock. One daemon at a time: a new connection
 * replaces the old one. Sandboxes continue while no daemon is connected.
 */
struct atoll_server;

/* Takes ownership of listen_fd. */
int atoll_server_new(struct atoll_loop *loop, const struct atoll_spawn_host *host, int listen_fd,
                     struct atoll_server **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
