#pragma once
#include "provider/remote/provider.h"

/*
 * Sandboxes of a service that speaks Daytona's protocol: Daytona's cloud, or another Atoll. Our agent is
 * uploaded to each sandbox and started as root, with a relay through which the service's proxy to ports
 * carries the streams (provider/remote/relay.h).
 *
 * A sandbox there is stopped and deleted after some time without activity, which this daemon reports as
 * long as it has the sandbox: one that a daemon abandons ends by itself.
 *
 * Blocking: everything except missing_limits. Thread: any worker, several at a time; one more
 * thread carries the streams of all sandboxes.
 */
/* A field that is NULL or 0 has the default that its comment names. */
struct atoll_daytona_provider_config {
    /* api_url: https://app.daytona.io/api. api_key_env: DAYTONA_API_KEY. template_id: a snapshot; that of
     * the account. region: the target; that of the account. isolation: container for Daytona's cloud, else
     * unknown. */
    struct atoll_remote_config common;
    const char *toolbox_url; /* as the service says */
    const char *user;        /* of the service's processes; that of the snapshot */
    bool pause;              /* its sandboxes can be paused: virtual machines, or another Atoll */
    bool is_public;          /* the service publishes ports without a key */
};

/* Copies the config. Does not contact the service, which may start later. */
int atoll_daytona_provider_new(const struct atoll_daytona_provider_config *config,
                               struct atoll_sync_provider **ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
