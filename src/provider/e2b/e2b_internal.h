#pragma once
#include "provider/e2b/e2b.h"
#include "provider/e2b/messages.h"
#include "provider/remote/agent.h"
#include "provider/remote/api.h"
#include "provider/remote/leases.h"
#include "provider/remote/pump.h"

/* Shared by the files of this provider. */

#define ATOLL_E2B_ENVD_PORT 49983

struct atoll_e2b_provider {
    struct atoll_sync_provider base;
    struct atoll_sync_ops ops; /* base.ops, with the isolation of this service */
    char *sandbox_url, *domain, *template_id, *daemon_id, *isolation; /* owned */
    char *key; /* owned; NULL: every request has its own */
    struct atoll_size sizes[ATOLL_SIZES_MAX];
    size_t size_count;
    bool domain_is_known;               /* configured, or the service is E2B's own */
    struct atoll_remote_api api;        /* owns its http, url and headers */
    struct atoll_remote_leases *leases; /* of struct atoll_e2b_remote */
    struct atoll_remote_pump *pump;
    struct atoll_remote_agent *agent;
};

/* The API as one operation uses it: with the key of the spec, if that has one. */
struct atoll_e2b_account {
    struct atoll_remote_api api; /* shares everything else with the provider's */
    struct curl_slist *own;      /* owned: its headers; NULL: those of the provider */
};
#define ATOLL_E2B_AUTOACCOUNT ATOLL_CLEANUP(atoll_e2b_account_done)
/* FAILED_PRECONDITION: neither the spec nor the provider has a key. */
int atoll_e2b_account_open(const struct atoll_e2b_provider *p, const struct atoll_spec *spec,
                           struct atoll_e2b_account *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Erases the key. Accepts a struct of zeros. */
void atoll_e2b_account_done(struct atoll_e2b_account *account);
/* Appends the headers of the API with this key instead of the provider's. */
int atoll_e2b_headers_with_key(const struct atoll_e2b_provider *p, const char *key,
                               struct curl_slist **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Installs the agent in a new sandbox and starts it. */
int atoll_e2b_agent_start(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                          const struct atoll_e2b_remote *remote,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Opens a stream to the agent. */
int atoll_e2b_agent_dial(struct atoll_e2b_provider *p, const struct atoll_sync_call *call,
                         const struct atoll_e2b_remote *remote, int *ret_fd,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
