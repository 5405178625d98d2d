#pragma once
#include "base/error.h"
#include "base/map.h"
#include "proto/msg.h"

/*
 * Secrets of tenants, in memory only: {"NAME": "value"} for each tenant. Freed values are overwritten.
 */

/* Replaces the secrets of a tenant. INVALID_ARGUMENT. */
int atoll_secrets_set(struct atoll_map *secrets, const char *tenant, const struct atoll_bytes *json,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
/* Borrowed until the next set; NULL: absent. */
const char *atoll_secrets_get(const struct atoll_map *secrets, const char *tenant,
                              const char *name);
void atoll_secrets_done(struct atoll_map *secrets);
