#pragma once
#include "base/map.h"

/*
 * Who has how much of something that all share: tenants, addresses. While the whole is not used up
 * anybody gets more. After that only those do who have less than their part, which is the same for
 * all that have any: so nobody is turned away because of what others took. All of them together have
 * at most max * (1 + 1/2 + … + 1/n).
 *
 * Adding aborts where there is no memory.
 */
#define ATOLL_SHARE_NAME_MAX 65

struct atoll_shares {
    size_t max;
    size_t used;              /* by all of them */
    struct atoll_map by_name; /* of struct share, owned: those that have any */
};

void atoll_shares_init(struct atoll_shares *shares, size_t max);
void atoll_shares_done(struct atoll_shares *shares);

/* Whether `name` may have n more. */
bool atoll_shares_fits(const struct atoll_shares *shares, const char *name, size_t n);
void atoll_shares_add(struct atoll_shares *shares, const char *name, size_t n);
/* Whether `name` has no less than they have on average. While any has something, one of them does. */
bool atoll_shares_is_large(const struct atoll_shares *shares, const char *name);
/* Of what was added. */
void atoll_shares_drop(struct atoll_shares *shares, const char *name, size_t n);
