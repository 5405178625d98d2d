#pragma once
#include "cli/outcome.h"

/*
 * The journal of a command: what it has written so far and, if it has ended, how.
 *
 * Reads outcome->exec_id of outcome->sandbox_id from the offsets in outcome->seen on. With `follow`
 * it stays until the command has ended, and survives restarts of the daemon. outcome->result is set
 * when the command has ended. NOT_FOUND, UNAVAILABLE, DATA_LOSS, INTERNAL.
 */
int atoll_cli_output_read(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same lines as the daemon sends them: one JSON object each. outcome->result is set as well. */
int atoll_cli_output_copy(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
