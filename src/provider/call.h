#pragma once
#include "base/list.h"
#include "provider/provider.h"

/*
 * The operations of a provider as data. Who stands before another provider (checked.h, sync.h), or
 * answers all of them alike (absent.h), is given each as one struct that keeps what was lent, and
 * says through it what came of it. A new operation is a member of struct atoll_provider_ops and
 * then: a row of the table and a function in call.c, a line where checked.c asks and, for providers
 * of straight-line code, where sync.c runs.
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
    int64_t budget_ms;   /* checked.c: no try begins later than this; 0: there is one try only */
    int64_t deadline_ms; /* sync.c: how long a try may take, waiting for a worker included */
};
/* By enum atoll_op. */
extern const struct atoll_op_facts atoll_op_facts[];

/* One operation, from when it is asked for until its `done` was called. */
struct atoll_call {
    struct atoll_list node;
    struct atoll_callee *callee;
    enum atoll_op op;
    struct atoll_spec spec;            /* a copy, without what is lent for create() alone */
    struct atoll_spec *ret_spec;       /* CREATE: the engine's */
    struct atoll_limits limits;        /* SET_LIMITS */
    char path[64], layer[80];          /* KEEP_LAYER, DROP_LAYER */
    struct atoll_provider_build build; /* BUILD; its descriptor is ours while it is >= 0 */
    char dockerfile[256];              /* BUILD */
    char image[128];             /* BUILD, SNAPSHOT, DROP_IMAGE: the engine's names are short */
    char tenant[65], volume[65]; /* LIST_VOLUMES, DROP_VOLUME */
    atoll_provider_each_fn *each;
    atoll_provider_said_fn *said;
    atoll_provider_volume_fn *each_volume;
    union {
        atoll_provider_created_fn *created;
        atoll_provider_dialed_fn *dialed;
        atoll_provider_inspected_fn *looked;
        atoll_provider_stats_fn *stats;
        atoll_provider_health_fn *health;
        atoll_provider_image_fn *image;
        atoll_provider_done_fn *plain;
    } done;
    void *arg;
};

/* What came of one that did not fail: the members its `done` takes. Borrowed, but for fd. */
struct atoll_call_outcome {
    int fd;
    uint64_t boot_us;
    const struct atoll_provider_inspection *inspect;
    const struct atoll_provider_stats *stats;
    const char *detail;
    const struct atoll_provider_image *image;
};

/* A provider that is given calls: first member of its own struct. */
struct atoll_callee {
    struct atoll_provider base;
    struct atoll_provider_ops ops;          /* those that make calls, and what is none */
    size_t call_size;                       /* of its struct that begins with a struct atoll_call */
    void (*begin)(struct atoll_call *call); /* tells and frees it, now or later */
    struct atoll_list calls;                /* under way */
};

/* ops: every operation that has a `done` makes a call and begins it; the caller adds and takes away. */
void atoll_callee_init(struct atoll_callee *callee, const char *name, size_t call_size,
                       void (*begin)(struct atoll_call *call));
static inline struct atoll_callee *atoll_callee_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_callee, base);
}
/* Calls its `done`. o: not looked at with an error. */
void atoll_call_tell(const struct atoll_call *call, const struct atoll_call_outcome *o,
                     const struct atoll_error *error);
void atoll_call_free(struct atoll_call *call);
