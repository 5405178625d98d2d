#pragma once
#include "base/map.h"

/*
 * Fair shares of a common limit, by name (a tenant, an address). While the total is below max, every
 * name may take more. Beyond that a name may take more only up to its share, max divided by the number
 * of names that hold any: so a heavy user cannot lock out the others. The total is at most
 * max * (1 + 1/2 + … + 1/n) for n names.
 *
 * Adding aborts without memory.
 */
#define ATOLL_SHARE_NAME_MAX 65

struct atoll_shares {
    size_t max;
    size_t used;              /* total of all names */
    struct atoll_map by_name; /* of struct share, owned: names that hold any */
};

void atoll_shares_init(struct atoll_shares *shares, size_t max);
void atoll_shares_done(struct atoll_shares *shares);

/* Whether `name` may take n more. */
bool atoll_shares_fits(const struct atoll_shares *shares, const char *name, size_t n);
void atoll_shares_add(struct atoll_shares *shares, const char *name, size_t n);
/* Whether `name` holds at least the average of all names. If any name holds something, at least one is
 * large. */
bool atoll_shares_is_large(const struct atoll_shares *shares, const char *name);
/* Gives back n of what `name` holds. */
void atoll_shares_drop(struct atoll_shares *shares, const char *name, size_t n);
