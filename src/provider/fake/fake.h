#pragma once
#include "provider/sync.h"

/*
 * A provider for tests, and the example of docs/adding-a-provider.md: its "sandboxes" are directories
 * with our stand-alone agent as a plain process of this host, which isolates nothing. Operations can
 * be made slow or made to fail while it runs, by a file with lines such as
 *
 *     create 250 unavailable
 *     health 0 ok
 *
 * an operation, how many milliseconds it takes, and how it ends (the name of a kind of error). A look
 * may also end as "exited", "gone" or "paused", whatever is true; "dialed" is a stream that ends at
 * once. A fourth word is a sandbox: the line is about that one alone.
 * Blocking: everything but missing_limits. Thread: any worker, several at a time.
 */
struct atoll_fake_config {
    const char *state_dir;  /* its own, below an existing directory; made when missing */
    const char *agent_path; /* atoll-agent */
    const char *control;    /* that file, which need not exist; NULL: none */
};

/* Copies what it needs of the config. */
int atoll_fake_provider_new(const struct atoll_fake_config *config,
                            struct atoll_sync_provider **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
