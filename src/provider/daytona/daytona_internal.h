#pragma once
#include "provider/daytona/daytona.h"
#include "provider/daytona/messages.h"
#include "provider/remote/provider.h"

/* Shared by the files of this provider. */

struct atoll_daytona_provider {
    struct atoll_remote_provider remote;
    char *toolbox_url;              /* owned; NULL: as the service says */
    char *snapshot, *target, *user; /* owned; "": the service's default */
    bool is_public;
};

static inline struct atoll_daytona_provider *atoll_daytona_of_remote(
    struct atoll_remote_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_daytona_provider, remote);
}
static inline struct atoll_daytona_remote *atoll_daytona_record(struct atoll_remote_sandbox *of)
{
    return ATOLL_CONTAINER_OF(of, struct atoll_daytona_remote, of);
}

extern const struct atoll_remote_ops atoll_daytona_remote_ops; /* control.c */

/* control.c: operations of provider/sync.h that the kit does not have. */
int atoll_daytona_op_pause(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_daytona_op_resume(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                            const struct atoll_spec *spec,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_daytona_op_set_network(struct atoll_sync_provider *base,
                                 const struct atoll_sync_call *call, const struct atoll_spec *spec,
                                 const char *policy, struct atoll_error *err) ATOLL_MUST_CHECK;
bool atoll_daytona_op_public_host(struct atoll_sync_provider *base, const struct atoll_spec *spec,
                                  char *out, size_t cap);

/* toolbox.c: requests to the service's daemon in one sandbox. */
int atoll_daytona_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                              struct atoll_remote_sandbox *record,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_daytona_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                             struct atoll_remote_sandbox *record, int *ret_fd,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_daytona_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
