#pragma once
#include "loop/loop.h"
#include "provider/provider.h"

/*
 * A layer between the engine and every provider. It retries operations that failed with a transient
 * error, refuses operations that the provider does not have with an error text, and counts and logs
 * all of them. Every operation may therefore be called twice, create() with the same id included.
 *
 * Thread: the loop's, as in provider.h.
 */
#define ATOLL_CHECKED_MEMBERS 32
#define ATOLL_CHECKED_TRIES 4

/* The providers that refusals may suggest instead ("native can"). The caller's storage, zeroed;
 * it outlives its members. */
struct atoll_checked_group {
    struct atoll_provider *members[ATOLL_CHECKED_MEMBERS]; /* the wrapped providers, borrowed */
    size_t count;
    /* Delay before the first retry, doubled for each further one; 0: 100 ms. */
    int64_t first_delay_ms;
};

/* Takes ownership of p, also on failure. name: the provider's name from here on, since there may
 * be several of a kind; NULL: the one in its ops. RESOURCE_EXHAUSTED if the group is full. */
int atoll_checked_wrap(struct atoll_loop *loop, struct atoll_checked_group *group, const char *name,
                       struct atoll_provider *p, struct atoll_provider **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether a retry may succeed. */
bool atoll_error_is_transient(const struct atoll_error *error);
/* The delay after try number `tries` (from 1), or -1 for no further try. spent_ms: time since
 * the first try; budget_ms: no try starts later than this; random: any number. Pure. */
int64_t atoll_checked_delay_ms(unsigned tries, const struct atoll_error *error, int64_t first_ms,
                               int64_t spent_ms, int64_t budget_ms, uint32_t random);
