#pragma once
#include "client/link.h"

/*
 * The bodies of requests. What the caller did not say is left out: the daemon has the defaults.
 * All add members to *request. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
 */
int atoll_compose_sandbox(json_t *request, const struct atoll_client_sandbox_options *options,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Without what concerns standard input and terminal. */
int atoll_compose_command(json_t *request, const struct atoll_client_command *command,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* To the object `key`, from "NAME=VALUE" items up to a NULL; the last of a name counts. */
int atoll_compose_pairs(json_t *request, const char *key, const char *const *items,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Nothing when text is NULL. */
int atoll_compose_text(json_t *request, const char *key, const char *text,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Nothing when value is 0. Whole numbers stay whole: 30, not 30.0. -1 without memory. */
int atoll_compose_number(json_t *request, const char *key, double value) ATOLL_MUST_CHECK;
