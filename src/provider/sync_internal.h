#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "base/list.h"
#include "provider/sync.h"

/*
 * What the files of sync.h share: sync.c runs operations on workers and tells how they ended, sync_ops.c is
 * the provider that others see.
 */

/* The provider the engine sees. */
struct atoll_sync {
    struct atoll_provider base;
    struct atoll_provider_ops ops; /* those of ours that the inner one can serve */
    struct atoll_workers *workers; /* borrowed */
    struct atoll_sync_provider *inner;
    struct atoll_list calls; /* of struct atoll_sync_work: under way */
    bool orphaned;           /* freed by its owner; goes with the last call */
    pthread_mutex_t lock;    /* for what workers say */
    int said_fd;             /* readable when one did; owned */
    struct atoll_watch said;
};

struct atoll_sync_row {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

enum atoll_sync_op {
    OP_CREATE,
    OP_DIAL,
    OP_ADOPT,
    OP_LOOK,
    OP_LIST,
    OP_DESTROY,
    OP_PAUSE,
    OP_RESUME,
    OP_SET_LIMITS,
    OP_STATS,
    OP_BUILD,
    OP_SNAPSHOT,
    OP_DROP_IMAGE,
    OP_LIST_VOLUMES,
    OP_DROP_VOLUME,
    OP_HEALTH,
};

union atoll_sync_done {
    atoll_provider_created_fn *created;
    atoll_provider_dialed_fn *dialed;
    atoll_provider_looked_fn *looked;
    atoll_provider_stats_fn *stats;
    atoll_provider_health_fn *health;
    atoll_provider_image_fn *image;
    atoll_provider_done_fn *plain;
};

/* One operation. */
struct atoll_sync_work {
    struct atoll_job job;
    struct atoll_list node;
    struct atoll_sync *sync;
    enum atoll_sync_op op;
    struct atoll_sync_call how;
    struct atoll_spec spec;             /* a copy: the worker's while it runs */
    char *metadata_json, **env;         /* CREATE: what the spec points to; owned */
    struct atoll_mount *mounts;         /* the same */
    struct atoll_registry_login *login; /* the same, and secret */
    struct atoll_spec *ret_spec;        /* CREATE: the engine's */
    struct atoll_limits limits;
    struct atoll_provider_build build; /* BUILD; the descriptor is ours */
    char image[128];                   /* BUILD, SNAPSHOT, DROP_IMAGE */
    char dockerfile[256];
    char tenant[65], volume[65]; /* of volumes */
    atoll_provider_each_fn *each;
    atoll_provider_said_fn *hear; /* BUILD */
    atoll_provider_volume_fn *each_volume;
    union atoll_sync_done done;
    void *arg;
    struct atoll_buf said; /* texts with their NUL, not told yet; guarded by sync->lock */
    size_t unsaid;         /* texts that found no room */
    /* what run() leaves */
    bool ran;
    int fd;
    uint64_t took_us;
    struct atoll_sync_row *rows; /* owned */
    size_t row_count, row_cap;
    struct atoll_provider_volume *volumes; /* owned */
    size_t volume_count;
    struct atoll_provider_look look;
    struct atoll_provider_stats stats;
    struct atoll_provider_image made;
    char detail[200];
    int result;
    struct atoll_error error;
};

static inline struct atoll_sync *atoll_sync_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_sync, base);
}

struct atoll_sync_work *atoll_sync_work_new(struct atoll_provider *p, enum atoll_sync_op op,
                                            const struct atoll_spec *spec, void *arg);
/* Gives it to a worker; it is gone when its `done` was called. */
void atoll_sync_submit(struct atoll_sync_work *work);
/* Nobody wants its result any more. */
void atoll_sync_cancel(const struct atoll_sync_work *work);
/* From now on nobody is told anything; all goes when the last operation has ended. */
void atoll_sync_orphan(struct atoll_sync *sync);
/* For the watch of said_fd: tells what workers have said. */
void atoll_sync_hear(void *sync, uint32_t events);
