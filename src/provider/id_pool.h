#pragma once
#include "base/defs.h"

/*
 * The id ranges of this daemon: each live sandbox has one. Ranges come in blocks; blocks can be
 * added, and empty ones removed. A range is taken from the oldest block that has a free one, so
 * that later blocks become empty again. Within a block, a range that was given back is reused as
 * late as possible.
 */
#define ATOLL_ID_BLOCKS_MAX 28

struct atoll_id_pool_block {
    uint32_t base, count; /* first id, number of ranges */
    uint32_t used;
    uint32_t next;  /* where the search for a free range starts */
    uint8_t *taken; /* owned, one byte each */
};

struct atoll_id_pool {
    struct atoll_id_pool_block blocks[ATOLL_ID_BLOCKS_MAX];
    size_t block_count;
    uint32_t count, used; /* ranges in all blocks */
};

void atoll_id_pool_init(struct atoll_id_pool *s);
void atoll_id_pool_done(struct atoll_id_pool *s);
/* Adds a block; does nothing if count is 0. -ENOBUFS, -ENOMEM. */
int atoll_id_pool_add(struct atoll_id_pool *s, uint32_t base, uint32_t count) ATOLL_MUST_CHECK;
/* Removes a block other than the first that has no taken range, if the others have at least
 * `spare` free ranges. Returns its first id, or 0. */
uint32_t atoll_id_pool_drop(struct atoll_id_pool *s, uint32_t spare);
/* Returns the first id of a free range, 0 if there is none. */
uint32_t atoll_id_pool_take(struct atoll_id_pool *s);
/* Takes the range of an adopted sandbox. False if it is in none of the blocks. */
bool atoll_id_pool_mark(struct atoll_id_pool *s, uint32_t first_id);
/* Gives a range back. Ignores one that is in none of the blocks. */
void atoll_id_pool_give(struct atoll_id_pool *s, uint32_t first_id);
