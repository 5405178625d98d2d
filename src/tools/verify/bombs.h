#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Resource exhaustion: in sandboxes with small limits each bomb must meet one. A bomb is bounded
 * itself, a little beyond those limits, so that it is harmless where there are none; the control runs
 * it outside with a bound this host does not feel.
 */
int atoll_bombs_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_bombs_control(const struct atoll_verify *v);
