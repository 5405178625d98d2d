#pragma once
#include "base/trace.h"
#include "provider/call.h"
#include "provider/checked.h"

/*
 * Shared by the files of checked.h: checked.c carries calls out and retries them, checked_ops.c has
 * the other operations.
 */
struct atoll_checked {
    struct atoll_callee callee; /* of struct atoll_checked_call */
    struct atoll_loop *loop;
    struct atoll_checked_group *group;
    struct atoll_provider *inner; /* owned */
    bool closing;                 /* no result is delivered any more */
};

struct atoll_checked_call {
    struct atoll_call call;
    unsigned tries;
    int64_t first_ms, began_us;
    bool cancelled;
    struct atoll_origin origin; /* request the call belongs to, with the span of this try */
    struct atoll_timer again;
    struct atoll_error last; /* error of the last try, while waiting for the next */
};

static inline struct atoll_checked *atoll_checked_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_checked, callee.base);
}

static inline struct atoll_checked_call *atoll_checked_call_of(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_checked_call, call.node);
}

/* Refuses the call or starts its first try. */
void atoll_checked_begin(struct atoll_call *call);
/* Ends a call with this error, without a retry. */
void atoll_checked_give_up(struct atoll_checked_call *call, const struct atoll_error *error);
void atoll_checked_call_free(struct atoll_checked_call *call);
