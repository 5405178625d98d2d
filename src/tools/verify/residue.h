#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * What a sandbox leaves: on the host, in its neighbour while both live, and for the next one when it
 * is gone. The control of each look is that it finds the thing where it is.
 */

/* `neighbour` lives on. */
int atoll_residue_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const struct atoll_box *neighbour, struct atoll_error *err) ATOLL_MUST_CHECK;
