#pragma once
#include "base/defs.h"

/*
 * Retention of snapshots: the operator's bounds by age and by count, for all tenants and for single ones.
 * The oldest snapshots beyond a bound that no sandbox uses are removed; see state.h.
 */

#define ATOLL_RETENTION_MAX 100000

/* Reads "N,TENANT=N ...": ret receives the number of the tenant, or else the general one; 0 without either.
 * -EINVAL: not such a list. */
int atoll_retention(const char *text, const char *tenant, uint32_t *ret) ATOLL_MUST_CHECK;
