#pragma once
#include "base/list.h"
#include "provider/provider.h"

/*
 * The operations of a provider as data. A provider that wraps another one (checked.h, sync.h) or
 * that gives every operation the same answer (absent.h) receives each operation as one struct,
 * which keeps copies of the borrowed arguments and through which the result is delivered. To add an
 * operation: a member of struct atoll_provider_ops, a row of the table and a function in call.c, a
 * line in checked.c and, for blocking providers, one in sync.c.
 *
 * Thread: the loop's.
 */
enum atoll_op {
    ATOLL_OP_CREATE,
    ATOLL_OP_DIAL,
    ATOLL_OP_INSPECT,
    ATOLL_OP_LIST,
    ATOLL_OP_ADOPT,
    ATOLL_OP_DESTROY,
    ATOLL_OP_STOP,
    ATOLL_OP_PAUSE,
    ATOLL_OP_RESUME,
    ATOLL_OP_SET_LIMITS,
    ATOLL_OP_STATS,
    ATOLL_OP_KEEP_LAYER,
    ATOLL_OP_DROP_LAYER,
    ATOLL_OP_BUILD,
    ATOLL_OP_SNAPSHOT,
    ATOLL_OP_DROP_IMAGE,
    ATOLL_OP_LIST_VOLUMES,
    ATOLL_OP_DROP_VOLUME,
    ATOLL_OP_HEALTH,
};

struct atoll_op_facts {
    const char *name;
    const char *verb;    /* "provider x cannot …" */
    int64_t budget_ms;   /* checked.c: no retry starts later than this; 0: never retried */
    int64_t deadline_ms; /* sync.c: deadline of one try, including the wait for a worker */
};
/* By enum atoll_op. */
extern const struct atoll_op_facts atoll_op_facts[];

/* One operation, from the call until its `done` was called. */
struct atoll_call {
    struct atoll_list node;
    struct atoll_callee *callee;
    enum atoll_op op;
    struct atoll_spec spec;            /* a copy, without the pointers that only create() borrows */
    struct atoll_spec *ret_spec;       /* CREATE: the caller's spec */
    struct atoll_limits limits;        /* SET_LIMITS */
    char path[64], layer[80];          /* KEEP_LAYER, DROP_LAYER */
    struct atoll_provider_build build; /* BUILD; context_fd is owned while it is >= 0 */
    char dockerfile[256];              /* BUILD */
    char image[128];                   /* BUILD, SNAPSHOT, DROP_IMAGE */
    char tenant[65], volume[65];       /* LIST_VOLUMES, DROP_VOLUME */
    atoll_provider_each_fn *each;
    atoll_provider_said_fn *said;
    atoll_provider_volume_fn *each_volume;
    union {
        atoll_provider_created_fn *created;
        atoll_provider_dialed_fn *dialed;
        atoll_provider_inspected_fn *inspected;
        atoll_provider_stats_fn *stats;
        atoll_provider_health_fn *health;
        atoll_provider_image_fn *image;
        atoll_provider_done_fn *plain;
    } done;
    void *arg;
};

/* The result of an operation that succeeded: the arguments of its `done`. Borrowed, except fd. */
struct atoll_call_outcome {
    int fd;
    uint64_t boot_us;
    const struct atoll_provider_inspection *inspect;
    const struct atoll_provider_stats *stats;
    const char *detail;
    const struct atoll_provider_image *image;
};

/* A provider that receives its operations as calls. First member of its own struct. */
struct atoll_callee {
    struct atoll_provider base;
    struct atoll_provider_ops ops; /* the operations that make calls, and the others */
    size_t call_size; /* size of its own struct, which begins with a struct atoll_call */
    /* Carries the call out, delivers its result and frees it, now or later. */
    void (*begin)(struct atoll_call *call);
    struct atoll_list calls; /* in progress */
};

/* Sets ops: every operation with a `done` makes a call and begins it. The caller may add or
 * remove operations. */
void atoll_callee_init(struct atoll_callee *callee, const char *name, size_t call_size,
                       void (*begin)(struct atoll_call *call));
static inline struct atoll_callee *atoll_callee_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_callee, base);
}
/* Calls the `done` of the call. o is ignored if there is an error. */
void atoll_call_tell(const struct atoll_call *call, const struct atoll_call_outcome *o,
                     const struct atoll_error *error);
void atoll_call_free(struct atoll_call *call);
