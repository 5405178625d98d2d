#pragma once
#include "engine/engine_internal.h"

/*
 * Operations that need the files of a sandbox for themselves: snapshots, forks, comparisons and merges with its present
 * files, checkpoints, pauses, restores and undos. One takes place at a time, in the order in which they were asked for.
 *
 * What waits ends with its sandbox and with the daemon: its function is called with the error. It does not begin while a
 * deadline of the sandbox is due. Checkpoints take their turn, too, so no client's request fails because of one.
 *
 * Thread: the loop's.
 */

/* A capture, or what a checkpoint waits for: room on the disk. */
bool atoll_capture_in_progress(const struct atoll_sandbox *sandbox);
/* Calls fn once, when its turn has come: at once if nothing is in progress. The sandbox may have changed, so fn checks
 * its state. An error: it does not take place. RESOURCE_EXHAUSTED: as atoll_capture_admit(). owner: for
 * atoll_capture_cancel(); NULL: it is not canceled. */
void atoll_capture_await(struct atoll_sandbox *sandbox, const void *owner, atoll_done_fn *fn,
                         void *arg);
/* The same for a checkpoint, of which a sandbox has one at a time: it does not count. */
void atoll_capture_await_checkpoint(struct atoll_sandbox *sandbox, atoll_done_fn *fn, void *arg);
/* Those of a tenant that wait. */
size_t atoll_capture_waiting(struct atoll_engine *engine, const char *tenant);
/* Continues what does not take turns: a stop or a resume that was asked for during an operation. Call when one has ended,
 * before atoll_capture_next(). The sandbox may be gone afterwards. */
void atoll_capture_proceed(struct atoll_sandbox *sandbox);
/* Call when an operation has ended. The sandbox may be gone afterwards. */
void atoll_capture_next(struct atoll_sandbox *sandbox);
/* The same, from the loop: the phase of the sandbox has changed. */
void atoll_capture_next_soon(struct atoll_sandbox *sandbox);
/* The daemon is stopping, and engine->ending is set: calls all but checkpoints with UNAVAILABLE, also those that come later. */
void atoll_captures_shutdown(struct atoll_engine *engine);
/* The sandbox is gone: calls all with an error. */
void atoll_capture_abort(struct atoll_sandbox *sandbox);
