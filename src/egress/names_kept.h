#pragma once
#include <netinet/in.h>
#include "base/defs.h"

/*
 * Names that DNS told sandboxes, for the next worker: a ring in memory that the supervisor shares with its
 * workers. A program that holds an address goes on when a worker dies. The newest pairs of all sandboxes
 * are kept; what a worker was writing when it died is left out. Times are of CLOCK_MONOTONIC.
 */
struct atoll_names_kept;

#define ATOLL_NAMES_KEPT 8192 /* pairs, about 350 bytes each once they are used */

/* The supervisor's. NULL without memory: then nothing is kept. */
struct atoll_names_kept *atoll_names_kept_new(void);
/* A worker begins: what is there now is of earlier ones. Accepts NULL. */
void atoll_names_kept_begin(struct atoll_names_kept *kept, int64_t now_ms);

/* Accepts NULL. */
void atoll_names_kept_add(struct atoll_names_kept *kept, const char *id, const char *name,
                          const struct in6_addr *address, int64_t expires_ms);
/* Calls fn for each pair of a sandbox that earlier workers have left, oldest first. Accepts NULL. */
void atoll_names_kept_each(const struct atoll_names_kept *kept, const char *id, int64_t now_ms,
                           void (*fn)(void *arg, const char *name, const struct in6_addr *address),
                           void *arg);
