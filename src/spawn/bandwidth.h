#pragma once
#include "spawn/plan_run.h"

/*
 * The limit on the bandwidth of a disk is a limit on its loop device. On cgroup v1 the limit stays on the
 * device after the disk is detached, and would hold for the next user of the device. So the device is
 * recorded in sandboxes/<id>.io before the limit is set. Removing the sandbox removes the limit; after an
 * atoll-spawn that was killed, the next one does.
 */

/* In the new process. The caller holds the lock from before the device is attached until the limit is
 * set. Returns a descriptor; closing it unlocks. Blocking: at most five seconds. */
int atoll_bandwidth_lock(const struct atoll_spawn_host *host,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Limits reads and writes of the attached device to so many bytes a second each. */
int atoll_bandwidth_limit(const struct atoll_plan_run *b, int loop_fd, uint64_t bytes,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes the limit that an earlier user of the device left. */
void atoll_bandwidth_unlimit(const struct atoll_spawn_host *host, int loop_fd);

/* In spawn: removes the limit that is recorded for the sandbox in the directory `sandboxes`. -EAGAIN: the
 * lock is taken, try again. */
int atoll_bandwidth_undo(const struct atoll_spawn_host *host, int sandboxes,
                         const char *id) ATOLL_MUST_CHECK;
/* The same for every sandbox of an earlier run. */
void atoll_bandwidth_undo_all(const struct atoll_spawn_host *host);
