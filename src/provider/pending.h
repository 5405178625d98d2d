#pragma once
#include "base/defs.h"
#include "base/error.h"
#include "proto/frame.h"

/*
 * Requests that wait for their answer on a framed connection: an id for each, not reused at once,
 * and its callback.
 */
struct atoll_reply {
    bool more;                       /* a PART; more parts and the answer follow */
    const struct atoll_error *error; /* NULL: success */
    /* NULL with an error. After the call its descriptors are closed, except those that the
     * callback took with ATOLL_TAKE_FD. */
    struct atoll_frame *frame;
};
typedef void atoll_answer_fn(void *arg, const struct atoll_reply *answer);

/* How long a request waits for its answer. */
#define ATOLL_LIMIT_NEVER INT64_C(0)        /* no limit, until the connection ends */
#define ATOLL_LIMIT_SILENCE (INT64_MAX / 2) /* no limit while the peer answers pings */

struct atoll_pending_request {
    atoll_answer_fn *fn;
    void *arg;
    uint16_t type;
    bool takes_parts; /* false: an answer in parts breaks the protocol */
    int64_t limit_ms; /* since it was sent or its last part came; or ATOLL_LIMIT_* */
};

struct atoll_pending {
    struct atoll_pending_slot *slots; /* owned */
    uint32_t count, cap, max;
    uint32_t free_head; /* index + 1 of the first free slot; 0: no free slot */
    int64_t now_ms;     /* clock of the owner, by which requests expire */
};

void atoll_pending_init(struct atoll_pending *p, uint32_t max);
void atoll_pending_done(struct atoll_pending *p);
/* *ret_id is never 0. -ENOBUFS if `max` requests wait already. */
int atoll_pending_add(struct atoll_pending *p, const struct atoll_pending_request *request,
                      uint32_t *ret_id) ATOLL_MUST_CHECK;
/* Drops a request without calling its callback. */
void atoll_pending_forget(struct atoll_pending *p, uint32_t id);
/* Calls the callback of this id; with `more` the request stays. False if no request has this id,
 * or if it does not take parts. */
bool atoll_pending_answer(struct atoll_pending *p, uint32_t id, const struct atoll_reply *answer);
/* Fails requests that are past their limit with this error; all: every request that has a limit.
 * Their ids stay in use until the late answer comes. Returns how many were failed. */
size_t atoll_pending_expire(struct atoll_pending *p, bool all, const struct atoll_error *error);
/* The type of the expired request that this late answer belongs to; 0: no such request. `last`
 * frees its id. */
uint16_t atoll_pending_late(struct atoll_pending *p, uint32_t id, bool last);
/* Fails every request with this error. */
void atoll_pending_fail_all(struct atoll_pending *p, const struct atoll_error *error);
