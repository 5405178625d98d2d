#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * A sandbox with a network (networkMode "bridge"): services of the host are out of reach, and it cannot
 * change its network. The control runs outside, and in a network namespace of this user's own.
 */
int atoll_networks_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                       const struct atoll_canary *canary, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_networks_control(const struct atoll_verify *v, const struct atoll_canary *canary);
