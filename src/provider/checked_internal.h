#pragma once
#include "base/list.h"
#include "base/trace.h"
#include "provider/checked.h"

/*
 * What the files of checked.h share: checked.c makes calls and makes them again, checked_ops.c is the
 * provider that the engine sees.
 */
enum atoll_checked_op {
    ATOLL_OP_CREATE,
    ATOLL_OP_DIAL,
    ATOLL_OP_LOOK,
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

struct atoll_checked {
    struct atoll_provider base;
    struct atoll_provider_ops ops; /* ours, under its name */
    struct atoll_loop *loop;
    struct atoll_checked_group *group;
    struct atoll_provider *inner; /* owned */
    struct atoll_list calls;      /* of struct atoll_checked_call: under way */
    bool closing;                 /* nobody hears of what still comes back */
};

union atoll_checked_done {
    atoll_provider_created_fn *created;
    atoll_provider_dialed_fn *dialed;
    atoll_provider_looked_fn *looked;
    atoll_provider_stats_fn *stats;
    atoll_provider_health_fn *health;
    atoll_provider_image_fn *image;
    atoll_provider_done_fn *plain;
};

struct atoll_checked_call {
    struct atoll_list node;
    struct atoll_checked *checked;
    enum atoll_checked_op op;
    struct atoll_spec spec;
    struct atoll_spec *ret_spec; /* CREATE: the engine's */
    struct atoll_limits limits;
    char path[64], layer[80];
    struct atoll_provider_build build; /* its descriptor is ours until it is asked for */
    char image[128], dockerfile[256];
    char tenant[65], volume[65];
    atoll_provider_said_fn *said;
    atoll_provider_volume_fn *each_volume;
    atoll_provider_each_fn *each;
    union atoll_checked_done done;
    void *arg;
    unsigned tries;
    int64_t first_ms, began_us;
    bool cancelled;
    struct atoll_origin origin; /* with the span of the try */
    struct atoll_timer again;
    struct atoll_error last; /* while it waits: why */
};

struct atoll_checked *atoll_checked_of(struct atoll_provider *p);
struct atoll_checked_call *atoll_checked_call_new(struct atoll_provider *p,
                                                  enum atoll_checked_op op,
                                                  const struct atoll_spec *spec, void *arg);
void atoll_checked_call_free(struct atoll_checked_call *call);
/* checked_images.c: the operations on images and volumes. */
void atoll_checked_add_images(struct atoll_provider_ops *ops);
/* Refuses it, or tries. */
void atoll_checked_begin(struct atoll_checked_call *call);
/* The end of one that failed, without another try. */
void atoll_checked_give_up(struct atoll_checked_call *call, const struct atoll_error *error);
