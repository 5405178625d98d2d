#pragma once
#include "base/defs.h"

/*
 * Id ranges of this instance: each living sandbox has one of its own. They come in blocks, of which
 * more can be added and empty ones removed. A range comes from the block that was added first and
 * has a free one, so that later blocks become empty again; within a block, one that was given back
 * is used again as late as possible.
 */
#define ATOLL_SLOT_BLOCKS_MAX 28

struct atoll_id_pool_block {
    uint32_t base, count; /* first id, number of ranges */
    uint32_t used;
    uint32_t next;  /* where to look first */
    uint8_t *taken; /* owned, one byte each */
};

struct atoll_id_pool {
    struct atoll_id_pool_block blocks[ATOLL_SLOT_BLOCKS_MAX];
    size_t block_count;
    uint32_t count, used; /* ranges in all blocks */
};

void atoll_id_pool_init(struct atoll_id_pool *s);
void atoll_id_pool_done(struct atoll_id_pool *s);
/* One more block; none of 0 ranges. -ENOBUFS, -ENOMEM. */
int atoll_provider_entries_add(struct atoll_id_pool *s, uint32_t base,
                               uint32_t count) ATOLL_MUST_CHECK;
/* Removes a block other than the first in which no range is taken, while the others have `spare` free
 * ranges. Its first id, or 0. */
uint32_t atoll_provider_entries_drop(struct atoll_id_pool *s, uint32_t spare);
/* First id of a free range, 0 when there is none. */
uint32_t atoll_id_pool_take(struct atoll_id_pool *s);
/* Takes this one, of a sandbox that lives already. False when it is in none of our blocks. */
bool atoll_id_pool_mark(struct atoll_id_pool *s, uint32_t first_id);
/* A range that is in none of our blocks is fine. */
void atoll_id_pool_give(struct atoll_id_pool *s, uint32_t first_id);
