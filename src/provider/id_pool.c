#include "provider/id_pool.h"

#include <errno.h>
#include "sandbox/spec.h"

void atoll_id_pool_init(struct atoll_id_pool *s)
{
    *s = (struct atoll_id_pool){0};
}

void atoll_id_pool_done(struct atoll_id_pool *s)
{
    for (size_t i = 0; i < s->block_count; i++)
        free(s->blocks[i].taken);
    atoll_id_pool_init(s);
}

int atoll_id_pool_add(struct atoll_id_pool *s, uint32_t base, uint32_t count)
{
    struct atoll_id_pool_block *b = &s->blocks[s->block_count];

    if (count == 0)
        return 0;
    if (s->block_count == ATOLL_ID_BLOCKS_MAX)
        return -ENOBUFS;
    *b = (struct atoll_id_pool_block){.base = base, .count = count, .taken = calloc(count, 1)};
    if (!b->taken)
        return -ENOMEM;
    s->block_count++;
    s->count += count;
    return 0;
}

uint32_t atoll_id_pool_drop(struct atoll_id_pool *s, uint32_t spare)
{
    for (size_t i = s->block_count; i-- > 1;) {
        struct atoll_id_pool_block b = s->blocks[i];

        if (b.used > 0 || s->count - s->used < b.count + spare)
            continue;
        for (size_t k = i + 1; k < s->block_count; k++)
            s->blocks[k - 1] = s->blocks[k];
        s->block_count--;
        s->count -= b.count;
        free(b.taken);
        return b.base;
    }
    return 0;
}

/* The block has a free range. */
static uint32_t take_from(struct atoll_id_pool_block *b)
{
    uint32_t slot = b->next;

    while (b->taken[slot])
        slot = (slot + 1) % b->count;
    b->next = (slot + 1) % b->count;
    b->taken[slot] = 1;
    b->used++;
    return b->base + slot * ATOLL_ID_RANGE;
}

uint32_t atoll_id_pool_take(struct atoll_id_pool *s)
{
    for (size_t i = 0; i < s->block_count; i++) {
        struct atoll_id_pool_block *b = &s->blocks[i];

        if (b->used == b->count)
            continue;
        s->used++;
        return take_from(b);
    }
    return 0;
}

/* Returns NULL if no block has this range. */
static struct atoll_id_pool_block *block_of(struct atoll_id_pool *s, uint32_t first_id,
                                            uint32_t *ret)
{
    for (size_t i = 0; i < s->block_count; i++) {
        struct atoll_id_pool_block *b = &s->blocks[i];

        *ret = (first_id - b->base) / ATOLL_ID_RANGE;
        if (first_id >= b->base && *ret < b->count)
            return b;
    }
    return NULL;
}

bool atoll_id_pool_mark(struct atoll_id_pool *s, uint32_t first_id)
{
    uint32_t slot;
    struct atoll_id_pool_block *b = block_of(s, first_id, &slot);

    if (!b)
        return false;
    if (!b->taken[slot]) {
        b->taken[slot] = 1;
        b->used++;
        s->used++;
    }
    b->next = ATOLL_MAX(b->next, (slot + 1) % b->count);
    return true;
}

void atoll_id_pool_give(struct atoll_id_pool *s, uint32_t first_id)
{
    uint32_t slot;
    struct atoll_id_pool_block *b = block_of(s, first_id, &slot);

    if (!b || !b->taken[slot])
        return;
    b->taken[slot] = 0;
    b->used--;
    s->used--;
}
