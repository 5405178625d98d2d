#pragma once
#include "tools/verify/box.h"
#include "tools/verify/inside.h"

/*
 * Runs the probe and adds its output to the report.
 */
#define ATOLL_PROBE_INSIDE "/home/user/probe"
#define ATOLL_PROBE_OUTPUT_MAX (256 * 1024)

/* The selected checks as the probe's argument "only=…"; NULL if all are selected, "" if none is. Owned by
 * the caller. */
char *atoll_probe_wanted(const struct atoll_verify *v) ATOLL_MUST_CHECK;

/* Runs the probe in a sandbox that has it. The caller owns *ret_output. only may be NULL. */
int atoll_probe_run(const struct atoll_box *box, const char *user, const json_t *facts,
                    const char *only, char **ret_output, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Adds a result for each line and returns the number of lines. tier NULL: the control; with only_found,
 * only its FOUND results are added. */
size_t atoll_probe_report(const struct atoll_verify *v, const struct atoll_tier *tier,
                          const char *output, bool only_found);

/* Reports the selected checks for which the probe printed no line. */
void atoll_probe_report_silent(const struct atoll_verify *v, const char *tier);

/* Adds a result; FOUND becomes NOT_OFFERED if the tier does not offer the promise. */
void atoll_tier_add(const struct atoll_verify *v, const struct atoll_tier *tier,
                    const struct atoll_check *check, enum atoll_verdict verdict,
                    const char *evidence, ...) ATOLL_PRINTF(5, 6);
bool atoll_tier_wants(const struct atoll_verify *v, const struct atoll_check *checks, size_t count);
