#pragma once
#include "provider/remote/settings.h"
#include "provider/sizes.h"
#include "provider/sync.h"

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
    const char *api_url;            /* https://app.daytona.io/api */
    const char *toolbox_url;        /* as the service says */
    const char *api_key;            /* the key itself, or */
    const char *api_key_file;       /* a file with only the key, or */
    const char *api_key_env;        /* the environment variable with the key: DAYTONA_API_KEY */
    bool key_of_request;            /* no key of its own: spec.credential is required */
    const char *ca_file;            /* PEM; for a certificate that the system does not trust */
    const char *snapshot;           /* the default of the account */
    const struct atoll_size *sizes; /* snapshots by size: the request's limits choose one */
    size_t size_count;
    uint32_t timeout_s; /* how long a sandbox outlives its daemon: 3600 */
    const char *target; /* region; the default of the account */
    const char *user;   /* of the service's processes; that of the snapshot */
    const char
        *isolation; /* isolation of the service; container for Daytona's cloud, else unknown */
    bool pause;     /* its sandboxes can be paused: virtual machines, or another Atoll */
    bool is_public; /* the service publishes ports without a key */
    const struct atoll_remote_header_setting *headers; /* sent with every request */
    size_t header_count;
    const char *daemon_id;  /* marks this daemon's sandboxes: a-z, 0-9 and '-'; required */
    const char *agent_path; /* the static atoll-agent; required */
};

/* Copies the config. Does not contact the service, which may start later. */
int atoll_daytona_provider_new(const struct atoll_daytona_provider_config *config,
                               struct atoll_sync_provider **ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
