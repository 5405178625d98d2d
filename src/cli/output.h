#pragma once
#include "cli/outcome.h"

/*
 * Reads the journal of a command: its output so far and, if it has ended, its terminal record.
 *
 * Reads outcome->exec_id of outcome->sandbox_id, starting at the offsets in outcome->seen. With `follow`
 * it waits until the command has ended, and reconnects if the daemon restarts. Sets outcome->result if
 * the command has ended. NOT_FOUND, UNAVAILABLE, DATA_LOSS, INTERNAL.
 */
int atoll_cli_output_read(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same, but writes only the last `lines` lines of the output so far; those that follow are written
 * as they come. */
int atoll_cli_output_tail(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, uint64_t lines,
                          bool follow, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Waits until the command has ended; its output is not written. */
int atoll_cli_output_wait(struct atoll_cli *cli, struct atoll_cli_outcome *outcome,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Copies the journal to standard output as the daemon sends it, one JSON object per line. Also sets
 * outcome->result. */
int atoll_cli_output_copy(struct atoll_cli *cli, struct atoll_cli_outcome *outcome, bool follow,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
