#pragma once
#include "tools/verify/verify.h"

/*
 * What a verification has found: results by tier, in the order they came, and what they come to.
 * A result of tier ATOLL_TIER_CONTROL says whether the same attempt succeeds outside of any sandbox:
 * FOUND there is what makes HOLDS elsewhere a proof. Memory that runs out is remembered as trouble,
 * so adding never fails.
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

/* Something that should have been looked at could not be: what, and why. At most a few dozen of these
 * are kept; the first word of the report is theirs, since silence is no proof. */
void atoll_report_trouble(struct atoll_report *report, const char *fmt, ...) ATOLL_PRINTF(2, 3);
/* The i-th, or NULL. */
const char *atoll_report_trouble_at(const struct atoll_report *report, size_t i);

/* Results of a tier from index `from` on become UNKNOWN, because of why: neither a finding nor a proof. */
void atoll_report_doubt(struct atoll_report *report, const char *tier, size_t from,
                        const char *why);

size_t atoll_report_size(const struct atoll_report *report);
const struct atoll_result *atoll_report_at(const struct atoll_report *report, size_t i);
/* NULL when there is none. */
const struct atoll_result *atoll_report_find(const struct atoll_report *report, const char *tier,
                                             const char *id);

/* What a result comes to: HOLDS where the control is refused too, or was not made, is UNKNOWN. */
enum atoll_verdict atoll_report_conclude(const struct atoll_report *report,
                                         const struct atoll_result *result);
/* Of one tier, or of all but the control when tier is NULL; as concluded. */
struct atoll_report_counts atoll_report_count(const struct atoll_report *report, const char *tier);

/* The tiers without the control, in order: the name after `tier`, or the first for NULL. */
const char *atoll_report_next_tier(const struct atoll_report *report, const char *tier);

/* "holds", "found", "unknown", "not_offered". */
const char *atoll_verdict_name(enum atoll_verdict verdict);

/* {"findings", "trouble", "counts", "tiers": [{"tier", "counts", "checks": [...]}], "control": [...]}. The
 * caller's; NULL when out of memory. */
json_t *atoll_report_json(const struct atoll_report *report) ATOLL_MUST_CHECK;
/* A check as objects of a list show it: {"id", "row", "what", "advice"}. */
json_t *atoll_check_json(const struct atoll_check *check) ATOLL_MUST_CHECK;
