#pragma once
#include "provider/remote/settings.h"
#include "provider/sizes.h"
#include "provider/sync.h"

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
    const char *api_url; /* https://api.DOMAIN */
    /* One URL for all sandboxes, which headers select; default by domain. */
    const char *sandbox_url;
    const char *domain;             /* e2b.app */
    const char *api_key;            /* the key itself, or */
    const char *api_key_file;       /* a file with only the key, or */
    const char *api_key_env;        /* the environment variable with the key: E2B_API_KEY */
    bool key_of_request;            /* no key of its own: spec.credential is required */
    const char *ca_file;            /* PEM; for a certificate that the system does not trust */
    const char *template_id;        /* base */
    const struct atoll_size *sizes; /* templates by size: the request's limits choose one */
    size_t size_count;
    uint32_t timeout_s;    /* how long a sandbox outlives its daemon: 3600 */
    const char *region;    /* sent to the API as X-Region; NULL: not sent */
    const char *isolation; /* isolation of the service; microvm for E2B's cloud, else unknown */
    const struct atoll_remote_header_setting *headers; /* sent with every request to the API */
    size_t header_count;
    const char *daemon_id;  /* marks this daemon's sandboxes: a-z, 0-9 and '-'; required */
    const char *agent_path; /* the static atoll-agent; required */
};

/* Copies the config. Does not contact the service, which may start later. */
int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
