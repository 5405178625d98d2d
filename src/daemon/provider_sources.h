#pragma once
#include "daemon/provider_kinds.h"

/* Reads providers.yaml at `path`: {"placement": …, "providers": {NAME: SETTINGS}}, where each has
 * "@kind" and "@line". Without a file there are no providers in it. INVALID_ARGUMENT names file
 * and line. Blocking: reads files. */
int atoll_provider_sources_load(const struct atoll_daemon_place *place, const char *path,
                                json_t **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
