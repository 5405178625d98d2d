#include "provider/slots.h"

#include <assert.h>
#include <errno.h>
#include "sandbox/spec.h"

int atoll_slots_init(struct atoll_slots *s, uint32_t base, uint32_t count)
{
    *s = (struct atoll_slots){.base = base, .count = count};
    s->taken = calloc(ATOLL_MAX(count, 1u), 1);
    return s->taken ? 0 : -ENOMEM;
}

void atoll_slots_done(struct atoll_slots *s)
{
    free(s->taken);
    *s = (struct atoll_slots){0};
}

uint32_t atoll_slots_take(struct atoll_slots *s)
{
    for (uint32_t tries = 0; tries < s->count; tries++) {
        uint32_t slot = s->next;
        s->next = (s->next + 1) % s->count;
        if (!s->taken[slot]) {
            s->taken[slot] = 1;
            return s->base + slot * ATOLL_ID_RANGE;
        }
    }
    return 0;
}

bool atoll_slots_mark(struct atoll_slots *s, uint32_t first_id)
{
    uint32_t slot = (first_id - s->base) / ATOLL_ID_RANGE;

    if (first_id < s->base || slot >= s->count)
        return false;
    s->taken[slot] = 1;
    s->next = ATOLL_MAX(s->next, (slot + 1) % s->count);
    return true;
}

void atoll_slots_give(struct atoll_slots *s, uint32_t first_id)
{
    uint32_t slot = (first_id - s->base) / ATOLL_ID_RANGE;

    assert(slot < s->count);
    s->taken[slot] = 0;
}
