#pragma once
#include "base/error.h"

/* Reads the table of downloads that never change (registry/downloads.yaml) as JSON for atoll-egress
 * (egress/cache_table.h); the caller frees *ret. INVALID_ARGUMENT names file and line. Blocking: reads the
 * file. */
int atoll_downloads_load(const char *path, char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
