#pragma once
#include "base/defs.h"

/*
 * Bounds what a sandbox can tell a name server by the names it asks for (DNS tunnels). Names that an allow
 * rule of the policy names are not counted. Pure: the caller gives the time (CLOCK_MONOTONIC).
 */
#define ATOLL_DNS_WINDOW_MS 10000
/* In a policy that denies by default, for names that only a rule for addresses may allow: */
#define ATOLL_DNS_GUARD_LABEL 40  /* longest label */
#define ATOLL_DNS_GUARD_NAME 100  /* longest name */
#define ATOLL_DNS_GUARD_NARROW 20 /* different names below one registered domain in a window */
/* In a policy that allows such names: any server can be connected to, so this guards the resolver. */
#define ATOLL_DNS_GUARD_OPEN 200
#define ATOLL_DNS_GUARD_ALL 512      /* different names in a window */
#define ATOLL_DNS_GUARD_FORWARDS 200 /* questions for other types than addresses in a window */

struct atoll_dns_seen;

struct atoll_dns_guard {
    uint64_t seed; /* of the hashes: the sandbox cannot choose collisions */
    struct atoll_dns_seen
        *seen; /* owned; a ring of ATOLL_DNS_GUARD_ALL names, NULL before the first */
    size_t first, count;
    int64_t forwards_since_ms;
    unsigned forwards;
};

void atoll_dns_guard_init(struct atoll_dns_guard *guard);
void atoll_dns_guard_done(struct atoll_dns_guard *guard);

/* Whether the name may be asked for now. is_open: the policy allows names by default. */
bool atoll_dns_guard_admit(struct atoll_dns_guard *guard, const char *name, bool is_open,
                           int64_t now_ms);
/* Whether a name server may be asked directly now. */
bool atoll_dns_guard_forward(struct atoll_dns_guard *guard, int64_t now_ms);

/* The part of a name that its owner registered, as far as its form tells: two labels, or three below a
 * short second-level domain of a country ("example.co.uk"). */
const char *atoll_dns_registered_domain(const char *name);
