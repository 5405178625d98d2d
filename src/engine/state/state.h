#pragma once
#include "engine/engine.h"

/*
 * The files of a sandbox as a value: snapshots, forks and restores. Processes, memory and environment
 * variables are not part of a snapshot. docs/state.md has the picture.
 *
 * A snapshot is a version of a template of the sandbox's tenant: the stack of the sandbox and one more
 * layer with what the sandbox has changed. A provider that cannot make layers makes an image of its own.
 *
 * A sandbox makes one at a time: the others wait (capture_queue.h), at most as many as a tenant may have in progress.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns. Errors in
 * callbacks are borrowed.
 */

/* How a snapshot was made. All 0: not measured, the provider made an image. */
struct atoll_snapshot_facts {
    uint64_t bytes, files; /* of the new layer */
    uint64_t frozen_us;    /* how long its processes stood still */
    uint64_t flush_us;     /* what was done before that, while they ran */
};
typedef void atoll_snapshot_fn(void *arg, const struct atoll_template_view *view,
                               const struct atoll_snapshot_facts *facts,
                               const struct atoll_error *error);
/* Of a running sandbox; where the provider makes layers, also of a paused or a stopped one. name: NAME
 * or NAME:TAG, which then means the snapshot; NULL: a new name. RESOURCE_EXHAUSTED: the tenant has too
 * many snapshots, or too many are being made, the stack has too many layers, or the disk is full. */
void atoll_engine_snapshot(struct atoll_engine *engine, const char *sandbox_id, const char *name,
                           atoll_snapshot_fn *done, void *arg);
/* The client of a request has disconnected, whose `arg` this was. If the request waits for its turn it ends with an
 * error, and the result is true: arg may be gone. Snapshots, forks, restores, pauses, undos and comparisons. */
bool atoll_capture_cancel(struct atoll_engine *engine, const void *arg);
/* Calls fn for each snapshot, newest first. tenant, sandbox_id: NULL for any. */
void atoll_snapshots_each(struct atoll_engine *engine, const char *tenant, const char *sandbox_id,
                          void (*fn)(void *arg, const struct atoll_template_view *view), void *arg);
/* Removes the snapshots that are too old or too many, now and later. Call once, after recovery. */
void atoll_snapshots_start(struct atoll_engine *engine);
/* The same, after a snapshot was made. */
void atoll_snapshots_expire_soon(struct atoll_engine *engine);

#define ATOLL_FORKS_MAX 100 /* of one request */
struct atoll_fork_request {
    uint32_t count;
    bool timeout_is_given;
    uint32_t timeout_s; /* of the new sandboxes; not given: as that of the sandbox */
    bool memory;        /* with its processes: UNIMPLEMENTED, with the reason of its provider */
    bool
        provisional; /* the next daemon destroys the new sandboxes, but for those of atoll_fork_keep */
};
/* ids: `count` of them. */
typedef void atoll_fork_fn(void *arg, const char (*ids)[ATOLL_ID_LEN + 1], size_t count,
                           const struct atoll_error *error);
/* Makes new sandboxes with the files, environment, limits, network, user and metadata of a running or
 * stopped sandbox: all of them, or none. The new ones have no name. */
void atoll_engine_fork(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_fork_request *request, atoll_fork_fn *done, void *arg);
/* Makes all sandboxes of a provisional fork permanent that have not been destroyed; sandbox_id is one of them. */
int atoll_fork_keep(struct atoll_engine *engine, const char *sandbox_id,
                    struct atoll_error *err) ATOLL_MUST_CHECK;

/* Brings a running sandbox back to a snapshot, or to any version that it could have been created from:
 * it keeps id, name, options and previews. Its commands end as killed by `who`, which is static; its files are those of
 * the version; the start command of the version runs again. */
void atoll_engine_restore(struct atoll_engine *engine, const char *sandbox_id,
                          const char *reference, const char *who, atoll_done_fn *done, void *arg);
