#pragma once
#include "engine/engine_internal.h"
#include "engine/state/state.h"

/*
 * Makes a version from the files of a sandbox, for snapshots and forks.
 */
struct atoll_capture_request {
    const char *name;   /* of the template */
    const char *tags;   /* as in atoll_version_new */
    const char *source; /* ATOLL_SOURCE_*; static */
};
/* version: borrowed until the caller returns to the loop, unless it is pinned. */
typedef void atoll_capture_fn(void *arg, struct atoll_version *version,
                              const struct atoll_snapshot_facts *facts,
                              const struct atoll_error *error);
/* Whether the sandbox is in a state of which a version can be made. */
int atoll_capture_check(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
void atoll_capture(struct atoll_sandbox *sandbox, const struct atoll_capture_request *request,
                   atoll_capture_fn *done, void *arg);
