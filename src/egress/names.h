#pragma once
#include <netinet/in.h>
#include "base/defs.h"

/*
 * What DNS told one sandbox: which names an address had. Connections follow rules for domains by it.
 * At most ATOLL_NAMES_MAX pairs of a name and an address; the oldest is forgotten for a new one.
 * Times are of CLOCK_MONOTONIC, in milliseconds.
 */
struct atoll_names;
struct atoll_names_kept;

#define ATOLL_NAMES_MAX 4096
/* An answer counts for at least this long: programs use addresses beyond their TTL. */
#define ATOLL_NAMES_KEPT_MS (300 * 1000)

/* Pairs of this sandbox that an earlier worker kept are known; new ones are kept (names_kept.h; NULL: they
 * are not). Aborts without memory. Nothing is allocated for pairs before the first. */
struct atoll_names *atoll_names_new(struct atoll_names_kept *kept, const char *id, int64_t now_ms);
struct atoll_names *atoll_names_free(struct atoll_names *names);

/* Remembers that the name had this address, for ttl_ms or ATOLL_NAMES_KEPT_MS, whichever is longer. The
 * name is lower case. -ENOMEM. */
int atoll_names_add(struct atoll_names *names, const char *name, const struct in6_addr *address,
                    int64_t ttl_ms, int64_t now_ms) ATOLL_MUST_CHECK;

/* Whether the address was an answer for this name. */
bool atoll_names_has(const struct atoll_names *names, const char *name,
                     const struct in6_addr *address, int64_t now_ms);
/* The names of an address, the newest first: stores up to cap of them, borrowed until the callback
 * returns, and returns how many. */
size_t atoll_names_find(const struct atoll_names *names, const struct in6_addr *address,
                        int64_t now_ms, const char **ret, size_t cap);
