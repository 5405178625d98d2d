#pragma once
#include "cli/outcome.h"

/*
 * One attached command: connects the user's standard input, output and signals with a WebSocket of the
 * daemon. One thread, one poll loop, bounded buffers: input is read only as fast as the daemon accepts
 * it, and nothing is received while output cannot be written.
 */
struct atoll_cli_session_plan {
    const char *target; /* the WebSocket to open */
    json_t *request;    /* the first message; borrowed; "stdin" and "pty" are added to it */
    bool interactive;   /* forward standard input even if it is a terminal */
    bool pty;
    bool owns_sandbox; /* giving up destroys the sandbox; else it kills the command */
    /* The command runs already and continues without us: signals and a closed output end only this
     * program, and the end of standard input is not the end of the command's. In a terminal, Ctrl-P
     * Ctrl-Q leaves it. */
    bool visits;
};

/* Whether standard input is /dev/null or closed, so that a command needs no input pipe. */
bool atoll_cli_stdin_is_null(void);

/*
 * Blocks until the command has ended; then returns 0 and sets outcome->result. If the user gives up (a
 * second Ctrl-C), returns the exit status to use, above 0. The caller sets outcome->sandbox_id, unless
 * the request creates a sandbox. Errors: the daemon's refusals, UNAVAILABLE, DATA_LOSS, INTERNAL.
 */
int atoll_cli_session_run(struct atoll_cli *cli, const struct atoll_cli_session_plan *plan,
                          struct atoll_cli_outcome *outcome,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* Runs a command in an existing sandbox, reports its outcome and returns the exit status. */
int atoll_cli_session_attach(struct atoll_cli *cli, const char *sandbox, json_t *request,
                             bool interactive, bool pty, struct atoll_error *err) ATOLL_MUST_CHECK;
