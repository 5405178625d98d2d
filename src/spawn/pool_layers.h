#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"
#include "spawn/walk.h"

/*
 * Layers in the pool: subvolumes whose directory u layers/NAME is a link to. Each begins as a snapshot of a
 * disk, from which ATOLL_POOL_LAYER_UNFINISHED is removed as the last step. So a subvolume that has it is
 * not finished, also after the host lost power, and nothing waits for a commit of the file system.
 *
 * What no request has to wait for is done when no layers are made or removed for a while: finished layers
 * lose the other entries of the disk and become read-only, and the blocks of removed ones are freed.
 */

/* At the top of each disk: the work directory of its overlay. */
#define ATOLL_POOL_LAYER_UNFINISHED "w"

/* Makes a snapshot of a disk, whose top this is, a layer without a link: removes what plans put into every
 * disk, sockets, and last the above. Again after a part of it: goes on. fn is called before the last
 * step, with what the layer has. */
int atoll_pool_layer_finish(const struct atoll_spawn_host *host, int top,
                            int (*fn)(const void *arg, const struct atoll_walk_sum *sum),
                            const void *arg) ATOLL_MUST_CHECK;

/* Finishes layers whose links are on the host's disk, while the end of atoll_pool_layer_finish() is not,
 * because the host lost power. A layer of which that fails is removed. May lift the limit of all subvolumes.
 * Blocking: usually it finds none, some microseconds for each layer. */
int atoll_pool_layers_repair(const struct atoll_spawn_host *host) ATOLL_MUST_CHECK;

/* From now on what can wait is done. Layers of earlier runs become read-only. */
void atoll_pool_layers_start(struct atoll_loop *loop, const struct atoll_spawn_host *host);
/* There is a new layer. */
void atoll_pool_layers_made(void);
/* A layer was removed. Its blocks may count for the disk of a sandbox, which waits for them. */
void atoll_pool_layers_removed(void);
