#pragma once
#include "base/defs.h"
#include "base/error.h"
#include "proto/frame.h"

/*
 * Requests that wait for their answer on a framed connection: a number for each, never used twice
 * in a row, and the callback it belongs to.
 */
struct atoll_reply {
    bool more;                       /* a PART; the answer itself is still to come */
    const struct atoll_error *error; /* NULL: fine */
    /* NULL with an error. Descriptors in it are closed after the call, but for those that it takes with
     * ATOLL_TAKE_FD. */
    struct atoll_frame *frame;
};
typedef void atoll_answer_fn(void *arg, const struct atoll_reply *answer);

/* How long a request waits for its answer. */
#define ATOLL_LIMIT_NEVER INT64_C(0)        /* until the connection ends */
#define ATOLL_LIMIT_SILENCE (INT64_MAX / 2) /* while the peer is heard */

struct atoll_pending_request {
    atoll_answer_fn *fn;
    void *arg;
    uint16_t type;
    bool takes_parts; /* else an answer in parts is refused */
    int64_t limit_ms; /* since it was asked or its last part came; or ATOLL_LIMIT_* */
};

struct atoll_pending {
    struct atoll_pending_slot *slots; /* owned */
    uint32_t count, cap, max;
    uint32_t free_head; /* index + 1 of the first free slot, 0: none */
    int64_t now_ms;     /* of the owner's clock, by which requests expire */
};

void atoll_pending_init(struct atoll_pending *p, uint32_t max);
void atoll_pending_done(struct atoll_pending *p);
/* *ret_id is never 0. -ENOBUFS when `max` wait already. */
int atoll_pending_add(struct atoll_pending *p, const struct atoll_pending_request *request,
                      uint32_t *ret_id) ATOLL_MUST_CHECK;
/* Drops one without calling it. */
void atoll_pending_forget(struct atoll_pending *p, uint32_t id);
/* Calls what waits for this id; `more` keeps it waiting. False when nobody does, or not for a part. */
bool atoll_pending_answer(struct atoll_pending *p, uint32_t id, const struct atoll_reply *answer);
/* Requests beyond their limit get this error; all: every one that has a limit. Their numbers stay in use
 * until the late answer comes. Returns how many. */
size_t atoll_pending_expire(struct atoll_pending *p, bool all, const struct atoll_error *error);
/* The type of an expired request, whose answer is late; 0: not one. `last` ends it. */
uint16_t atoll_pending_late(struct atoll_pending *p, uint32_t id, bool last);
/* Everybody gets this error. */
void atoll_pending_fail_all(struct atoll_pending *p, const struct atoll_error *error);
