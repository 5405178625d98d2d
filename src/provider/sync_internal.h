#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "provider/call.h"
#include "provider/sync.h"

/*
 * What the files of sync.h share: sync.c runs calls on workers and tells how they ended, sync_ops.c is
 * the rest of the provider that others see.
 */

/* The provider the engine sees. */
struct atoll_sync {
    struct atoll_callee callee; /* of struct atoll_sync_work; ops: those the inner one can serve */
    struct atoll_workers *workers; /* borrowed */
    struct atoll_sync_provider *inner;
    bool orphaned;        /* freed by its owner; goes with the last call */
    pthread_mutex_t lock; /* for what workers say */
    int said_fd;          /* readable when one did; owned */
    struct atoll_watch said;
};

struct atoll_sync_row {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

/* One operation. Its call is the worker's while it runs. */
struct atoll_sync_work {
    struct atoll_call call;
    struct atoll_job job;
    struct atoll_sync_call how;
    char *metadata_json, **env;         /* CREATE: what the spec points to; owned */
    struct atoll_mount *mounts;         /* the same */
    struct atoll_registry_login *login; /* the same, and secret */
    struct atoll_buf said; /* texts with their NUL, not told yet; guarded by sync->lock */
    size_t unsaid;         /* texts that found no room */
    /* what run() leaves */
    bool ran;
    int fd;
    uint64_t took_us;
    struct atoll_sync_row *rows; /* owned */
    size_t row_count, row_cap;
    struct atoll_provider_volume *volumes; /* owned */
    size_t volume_count, volume_cap;
    struct atoll_provider_inspection look;
    struct atoll_provider_stats stats;
    struct atoll_provider_image made;
    char detail[200];
    int result;
    struct atoll_error error;
};

static inline struct atoll_sync *atoll_sync_of(struct atoll_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_sync, callee.base);
}

static inline struct atoll_sync_work *atoll_sync_work_of(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_sync_work, call.node);
}

/* Gives it to a worker. */
void atoll_sync_begin(struct atoll_call *call);
/* Nobody wants its result any more. */
void atoll_sync_cancel(const struct atoll_sync_work *work);
/* From now on nobody is told anything; all goes when the last operation has ended. */
void atoll_sync_orphan(struct atoll_sync *sync);
/* For the watch of said_fd: tells what workers have said. */
void atoll_sync_hear(void *sync, uint32_t events);
