#pragma once
#include "tools/verify/inside.h"

/*
 * The whole of a verification: every tier the daemon has, then the control, then the daemon itself.
 */
#define ATOLL_TIERS_MAX 16
#define ATOLL_TIER_DAEMON "daemon"

/* Lists may be NULL: all. */
struct atoll_suite_options {
    const char *const *providers;
    size_t provider_count;
    const char *const *tiers; /* "native" is also "native, root inside"; "daemon" */
    size_t tier_count;
    void (*progress)(void *arg, const char *what); /* may be NULL */
    void *arg;
};

/* Holds what the report borrows, so it must live as long. */
struct atoll_suite {
    struct atoll_tier tiers[ATOLL_TIERS_MAX];
    size_t tier_count;
};

/* UNAVAILABLE when there is no daemon (any more), NOT_FOUND for a provider, tier or check that is not
 * there; what else could not be done is trouble of the report. */
int atoll_suite_run(struct atoll_suite *suite, const struct atoll_verify *v,
                    const struct atoll_suite_options *options,
                    struct atoll_error *err) ATOLL_MUST_CHECK;

/* Every check there is, and what tiers do not offer: {"checks": [{…, "by": "probe"}], "not_offered": […]}.
 * "by" is also "host", "residue", "bomb", "quota" and "attack". The caller's; NULL when out of memory. */
json_t *atoll_suite_list(void) ATOLL_MUST_CHECK;

/* Removes a directory of ours, whatever an attack left in it. */
void atoll_suite_remove(const char *directory);
