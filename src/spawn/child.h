#pragma once
#include "spawn/plan_run.h"

/* The new process of a plan, from START on; and the parent's part while it waits for its ids. */

/* Runs the steps left and becomes the agent. `index` is the number of the first of them. */
void atoll_child_run(struct atoll_plan_run *b, const uint8_t *plan, size_t len, uint32_t index)
    __attribute__((noreturn));

/* Rootless: writes the id maps of the child and lets it go on. */
int atoll_child_map_ids(const struct atoll_plan_run *b, pid_t child, int go_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* A process that removes the tree `name` below dir, also what belongs to the sub-ids of a user; it
 * exits with 0 when nothing is left. Its pid, or -errno. */
pid_t atoll_child_sweep(const struct atoll_spawn_host *host, const struct atoll_po_ids *ids,
                        int dir, const char *name) ATOLL_MUST_CHECK;
