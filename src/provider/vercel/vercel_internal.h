#pragma once
#include "provider/remote/provider.h"
#include "provider/vercel/messages.h"
#include "provider/vercel/vercel.h"

/* Shared by the files of this provider. */

struct atoll_vercel_provider {
    struct atoll_remote_provider remote;
    char *template_id, *region; /* owned; "": the service's default */
    char *sandbox_url;          /* owned; NULL: as the service says */
    char *scope;                /* owned: "TEAM PROJECT" */
    uint16_t relay_port;
    uint32_t max_vcpus;
};

static inline struct atoll_vercel_provider *atoll_vercel_of_remote(struct atoll_remote_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_vercel_provider, remote);
}
static inline struct atoll_vercel_remote *atoll_vercel_record(struct atoll_remote_sandbox *of)
{
    return ATOLL_CONTAINER_OF(of, struct atoll_vercel_remote, of);
}

extern const struct atoll_remote_ops atoll_vercel_remote_ops; /* control.c */

/* control.c */
int atoll_vercel_op_set_network(struct atoll_sync_provider *base,
                                const struct atoll_sync_call *call, const struct atoll_spec *spec,
                                const char *policy, struct atoll_error *err) ATOLL_MUST_CHECK;

/* session.c: requests about the session of one sandbox. */
int atoll_vercel_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                             struct atoll_remote_sandbox *record,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_vercel_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                            struct atoll_remote_sandbox *record, int *ret_fd,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
