#pragma once
#include "base/trace.h"
#include "provider/call.h"
#include "provider/checked.h"

/*
 * What the files of checked.h share: checked.c makes calls and makes them again, checked_ops.c is the
 * rest of the provider that the engine sees.
 */
struct atoll_checked {
    struct atoll_callee callee; /* of struct atoll_checked_call */
    struct atoll_loop *loop;
    struct atoll_checked_group *group;
    struct atoll_provider *inner; /* owned */
    bool closing;                 /* nobody hears of what still comes back */
};

struct atoll_checked_call {
    struct atoll_call call;
    unsigned tries;
    int64_t first_ms, began_us;
    bool cancelled;
    struct atoll_origin origin; /* with the span of the try */
    struct atoll_timer again;
    struct atoll_error last; /* while it waits: why */
};

static inline struct atoll_checked *atoll_checked_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_checked, callee.base);
}

static inline struct atoll_checked_call *atoll_checked_call_of(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_checked_call, call.node);
}

/* Refuses it, or tries. */
void atoll_checked_begin(struct atoll_call *call);
/* The end of one that failed, without another try. */
void atoll_checked_give_up(struct atoll_checked_call *call, const struct atoll_error *error);
void atoll_checked_call_free(struct atoll_checked_call *call);
