#pragma once
#include "spawn/plan_run.h"

/*
 * Blocks of user ids, by instance. Ids are one space for the whole host, so instances agree on
 * theirs through locks on files that every instance can find, /run/atoll/ids-N. An instance has one
 * block from its start to its end, takes more as its daemon asks for them and gives those back.
 * Each file names the state directory of the instance that had it last: while that holds disks, their
 * files belong to ids of the block, and the block is left to the daemon that may come back for them.
 */
#define ATOLL_ID_BLOCKS 28
#define ATOLL_ID_BLOCK_BITS 27

struct atoll_id_blocks;

/* Takes the block this instance had, else a free one, else the one whose owner has been away longest;
 * and, while the state directory holds disks, the other blocks it had. Locks are held, like
 * spawn.lock, by the process: exactly as long as its sandboxes can live. Call it before
 * atoll_own_root(), with the state directory as the working directory. */
int atoll_id_blocks_open(const struct atoll_spawn_host *host, struct atoll_id_blocks **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* One more: a block that no instance has and no disk of another instance needs.
 * RESOURCE_EXHAUSTED. */
int atoll_id_blocks_take(struct atoll_id_blocks *blocks, uint32_t *ret_base,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Gives back one that was taken later; the first is kept. INVALID_ARGUMENT. */
int atoll_id_blocks_give(struct atoll_id_blocks *blocks, uint32_t base,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* First ids of the blocks this instance has; the one of its start comes first. */
size_t atoll_id_blocks_list(const struct atoll_id_blocks *blocks,
                            uint32_t bases[static ATOLL_ID_BLOCKS]);
/* How many ranges of 65,536 ids each block has. */
uint32_t atoll_id_block_ranges(void);
