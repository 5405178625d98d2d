#pragma once
#include "provider/remote/provider.h"

/*
 * Sandboxes of a service that speaks E2B's protocol: E2B's cloud, or another Atoll. Our agent is
 * uploaded to each sandbox and started as root. Every stream to it is a process of the service
 * ("atoll-agent --relay") whose standard input and output are carried over HTTP.
 *
 * A sandbox there has a time to live, which is extended as long as this daemon has the sandbox: one
 * that a daemon abandons ends by itself.
 *
 * Blocking: everything except missing_limits. Thread: any worker, several at a time; one more
 * thread carries the streams of all sandboxes.
 */
/* A field that is NULL or 0 has the default that its comment names. */
struct atoll_e2b_provider_config {
    /* api_url: https://api.DOMAIN. api_key_env: E2B_API_KEY. template_id: base. region: sent to the API as
     * X-Region; NULL: not sent. isolation: microvm for E2B's cloud, else unknown. */
    struct atoll_remote_config common;
    /* One URL for all sandboxes, which headers select; default by domain. */
    const char *sandbox_url;
    const char *domain; /* e2b.app */
};

/* Copies the config. Does not contact the service, which may start later. */
int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
