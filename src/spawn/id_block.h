#pragma once
#include "spawn/build.h"

/*
 * Blocks of user ids, by instance. Ids are one space for the whole host, so instances agree on
 * theirs through locks on files that everybody can find, /run/atoll/ids-N. Each names the state
 * directory of who had it last: while that holds disks, their files belong to ids of the block, and
 * it is left to the daemon that may come back for them.
 */

/* Sets id_base and id_slots: of the block this instance had, else of one nobody wants, else of the
 * one whose owner has been away longest. It is held, like spawn.lock, by the process: exactly as
 * long as its sandboxes can live. The state directory must be the working directory. */
int atoll_id_block_take(struct atoll_spawn_host *host, struct atoll_error *err) ATOLL_MUST_CHECK;
