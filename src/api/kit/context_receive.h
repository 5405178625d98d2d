#pragma once
#include "api/call.h"
#include "engine/build/build.h"

/*
 * Receives the body of a request as the archive of a build context of the caller's tenant
 * (engine/build/build.h). digest: as for atoll_context_finish(). done gets the call and ends it; a body that
 * does not come, or that is refused, fails the call.
 */
void atoll_context_receive(struct atoll_api_call *call, const char *name, const char *digest,
                           atoll_done_fn *done);
