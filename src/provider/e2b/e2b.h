#pragma once
#include "provider/sizes.h"
#include "provider/sync.h"

/*
 * Sandboxes of a service that speaks E2B's protocol: the cloud, or another Atoll. Our agent is put into
 * each of them and started there as root; every stream to it is a process of the service's
 * ("atoll-agent --relay") whose standard input and output are carried over HTTP.
 *
 * A sandbox there has a time to live, which is moved on for as long as this daemon has the sandbox: one
 * that a daemon leaves behind for good ends by itself.
 *
 * Blocking: everything but missing_limits. Thread: any worker, several at a time; one thread more
 * carries the streams of all sandboxes.
 */
struct atoll_e2b_header {
    const char *name, *value;
};

/* NULL and 0 stand for the default. */
struct atoll_e2b_provider_config {
    const char *api_url;      /* https://api.DOMAIN */
    const char *sandbox_url;  /* of every sandbox, told apart by headers; by DOMAIN */
    const char *domain;       /* e2b.app */
    const char *api_key;      /* the key itself, or */
    const char *api_key_file; /* a file that holds nothing else, or */
    const char *api_key_env;  /* the variable that has it: E2B_API_KEY */
    const char *ca_file;      /* PEM, of a service whose certificate the system does not know */
    const char *template_id;  /* base */
    const struct atoll_size *sizes; /* templates that are chosen by what a request asks for */
    size_t size_count;
    uint32_t timeout_s;    /* how long a sandbox outlives its daemon: 3600 */
    const char *region;    /* sent to the API as X-Region; NULL: nothing is */
    const char *isolation; /* how the service isolates; microvm for the cloud, else unknown */
    const struct atoll_e2b_header *headers; /* of every request to the API */
    size_t header_count;
    const char *daemon_id;  /* marks this daemon's sandboxes: a-z, 0-9 and '-'; needed */
    const char *agent_path; /* the static atoll-agent; needed */
};

/* Copies what it needs of the config. Asks the service nothing: it may come up later. */
int atoll_e2b_provider_new(const struct atoll_e2b_provider_config *config,
                           struct atoll_sync_provider **ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
