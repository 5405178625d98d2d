#pragma once
#include "tools/verify/verify.h"

/*
 * The report of a verification: results by tier, in order, and the conclusions from them.
 * A result of tier ATOLL_TIER_CONTROL tells whether the same attack succeeds outside of a sandbox: only
 * if it is FOUND there, HOLDS elsewhere is a proof. Adding never fails; lack of memory is reported as
 * trouble.
 */

#define ATOLL_TIER_CONTROL "control"

struct atoll_result {
    const char *tier;                /* borrowed */
    const struct atoll_check *check; /* borrowed */
    enum atoll_verdict verdict;
    char *evidence; /* owned; never NULL */
};

struct atoll_report_counts {
    size_t holds, found, unknown, not_offered;
};

struct atoll_report *atoll_report_new(void);
void atoll_report_free(struct atoll_report *report);

/* Records something that could not be verified, and why. At most a few dozen are kept. With trouble the
 * verification does not succeed, even without findings. */
void atoll_report_trouble(struct atoll_report *report, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* The i-th, or NULL. */
const char *atoll_report_trouble_at(const struct atoll_report *report, size_t i);

/* Changes the results of a tier from index `from` on to UNKNOWN, with `why` as evidence. */
void atoll_report_doubt(struct atoll_report *report, const char *tier, size_t from,
                        const char *why);

size_t atoll_report_size(const struct atoll_report *report);
const struct atoll_result *atoll_report_at(const struct atoll_report *report, size_t i);
/* NULL if the report has no such result. */
const struct atoll_result *atoll_report_find(const struct atoll_report *report, const char *tier,
                                             const char *id);

/* The final verdict: HOLDS becomes UNKNOWN if the control fails too or is missing. */
enum atoll_verdict atoll_report_conclude(const struct atoll_report *report,
                                         const struct atoll_result *result);
/* Counts the final verdicts of one tier, or (tier NULL) of all tiers except the control. */
struct atoll_report_counts atoll_report_count(const struct atoll_report *report, const char *tier);

/* Iterates over the tiers except the control: the one after `tier`, or the first if that is NULL. */
const char *atoll_report_next_tier(const struct atoll_report *report, const char *tier);

/* "holds", "found", "unknown", "not_offered". */
const char *atoll_verdict_name(enum atoll_verdict verdict);

/* {"findings", "trouble", "counts", "tiers": [{"tier", "counts", "checks": [...]}], "control": [...]}.
 * Owned by the caller; NULL without memory. */
json_t *atoll_report_json(const struct atoll_report *report) ATOLL_MUST_CHECK;
/* {"id", "row", "what", "advice"}. Owned by the caller; NULL without memory. */
json_t *atoll_check_json(const struct atoll_check *check) ATOLL_MUST_CHECK;
