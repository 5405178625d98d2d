#pragma once
#include "cli/client.h"

/*
 * Items of lists as the user wants them: "{{.ID}} {{.State}}", with the members of the item by name, or
 * "json". Names are compared without regard to case and "_"; "Limits.memoryMB" is a member of a member.
 */

/* Prints one line; a member that the item does not have is empty. INVALID_ARGUMENT. */
int atoll_cli_format(const char *format, const json_t *item,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* Whether the item fits all filters: "state=running", "label=K", "label=K=V", "id=PREFIX", or another member
 * with its value. Filters by the same member are alternatives, except labels. */
bool atoll_cli_filter(const struct atoll_cli_list *filters, const json_t *item);
/* INVALID_ARGUMENT unless each is K=V. */
int atoll_cli_filter_check(const struct atoll_cli_list *filters,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
