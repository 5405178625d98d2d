#pragma once
#include "client/link.h"

/*
 * Request bodies. Options that the caller did not set are omitted: the daemon has the defaults.
 * All functions add members to *request. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
 */
int atoll_compose_sandbox(json_t *request, const struct atoll_client_sandbox_options *options,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Without the members for standard input and terminal. */
int atoll_compose_command(json_t *request, const struct atoll_client_command *command,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds "NAME=VALUE" items (up to a NULL) to the object `key`; the last item of a name wins. */
int atoll_compose_pairs(json_t *request, const char *key, const char *const *items,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds nothing if text is NULL. */
int atoll_compose_text(json_t *request, const char *key, const char *text,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Adds nothing if value is 0. Whole numbers are written as integers: 30, not 30.0. -1 without memory. */
int atoll_compose_number(json_t *request, const char *key, double value) ATOLL_MUST_CHECK;
