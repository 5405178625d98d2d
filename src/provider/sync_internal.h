#pragma once
#include <pthread.h>
#include "base/buf.h"
#include "provider/call.h"
#include "provider/sync.h"

/*
 * Shared by the files of sync.h: sync.c runs calls on workers and delivers their results,
 * sync_ops.c has the other operations.
 */

/* The provider the engine sees. */
struct atoll_sync {
    struct atoll_callee callee;    /* ops has those that the inner provider has */
    struct atoll_workers *workers; /* borrowed */
    struct atoll_sync_provider *inner;
    struct atoll_provider_caps caps; /* those of inner, with its present networks */
    bool orphaned;        /* freed by its owner; the memory is released with the last call */
    pthread_mutex_t lock; /* guards `said` of all calls */
    int said_fd;          /* eventfd: a worker added text to `said`; owned */
    struct atoll_watch said;
};

struct atoll_sync_row {
    char id[ATOLL_ID_LEN + 1];
    char handle[129];
    bool alive;
};

/* One operation. The worker owns its call while it runs. */
struct atoll_sync_work {
    struct atoll_call call;
    struct atoll_job job;
    struct atoll_sync_call how;
    /* CREATE: copies of what the spec points to; owned */
    char *metadata_json, *region, *layers, *network_json, **env;
    struct atoll_mount *mounts;         /* likewise */
    struct atoll_registry_login *login; /* likewise, secret */
    struct atoll_buf said; /* NUL-terminated texts, not delivered yet; guarded by sync->lock */
    size_t unsaid;         /* texts dropped because `said` was full */
    /* results of run() */
    bool ran;
    int fd, dns_fd;
    uint64_t took_us;
    struct atoll_sync_row *rows; /* owned */
    size_t row_count, row_cap;
    struct atoll_provider_volume *volumes; /* owned */
    size_t volume_count, volume_cap;
    struct atoll_provider_inspection inspection;
    struct atoll_provider_stats stats;
    struct atoll_provider_image made;
    struct atoll_provider_layer layer;
    char detail[200];
    const char *too_many; /* text: a list is longer than we keep */
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

/* Queues the call for a worker. */
void atoll_sync_begin(struct atoll_call *call);
/* The result is not needed any more; signals cancel_fd. */
void atoll_sync_cancel(const struct atoll_sync_work *work);
/* After this no callback is made; everything is freed when the last operation has ended. */
void atoll_sync_orphan(struct atoll_sync *sync);
/* Watch callback of said_fd: delivers what workers reported. */
void atoll_sync_hear(void *sync, uint32_t events);
