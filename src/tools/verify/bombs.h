#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Resource exhaustion: in sandboxes with small limits each bomb must hit a limit. A bomb itself has a
 * bound, slightly above those limits, so that it is harmless without a limit; the control runs it outside
 * with a bound that is harmless for the host.
 */
int atoll_bombs_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_bombs_control(const struct atoll_verify *v);
