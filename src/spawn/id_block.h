#pragma once
#include "spawn/plan_run.h"

/*
 * Blocks of user ids, by instance. All instances on a host share one id space and allocate blocks
 * by locking the files /run/atoll/ids-N. An instance holds one block from start to exit; it takes
 * more when its daemon asks and returns them later. Each file names the state directory of its last
 * owner. While that directory has disks, whose files belong to ids of the block, the block is
 * reserved for that owner.
 */
#define ATOLL_ID_BLOCKS 28
#define ATOLL_ID_BLOCK_BITS 27

struct atoll_id_blocks;

/* Takes the block that this instance had before, else a free one, else the one whose owner has been
 * gone for the longest time; and, if the state directory has disks, the other blocks it had. The
 * process holds the locks (like spawn.lock) until it exits, which is as long as its sandboxes can
 * live. Call it before atoll_own_root(), with the state directory as the working directory. */
int atoll_id_blocks_open(const struct atoll_spawn_host *host, struct atoll_id_blocks **ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Takes one more block, which no instance holds and no disk of another instance needs.
 * RESOURCE_EXHAUSTED. */
int atoll_id_blocks_take(struct atoll_id_blocks *blocks, uint32_t *ret_base,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Returns a block that was taken after start. INVALID_ARGUMENT, also for the first block. */
int atoll_id_blocks_give(struct atoll_id_blocks *blocks, uint32_t base,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* First ids of the blocks that this instance holds; the block taken at start comes first. */
size_t atoll_id_blocks_list(const struct atoll_id_blocks *blocks,
                            uint32_t bases[static ATOLL_ID_BLOCKS]);
/* Number of ranges (65,536 ids each) in a block. */
uint32_t atoll_id_block_ranges(void);
