#pragma once
#include "daemon/provider_kinds.h"

#define ATOLL_SOURCE_FILE "file"
#define ATOLL_SOURCE_DEFAULT "default"

/* Reads providers.yaml at `path`: {"placement": …, "providers": {NAME: SETTINGS}}, where each has
 * "@kind", "@source" and, if it is in the file, "@line". Adds the providers of which the
 * environment has the credentials, or which answer on this host, if the file does not name them.
 * INVALID_ARGUMENT names file and line. Blocking: reads files, asks Docker for up to half a
 * second. */
int atoll_provider_sources_load(const struct atoll_daemon_place *place, const char *path,
                                json_t **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
