#pragma once
#include "tools/verify/inside.h"

/*
 * A complete verification: every tier of the daemon, then the control, then the daemon itself.
 */
#define ATOLL_TIERS_MAX 16
#define ATOLL_TIER_DAEMON "daemon"

/* A NULL list selects all. */
struct atoll_suite_options {
    const char *const *providers;
    size_t provider_count;
    const char *const *tiers; /* "native" includes "native, root inside"; "daemon" */
    size_t tier_count;
    void (*progress)(void *arg, const char *what); /* may be NULL */
    void *arg;
};

/* The report borrows from this, so it must stay valid as long as the report. */
struct atoll_suite {
    struct atoll_tier tiers[ATOLL_TIERS_MAX];
    size_t tier_count;
};

/* UNAVAILABLE if no daemon answers, NOT_FOUND for an unknown provider, tier or check. Other problems are
 * recorded as trouble in the report. */
int atoll_suite_run(struct atoll_suite *suite, const struct atoll_verify *v,
                    const struct atoll_suite_options *options,
                    struct atoll_error *err) ATOLL_MUST_CHECK;

/* All checks, and what tiers do not offer: {"checks": [{…, "by": "probe"}], "not_offered": […]}. "by" is
 * "probe", "host", "residue", "fork", "bomb", "quota" or "attack". Owned by the caller; NULL without memory. */
json_t *atoll_suite_list(void) ATOLL_MUST_CHECK;

/* Removes a scratch directory with everything that attacks left in it. */
void atoll_suite_remove(const char *directory);
