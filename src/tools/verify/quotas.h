#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Quotas that the kernel keeps for each user: while one sandbox holds all it can get of one, another
 * sandbox and the user who runs the verification have what they had before. The control holds them
 * in a user namespace that this user made, which takes them from this user.
 */
int atoll_quotas_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_quotas_control(const struct atoll_verify *v);
