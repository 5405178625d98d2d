#pragma once
#include "base/defs.h"

/*
 * Id ranges of this instance: each living sandbox has one of its own. A range that was given back
 * is used again as late as possible.
 */
struct atoll_slots {
    uint32_t base, count; /* first id, number of ranges */
    uint32_t next;        /* where to look first */
    uint8_t *taken;       /* owned, one byte each */
};

int atoll_slots_init(struct atoll_slots *s, uint32_t base, uint32_t count) ATOLL_MUST_CHECK;
void atoll_slots_done(struct atoll_slots *s);
/* First id of a free range, 0 when there is none. */
uint32_t atoll_slots_take(struct atoll_slots *s);
/* Takes this one, of a sandbox that lives already. False when it is none of ours. */
bool atoll_slots_mark(struct atoll_slots *s, uint32_t first_id);
void atoll_slots_give(struct atoll_slots *s, uint32_t first_id);
