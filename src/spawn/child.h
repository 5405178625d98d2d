#pragma once
#include "spawn/plan_run.h"

/* The new process of a plan, from START on; and what the parent does while the child waits for its
 * id maps. */

/* Runs the remaining steps and becomes the agent. `index` is the number of the first of them. */
void atoll_child_run(struct atoll_plan_run *b, const uint8_t *plan, size_t len, uint32_t index)
    __attribute__((noreturn));

/* Rootless: writes the id maps of the child and lets it continue. */
int atoll_child_map_ids(const struct atoll_plan_run *b, pid_t child, int go_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* Starts a process that does `work` and exits with its result (0, or the errno). Without root it has a user
 * namespace with the user's id and sub-ids, as `ids` says, and all rights over their files. It keeps only the descriptors in `keep` (sorted), and dies with spawn.
 * Returns its pid, or -errno. */
pid_t atoll_child_work(const struct atoll_spawn_host *host, const struct atoll_po_ids *ids,
                       int (*work)(const void *arg), const void *arg, const int *keep,
                       size_t keep_count) ATOLL_MUST_CHECK;

/* Starts a process that removes the tree `name` below dir, including files owned by a user's
 * sub-ids. The process exits with 0 if all was removed. Returns its pid, or -errno. */
pid_t atoll_child_sweep(const struct atoll_spawn_host *host, const struct atoll_po_ids *ids,
                        int dir, const char *name) ATOLL_MUST_CHECK;
