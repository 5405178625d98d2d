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
/* Captures of one tenant that are in progress or wait: one tenant cannot take all places of a provider. */
#define ATOLL_CAPTURES_MAX 8
/* Whether its files can be captured now; call it when its turn has come (capture_queue.h). FAILED_PRECONDITION: it is
 * in another state. RESOURCE_EXHAUSTED: as atoll_capture_admit(). */
int atoll_capture_check(struct atoll_sandbox *sandbox, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Without the bound of its tenant: for checkpoints. */
int atoll_capture_check_state(struct atoll_sandbox *sandbox,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
/* RESOURCE_EXHAUSTED: ATOLL_CAPTURES_MAX captures of its tenant are in progress or wait. */
int atoll_capture_admit(const struct atoll_sandbox *sandbox,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Captures in progress of a tenant. source: NULL for all that make versions. */
size_t atoll_captures_count(struct atoll_engine *engine, const char *tenant, const char *source);
/* snapshot.c: whether a tenant may have `more` bytes of layers of snapshots. RESOURCE_EXHAUSTED. */
int atoll_snapshot_admit(struct atoll_engine *engine, const char *tenant, uint64_t more,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The stack below the writable layer; borrowed. */
const char *atoll_capture_stack(const struct atoll_sandbox *sandbox);
/* Only the layer, without a version. stack: that of the sandbox with the new layer on top, held during the call;
 * `source` is a label of metrics, static. The provider must make layers. */
typedef void atoll_capture_layer_fn(void *arg, const char *stack,
                                    const struct atoll_snapshot_facts *facts,
                                    const struct atoll_error *error);
void atoll_capture_layer(struct atoll_sandbox *sandbox, const char *source,
                         atoll_capture_layer_fn *done, void *arg);
void atoll_capture(struct atoll_sandbox *sandbox, const struct atoll_capture_request *request,
                   atoll_capture_fn *done, void *arg);
