#pragma once
#include "cli/outcome.h"

/*
 * One attached command: the user's standard input, output and signals on one side, a WebSocket of
 * the daemon on the other. One thread, one poll loop, bounded buffers: input is read only as fast
 * as the daemon takes it, and nothing is received while output cannot be written.
 */
struct atoll_cli_session_plan {
    const char *target; /* the WebSocket to open */
    json_t *request;    /* the first message; "stdin" and "pty" are added here */
    bool interactive;   /* pass standard input on even when it is a terminal */
    bool pty;
    bool owns_sandbox; /* giving up destroys the sandbox, rather than just the command */
};

/*
 * Runs until the command has ended: 0 and outcome->result is set. When the user gives up (a second
 * Ctrl-C): the exit status to leave with, above 0. outcome->sandbox_id must be filled unless the
 * daemon is to choose one. The daemon's refusals, UNAVAILABLE, DATA_LOSS, INTERNAL.
 */
int atoll_cli_session_run(struct atoll_cli *cli, const struct atoll_cli_session_plan *plan,
                          struct atoll_cli_outcome *outcome,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* All of it for a command in a sandbox that exists: runs it, reports, returns the exit status. */
int atoll_cli_session_attach(struct atoll_cli *cli, const char *sandbox, json_t *request,
                             bool interactive, bool pty, struct atoll_error *err) ATOLL_MUST_CHECK;
