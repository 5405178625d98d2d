#pragma once
#include "tools/verify/verify.h"

/*
 * Tables of promises: the checks that the probe makes (checks.c), and the checks that a tier does not
 * offer, with reasons (tiers.c). posture.c, residue.c, bombs.c, quotas.c, networks.c and attacks.c have the tables of
 * their own checks.
 */

/* Finds a check by its id; NULL if the table has no such id. */
const struct atoll_check *atoll_check_find(const struct atoll_check *checks, size_t count,
                                           const char *id);

/* Checks of the probe, which runs inside; the ids are those of probe/. */
extern const struct atoll_check atoll_probe_checks[];
extern const size_t atoll_probe_checks_count;

/* Checks of posture.h (seen from the host), residue.h, bombs.h, quotas.h and networks.h. */
extern const struct atoll_check atoll_posture_checks[];
extern const size_t atoll_posture_checks_count;
extern const struct atoll_check atoll_residue_checks[];
extern const size_t atoll_residue_checks_count;
extern const struct atoll_check atoll_bomb_checks[];
extern const size_t atoll_bomb_checks_count;
extern const struct atoll_check atoll_quota_checks[];
extern const size_t atoll_quota_checks_count;
extern const struct atoll_check atoll_network_checks[];
extern const size_t atoll_network_checks_count;

/* A promise that a kind of sandbox cannot give by design. */
struct atoll_not_offered {
    const char *isolation; /* "container", "gvisor"; "" for every tier */
    const char *user;      /* "root": only for root inside; "" for every user */
    bool rootless;         /* only if the daemon runs as an ordinary user */
    const char *id;
    const char *how; /* the expected evidence: a POSIX extended regular expression for all of it */
    const char *reason;
};
extern const struct atoll_not_offered atoll_not_offered[];
extern const size_t atoll_not_offered_count;

/* The properties of a sandbox on which promises depend. */
struct atoll_tier_kind {
    const char *isolation;
    const char *user; /* "user" or "root" */
    bool rootless;
};
/* Why a failed check with this evidence is not a finding for this kind; NULL if it is one. */
const char *atoll_not_offered_reason(const struct atoll_tier_kind *kind, const char *id,
                                     const char *evidence);
