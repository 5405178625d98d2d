#pragma once
#include "cli/client.h"

/*
 * What the CLI knows of one command in a sandbox: how much it has written, and how it ended.
 * The terminal record comes from the daemon and is never made up here; it decides the exit status.
 */

struct atoll_cli_outcome {
    char sandbox_id[40], exec_id[40];
    bool capture;                                    /* for --json: keep output, write none */
    struct atoll_buf captured[ATOLL_CLIENT_STREAMS]; /* 0 is not used */
    bool truncated[ATOLL_CLIENT_STREAMS];
    uint64_t
        seen[ATOLL_CLIENT_STREAMS];    /* bytes received: where to go on after a lost connection */
    bool closed[ATOLL_CLIENT_STREAMS]; /* nobody reads what we would write there */
    json_t *result;                    /* owned; NULL until it has ended */
    int signal_sent;                   /* the last one passed on for the user, 0 for none */
};

void atoll_cli_outcome_init(struct atoll_cli_outcome *outcome, bool capture);
void atoll_cli_outcome_done(struct atoll_cli_outcome *outcome);

/* Takes output over: captures it, or writes it to the descriptor of that number. Output nobody can
 * read any more is dropped and noted in `closed`. INTERNAL. */
int atoll_cli_outcome_output(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                             size_t n, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Only the first half: counts, and captures where asked. False: the caller has to write it. */
bool atoll_cli_outcome_take(struct atoll_cli_outcome *outcome, int stream, const void *bytes,
                            size_t n);

/* Notes that bytes were dropped by the daemon and, unless `quiet` or capturing, tells the user. */
void atoll_cli_outcome_gap(struct atoll_cli_outcome *outcome, int stream, uint64_t from,
                           uint64_t to, bool quiet);

/* Says on standard error how it ended when that was not by exiting, with --json prints the whole
 * outcome on standard output, and returns the exit status, which is not 0 where output is missing.
 * Needs outcome->result. */
int atoll_cli_outcome_report(const struct atoll_cli_outcome *outcome,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
