#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Residue of a sandbox: on the host, in another sandbox while both run, and in the next sandbox. The
 * control of each check is that it finds the mark in the sandbox that made it.
 */

/* `neighbour` is another running sandbox; it is not destroyed. */
int atoll_residue_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const struct atoll_box *neighbour, struct atoll_error *err) ATOLL_MUST_CHECK;
