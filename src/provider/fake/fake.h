#pragma once
#include "provider/sync.h"

/*
 * A provider for tests, and the example of docs/adding-a-provider.md: its "sandboxes" are
 * directories with our stand-alone agent as a plain process of this host, which isolates nothing. A
 * control file can make operations slow or make them fail while the provider runs, with lines such
 * as
 *
 *     create 250 unavailable
 *     health 0 ok
 *
 * that is: operation, delay in milliseconds, result (the name of a kind of error, or ok). look
 * (inspect) may also end as "exited", "gone" or "paused", whatever is true; dial may end as
 * "dialed": a stream that ends at once. An optional fourth word limits the line to one sandbox id.
 * Blocking: everything except missing_limits. Thread: any worker, several at a time.
 */
struct atoll_fake_config {
    const char *state_dir;  /* its own directory; created if missing, in an existing parent */
    const char *agent_path; /* atoll-agent */
    const char *control;    /* the control file, which need not exist; NULL: none */
};

/* Copies what it needs of the config. */
int atoll_fake_provider_new(const struct atoll_fake_config *config,
                            struct atoll_sync_provider **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
