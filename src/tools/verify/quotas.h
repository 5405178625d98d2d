#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Per-user quotas of the kernel: while one sandbox uses all of a quota that it can get, another sandbox
 * and the user who runs the verification must keep theirs. The control uses the quota in a user
 * namespace that this user made, which is charged to this user.
 */
int atoll_quotas_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_quotas_control(const struct atoll_verify *v);
