#pragma once
#include "provider/e2b/e2b_internal.h"

/* Operations of provider/sync.h that the kit does not have. */
int atoll_e2b_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_resume(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_e2b_op_public_host(struct atoll_sync_provider *base, const struct atoll_spec *spec,
                              char *out, size_t cap);
