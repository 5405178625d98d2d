#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"
#include "spawn/walk.h"

/*
 * Layers in the pool: subvolumes with one directory, u, to which layers/NAME is a link. Each begins as a
 * snapshot of a disk, whose other entries are removed from it as the last step. So a subvolume that has
 * others is not finished, also after the host lost power; no other mark is needed, and nothing waits
 * for a commit of the file system. Later, when no snapshots are made, finished layers become read-only.
 */

/* Makes a snapshot of a disk, whose top this is, a layer without a link: removes what plans put into every
 * disk, sockets, and last all but u. Again after a part of it: goes on. fn is called before the last
 * step, with what the layer has. */
int atoll_pool_layer_finish(const struct atoll_spawn_host *host, int top,
                            int (*fn)(const void *arg, const struct atoll_walk_sum *sum),
                            const void *arg) ATOLL_MUST_CHECK;

/* Finishes layers whose links are on the host's disk, while the end of atoll_pool_layer_finish() is not,
 * because the host lost power. Blocking: usually it finds none, some microseconds for each layer. */
void atoll_pool_layers_repair(const struct atoll_spawn_host *host);

/* Makes layers read-only from now on: those of earlier runs, and others after atoll_pool_layers_made(). */
void atoll_pool_layers_start(struct atoll_loop *loop, const struct atoll_spawn_host *host);
/* There is a new layer. */
void atoll_pool_layers_made(void);
