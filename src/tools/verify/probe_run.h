#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * One run of the probe, and what its lines mean for the report.
 */
#define ATOLL_PROBE_INSIDE "/home/user/probe"
#define ATOLL_PROBE_OUTPUT_MAX (256 * 1024)

/* The wanted checks of the probe as its argument "only=…", or NULL when all are; "" when none is. The
 * caller's. */
char *atoll_probe_wanted(const struct atoll_verify *v) ATOLL_MUST_CHECK;

/* Runs it in a sandbox that holds it: *ret_output is the caller's. only may be NULL. */
int atoll_probe_run(const struct atoll_box *box, const char *user, const json_t *facts,
                    const char *only, char **ret_output, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds a result for each line. tier NULL: the control, of which only what was FOUND counts when
 * `only_found`. Returns how many lines there were. */
size_t atoll_probe_report(const struct atoll_verify *v, const struct atoll_tier *tier,
                          const char *output, bool only_found);

/* Notes the wanted checks that no line was about. */
void atoll_probe_report_silent(const struct atoll_verify *v, const char *tier);

/* Adds a result to a tier: what it does not offer is not a finding. */
void atoll_tier_add(const struct atoll_verify *v, const struct atoll_tier *tier,
                    const struct atoll_check *check, enum atoll_verdict verdict,
                    const char *evidence, ...) ATOLL_PRINTF(5, 6);
bool atoll_tier_wants(const struct atoll_verify *v, const struct atoll_check *checks, size_t count);
