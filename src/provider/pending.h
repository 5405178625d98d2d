#pragma once
#include "base/defs.h"
#include "base/error.h"
#include "proto/frame.h"

/*
 * Requests that wait for their answer on a framed connection: a number for each, never used twice
 * in a row, and the callback it belongs to.
 */
struct atoll_answer {
    bool more;                       /* a PART; the answer itself is still to come */
    const struct atoll_error *error; /* NULL: fine */
    /* NULL with an error. Descriptors in it are closed after the call, but for those that it takes with
     * ATOLL_TAKE_FD. */
    struct atoll_frame *frame;
};
typedef void atoll_answer_fn(void *arg, const struct atoll_answer *answer);

struct atoll_pending {
    struct atoll_pending_slot *slots; /* owned */
    uint32_t count, cap, max;
    uint32_t free_head; /* index + 1 of the first free slot, 0: none */
};

void atoll_pending_init(struct atoll_pending *p, uint32_t max);
void atoll_pending_done(struct atoll_pending *p);
/* takes_parts: its answer may come in parts; whoever does not expect any gets none. *ret_id is never 0.
 * -ENOBUFS when `max` wait already. */
int atoll_pending_add(struct atoll_pending *p, atoll_answer_fn *fn, void *arg, bool takes_parts,
                      uint32_t *ret_id) ATOLL_MUST_CHECK;
/* Drops one without calling it. */
void atoll_pending_forget(struct atoll_pending *p, uint32_t id);
/* Calls what waits for this id; `more` keeps it waiting. False when nobody does, or not for a part. */
bool atoll_pending_answer(struct atoll_pending *p, uint32_t id, const struct atoll_answer *answer);
/* Everybody gets this error. */
void atoll_pending_fail_all(struct atoll_pending *p, const struct atoll_error *error);
