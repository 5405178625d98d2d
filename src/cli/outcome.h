#pragma once
#include "cli/client.h"

/*
 * State of one command in a sandbox: the output received, and how it ended. The terminal record always
 * comes from the daemon, never from the CLI; it decides the exit status.
 */

struct atoll_cli_outcome {
    char sandbox_id[ATOLL_LINK_ID_MAX], exec_id[ATOLL_LINK_ID_MAX];
    bool capture;                                    /* for --json: keep output, do not write it */
    struct atoll_buf captured[ATOLL_CLIENT_STREAMS]; /* 0 is not used */
    bool truncated[ATOLL_CLIENT_STREAMS];
    uint64_t
        seen[ATOLL_CLIENT_STREAMS];    /* bytes received: where to resume after a lost connection */
    bool closed[ATOLL_CLIENT_STREAMS]; /* our output pipe has no reader any more */
    json_t *result;                    /* owned; NULL until the command has ended */
    int signal_sent;                   /* last signal forwarded for the user, 0 for none */
};

void atoll_cli_outcome_init(struct atoll_cli_outcome *outcome, bool capture);
void atoll_cli_outcome_done(struct atoll_cli_outcome *outcome);

/* Captures output, or writes it to the descriptor `stream`. If that pipe has no reader any more, drops
 * the output and sets `closed`. INTERNAL. */
int atoll_cli_outcome_output(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                             size_t n, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Counts the bytes, and captures them if `capture` is set. False: the caller has to write them. */
bool atoll_cli_outcome_take(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                            size_t n);

/* Records that the daemon dropped bytes; tells the user, unless `quiet` or capturing. */
void atoll_cli_outcome_gap(struct atoll_cli_outcome *outcome, int stream, uint64_t from,
                           uint64_t to, bool quiet);

/* Explains on standard error how the command ended, unless it simply exited. With --json prints the
 * whole outcome on standard output. Returns the exit status, which is not 0 if output is missing.
 * Needs outcome->result. */
int atoll_cli_outcome_report(const struct atoll_cli_outcome *outcome,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
