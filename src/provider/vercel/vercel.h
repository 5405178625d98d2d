#pragma once
#include "provider/remote/provider.h"

/*
 * Sandboxes of a service that speaks Vercel's protocol: a team at Vercel, or another Atoll. Our agent is
 * uploaded to each sandbox and started as root, with a relay at a published port, whose domain carries the
 * streams (provider/remote/relay.h).
 *
 * A sandbox there has one session, which ends after some time unless this daemon extends it: one that a
 * daemon abandons ends by itself.
 *
 * Blocking: everything except missing_limits. Thread: any worker, several at a time; one more
 * thread carries the streams of all sandboxes.
 */
/* A field that is NULL or 0 has the default that its comment names. */
struct atoll_vercel_provider_config {
    /* api_url: https://vercel.com/api. api_key_env: VERCEL_TOKEN. template_id: a runtime, a snapshot or an
     * image; the service's default runtime. timeout_s: 1800. isolation: microvm for Vercel's cloud, else
     * unknown. sizes is not used. */
    struct atoll_remote_config common;
    const char *team, *project; /* required for Vercel's cloud unless every request brings a key */
    const char *sandbox_url;    /* of all ports; that of api_url if it ends with /vercel/api */
    uint16_t relay_port;        /* the port of the relay in each sandbox: 47100 */
    uint32_t max_vcpus;         /* up to which requests choose a size; 0: they cannot */
};

/* Copies the config. Does not contact the service, which may start later. */
int atoll_vercel_provider_new(const struct atoll_vercel_provider_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
