#pragma once
#include "cli/request.h"

/*
 * Requests whose answer reports progress: lines {"progress": TEXT}, then one with the result or the error. On a
 * terminal the text is one line on stderr that is written anew, else one line each.
 */

/* label: before the text. *ret: the last line, owned by the caller. */
int atoll_cli_post_progress(struct atoll_cli *cli, const char *target, const json_t *request,
                            const char *label, bool quiet, json_t **ret,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
