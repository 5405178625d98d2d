#pragma once
#include "tools/verify/canary.h"
#include "tools/verify/checks.h"
#include "tools/verify/verify.h"

/*
 * Attacks from inside: fresh sandboxes of one tier, the probe in them, and what of them is seen from
 * the host. The control is the same probe without a sandbox.
 */

struct atoll_tier {
    char name[96];      /* as in the report: "native", "native, root inside" */
    char provider[64];  /* as the daemon calls it */
    char isolation[32]; /* "namespaces", "container", "gvisor" */
    struct atoll_tier_kind kind;
};

/* Adds the results of all checks of one tier that are wanted. What could not be done is told by
 * atoll_report_trouble(), so that this fails only when the daemon is gone. */
int atoll_inside_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_canary *canary, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The control: the probe on the host, started as carelessly as it can be. */
int atoll_outside_run(const struct atoll_verify *v, struct atoll_canary *canary,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
