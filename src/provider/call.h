#pragma once
#include "base/list.h"
#include "provider/provider.h"

/*
 * The operations of a provider as data. A provider that wraps another one (checked.h, sync.h) or
 * that gives every operation the same answer (absent.h) receives each operation as one struct,
 * which keeps copies of the borrowed arguments and through which the result is delivered. The
 * operations are the rows of operations.def.
 *
 * Thread: the loop's.
 */
enum atoll_op {
#define OPERATION(NAME, ...) ATOLL_OP_##NAME,
#include "provider/operations.def"
};

/* By enum atoll_op; see operations.def. */
struct atoll_op_facts {
    const char *name;
    const char *verb;
    int64_t budget_ms;
    int64_t deadline_ms;
};
extern const struct atoll_op_facts atoll_op_facts[];

struct atoll_call;
struct atoll_call_outcome;
/* o and its content are borrowed, except descriptors; they are not set if there is an error. */
typedef void atoll_call_passed_fn(struct atoll_call *call, const struct atoll_call_outcome *o,
                                  const struct atoll_error *error);

/* One operation, from the call until its `done` was called. */
struct atoll_call {
    struct atoll_list node;
    struct atoll_callee *callee;
    enum atoll_op op;
    struct atoll_spec spec;      /* a copy, without the pointers that only create() borrows */
    char *credential;            /* owned: that of spec, or NULL */
    struct atoll_spec *ret_spec; /* CREATE: the caller's spec */
    struct atoll_limits limits;  /* SET_LIMITS */
    char *policy;                /* owned: SET_NETWORK */
    char path[64], layer[80];    /* KEEP_LAYER, SNAPSHOT_LAYER, DROP_LAYER */
    /* BUILD, and context_fd is the archive of LOAD_IMAGE; it is owned while it is >= 0. */
    struct atoll_provider_build build;
    char dockerfile[256];        /* BUILD */
    char image[128];             /* BUILD, SNAPSHOT, LOAD_IMAGE, DROP_IMAGE */
    char tenant[65], volume[65]; /* LIST_VOLUMES, DROP_VOLUME, COPY_VOLUME */
    char to[65];                 /* COPY_VOLUME */
    atoll_provider_each_fn *each;
    atoll_provider_said_fn *said;
    atoll_provider_volume_fn *each_volume;
    union {
        atoll_provider_created_fn *created;
        atoll_provider_dialed_fn *dialed;
        atoll_provider_sockets_fn *sockets;
        atoll_provider_inspected_fn *inspected;
        atoll_provider_stats_fn *stats;
        atoll_provider_health_fn *health;
        atoll_provider_image_fn *image;
        atoll_provider_layer_fn *layer;
        atoll_provider_done_fn *done;
    } done;
    void *arg;
    atoll_call_passed_fn *passed; /* see atoll_call_pass() */
};

/* The result of an operation that succeeded: the arguments of its `done`. Borrowed, except
 * descriptors. */
struct atoll_call_outcome {
    int fd;
    int dns_fd; /* SOCKETS, with fd */
    uint64_t boot_us;
    const struct atoll_provider_inspection *inspect;
    const struct atoll_provider_stats *stats;
    const char *detail;
    const struct atoll_provider_image *image;
    const struct atoll_provider_layer *layer;
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
/* Asks p for the same operation. `passed` gets the result, exactly once, possibly before this
 * returns; output and list entries go to the callbacks of the call. */
void atoll_call_pass(struct atoll_call *call, struct atoll_provider *p,
                     atoll_call_passed_fn *passed);
/* Whether p has the operation, by its capabilities. */
bool atoll_op_is_supported(struct atoll_provider *p, enum atoll_op op);
void atoll_call_free(struct atoll_call *call);
