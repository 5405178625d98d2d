#pragma once
#include "tools/verify/canary.h"
#include "tools/verify/checks.h"
#include "tools/verify/verify.h"

/*
 * Attacks from inside: makes sandboxes of one tier, runs the probe in them, and inspects them from the
 * host. The control is the same probe without a sandbox.
 */

struct atoll_tier {
    char name[96];      /* as in the report: "native", "native, root inside" */
    char provider[64];  /* as the daemon calls it */
    char isolation[32]; /* "namespaces", "container", "gvisor" */
    struct atoll_tier_kind kind;
};

/* Adds the results of all selected checks of one tier. Checks that cannot be made are reported with
 * atoll_report_trouble(); this fails only if the daemon is gone. */
int atoll_inside_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_canary *canary, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The control: runs the probe on the host, without any isolation. */
int atoll_outside_run(const struct atoll_verify *v, struct atoll_canary *canary,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
