#pragma once
#include "base/defs.h"

/*
 * Id ranges of this instance: each living sandbox has one of its own. They come in blocks, of which
 * more can be added and empty ones removed. A range comes from the block that was added first and
 * has a free one, so that later blocks become empty again; within a block, one that was given back
 * is used again as late as possible.
 */
#define ATOLL_SLOT_BLOCKS_MAX 28

struct atoll_slot_block {
    uint32_t base, count; /* first id, number of ranges */
    uint32_t used;
    uint32_t next;  /* where to look first */
    uint8_t *taken; /* owned, one byte each */
};

struct atoll_slots {
    struct atoll_slot_block blocks[ATOLL_SLOT_BLOCKS_MAX];
    size_t block_count;
    uint32_t count, used; /* ranges in all blocks */
};

void atoll_slots_init(struct atoll_slots *s);
void atoll_slots_done(struct atoll_slots *s);
/* One more block; none of 0 ranges. -ENOBUFS, -ENOMEM. */
int atoll_slots_add(struct atoll_slots *s, uint32_t base, uint32_t count) ATOLL_MUST_CHECK;
/* Removes a block other than the first in which no range is taken, while the others have `spare` free
 * ranges. Its first id, or 0. */
uint32_t atoll_slots_drop(struct atoll_slots *s, uint32_t spare);
/* First id of a free range, 0 when there is none. */
uint32_t atoll_slots_take(struct atoll_slots *s);
/* Takes this one, of a sandbox that lives already. False when it is in none of our blocks. */
bool atoll_slots_mark(struct atoll_slots *s, uint32_t first_id);
/* A range that is in none of our blocks is fine. */
void atoll_slots_give(struct atoll_slots *s, uint32_t first_id);
