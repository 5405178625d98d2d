#pragma once
#include "tools/verify/verify.h"

/*
 * What is promised of every sandbox, as tables: the checks of the probe (checks.c) and which of all
 * checks a tier does not offer, and why (tiers.c). Other files have the tables of what they look at
 * themselves: posture.c, residue.c, bombs.c, quotas.c, attacks.c.
 */

/* How a check is found in a table by its id; NULL when it is not there. */
const struct atoll_check *atoll_check_find(const struct atoll_check *checks, size_t count,
                                           const char *id);

/* What the probe tries from inside; ids are those of src/verify/probe/. */
extern const struct atoll_check atoll_probe_checks[];
extern const size_t atoll_probe_checks_count;

/* Seen from the host: posture.h. Left behind: residue.h. Exhausted: bombs.h. Shared: quotas.h. */
extern const struct atoll_check atoll_posture_checks[];
extern const size_t atoll_posture_checks_count;
extern const struct atoll_check atoll_residue_checks[];
extern const size_t atoll_residue_checks_count;
extern const struct atoll_check atoll_bomb_checks[];
extern const size_t atoll_bomb_checks_count;
extern const struct atoll_check atoll_quota_checks[];
extern const size_t atoll_quota_checks_count;

/* What a tier does not give, by its nature. */
struct atoll_not_offered {
    const char *isolation; /* "container", "gvisor"; "" for every tier */
    const char *user;      /* "root": only there; "" for every user */
    bool rootless;         /* only where the daemon is an ordinary user's */
    const char *id;
    const char *how; /* its evidence then: a regular expression (POSIX extended) for all of it */
    const char *reason;
};
extern const struct atoll_not_offered atoll_not_offered[];
extern const size_t atoll_not_offered_count;

/* Where a sandbox comes from, as far as promises depend on it. */
struct atoll_tier_kind {
    const char *isolation;
    const char *user; /* "user" or "root" */
    bool rootless;
};
/* Why it is no finding there that a check does not hold in this way; NULL when it is one. */
const char *atoll_not_offered_reason(const struct atoll_tier_kind *kind, const char *id,
                                     const char *evidence);
