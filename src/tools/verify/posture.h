#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Inspects the processes of a sandbox from the host, in /proc and the cgroups. The control is the canary,
 * an ordinary process of the host.
 */

/* Starts a process of the tier's user in each of two sandboxes (which have the probe) and inspects it. */
int atoll_posture_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                      const struct atoll_box *first, const struct atoll_box *second,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_posture_control(const struct atoll_verify *v, const struct atoll_canary *canary);
