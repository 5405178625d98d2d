#pragma once
#include "loop/loop.h"
#include "provider/provider.h"

/*
 * What stands between the engine and every provider: calls that failed for the moment are made
 * again, what a provider cannot do is refused in words, and all of it is counted and logged.
 * Everything that is asked may be asked twice, create() with the same id included.
 *
 * Thread: the loop's, as in provider.h.
 */
#define ATOLL_CHECKED_MEMBERS 32
#define ATOLL_CHECKED_TRIES 4

/* Those among whom somebody may be able to do what another cannot. The caller's storage, zeroed;
 * outlives its members. */
struct atoll_checked_group {
    struct atoll_provider *members[ATOLL_CHECKED_MEMBERS]; /* wrapped ones, borrowed */
    size_t count;
    int64_t first_delay_ms; /* before the second try; doubles. 0: 100 */
};

/* Takes over p, also on failure. name: what it is called from here on, since there may be several of a
 * kind; NULL: as it calls itself. RESOURCE_EXHAUSTED when the group is full. */
int atoll_checked_wrap(struct atoll_loop *loop, struct atoll_checked_group *group, const char *name,
                       struct atoll_provider *p, struct atoll_provider **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether trying again may help. */
bool atoll_error_is_transient(const struct atoll_error *error);
/* How long to wait after try number `tries` (from 1), or -1: that was the last. spent_ms: since the
 * first; budget_ms: how long to go on beginning tries; random: any number. Pure. */
int64_t atoll_checked_delay_ms(unsigned tries, const struct atoll_error *error, int64_t first_ms,
                               int64_t spent_ms, int64_t budget_ms, uint32_t random);
