#pragma once
#include "tools/verify/inside.h"

/*
 * Residue between sandboxes that share files: a sandbox, its forks, and one made from its snapshot. The
 * sandboxes have disks that do not fit into memory, so where the host has a disk pool they are in it.
 */
extern const struct atoll_check atoll_fork_checks[];
extern const size_t atoll_fork_checks_count;

int atoll_forks_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
