#pragma once
#include "provider/e2b/e2b.h"
#include "provider/e2b/messages.h"
#include "provider/remote/provider.h"

/* Shared by the files of this provider. */

#define ATOLL_E2B_ENVD_PORT 49983

struct atoll_e2b_provider {
    struct atoll_remote_provider remote;
    char *sandbox_url, *domain, *template_id; /* owned */
    bool domain_is_known;                     /* configured, or the service is E2B's own */
};

static inline struct atoll_e2b_provider *atoll_e2b_of(struct atoll_remote_provider *p)
{
    return ATOLL_CONTAINER_OF(p, struct atoll_e2b_provider, remote);
}
static inline struct atoll_e2b_remote *atoll_e2b_record(struct atoll_remote_sandbox *of)
{
    return ATOLL_CONTAINER_OF(of, struct atoll_e2b_remote, of);
}

extern const struct atoll_remote_ops atoll_e2b_remote_ops; /* control.c */

/* envd.c: of struct atoll_remote_ops. */
int atoll_e2b_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                          struct atoll_remote_sandbox *record,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_e2b_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                         struct atoll_remote_sandbox *record, int *ret_fd,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
