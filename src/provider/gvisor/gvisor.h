#pragma once
#include "provider/sync.h"

/*
 * Sandboxes with gVisor's kernel: runsc runs the same templates, with our agent as the first
 * process. An atoll-spawn of its own makes them (docs/adr/0009-gvisor.md), so root, limits, disks,
 * freezing and removal are those of the native provider; only the last step differs. Its state
 * directory is STATE/gvisor.
 *
 * Call atoll_gvisor_provider_new() after the state directory is locked, before any sandbox is made
 * and before privileges are dropped: it starts that atoll-spawn, or connects to the running one. If
 * that dies later, its keeper starts it again. No later operation needs privileges.
 *
 * Blocking: everything except missing_limits. Thread: any worker, several at a time.
 */
struct atoll_gvisor_config {
    const char *state_dir;   /* of the daemon */
    const char *program_dir; /* directory of atoll-spawn, atoll-agent and atoll-sudo */
    const char *runsc;       /* NULL: /usr/local/bin or /usr/bin; must be below /usr */
    const char *platform;    /* NULL: the best one that this runsc supports */
};

/* Copies the config. Takes about 100 ms. FAILED_PRECONDITION without root or without runsc. */
int atoll_gvisor_provider_new(const struct atoll_gvisor_config *config,
                              struct atoll_sync_provider **ret,
                              struct atoll_error *err) ATOLL_MUST_CHECK;
