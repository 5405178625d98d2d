#pragma once
#include "provider/e2b/e2b_internal.h"

/* The operations of provider/sync.h that are about sandboxes. */
int atoll_e2b_op_create(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                        struct atoll_spec *spec, int *ret_fd,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_dial(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                      const struct atoll_spec *spec, int *ret_fd,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_inspect(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_provider_inspection *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_list(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                      void (*each)(void *arg, const char *id, const char *handle, bool alive),
                      void *arg, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_destroy(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                         const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_resume(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                        const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                       const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_e2b_op_public_host(struct atoll_sync_provider *base, const struct atoll_spec *spec,
                              char *out, size_t cap);
