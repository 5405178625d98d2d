#pragma once
#include "provider/sync.h"

/*
 * Sandboxes whose kernel is gVisor's: runsc runs the same templates, with our agent as the first
 * process. An atoll-spawn of its own makes them (docs/adr/0009-gvisor.md), so that root, limits,
 * disks, freezing and removal are those of the native provider; only the last step differs. Its state
 * directory is STATE/gvisor.
 *
 * Before privileges are dropped: atoll_gvisor_provider_new() has to be called then, because it
 * starts that atoll-spawn (or finds the one that runs), whose keeper starts it again by itself.
 * After the state directory is locked and before any sandbox is made. Nothing later needs privilege.
 *
 * Blocking: everything but missing_limits. Thread: any worker, several at a time.
 */
struct atoll_gvisor_config {
    const char *state_dir;   /* of the daemon */
    const char *program_dir; /* where atoll-spawn, atoll-agent and atoll-sudo are */
    const char *runsc;       /* NULL: found in /usr/local/bin or /usr/bin; must be below /usr */
    const char *platform;    /* NULL: the best that this runsc has */
};

/* Copies what it needs of the config. Takes about 100 ms. FAILED_PRECONDITION without root, or where
 * there is no runsc. */
int atoll_gvisor_provider_new(const struct atoll_gvisor_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
