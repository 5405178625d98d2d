#pragma once
#include "cli/client.h"

/*
 * What the CLI knows of one command in a sandbox: how much it has written, and how it ended.
 * The terminal record comes from the daemon and is never made up here; it decides the exit status.
 */

/* Streams by the numbers of their descriptors and WebSocket channels. */
enum { ATOLL_CLI_STDOUT = 1, ATOLL_CLI_STDERR = 2, ATOLL_CLI_STREAMS = 3 };

struct atoll_cli_outcome {
    char sandbox_id[40], exec_id[40];
    bool capture;                                 /* for --json: keep output, write none */
    struct atoll_buf captured[ATOLL_CLI_STREAMS]; /* 0 is not used */
    bool truncated[ATOLL_CLI_STREAMS];
    uint64_t seen[ATOLL_CLI_STREAMS]; /* bytes received: where to go on after a lost connection */
    bool closed[ATOLL_CLI_STREAMS];   /* nobody reads what we would write there */
    json_t *result;                   /* owned; NULL until it has ended */
    int signal_sent;                  /* the last one passed on for the user, 0 for none */
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

/* Notes what the daemon says was dropped ({"stream","from","to"}, or NULL for nothing) and, unless
 * `quiet` or capturing, tells the user. */
void atoll_cli_outcome_gap(struct atoll_cli_outcome *outcome, const json_t *gap, bool quiet);
/* "stdout" and "stderr" as a number, 0 for any other text. */
int atoll_cli_stream_number(const char *name);

/* The exit status that a terminal record means. */
int atoll_cli_status_of(const json_t *result);
/* The number in a record or signal name ("SIGTERM", 15), 0 when there is none. */
int atoll_cli_signal_number(const json_t *value);
/* "SIGTERM", "SIGRTMIN+1"; out holds ATOLL_CLI_SIGNAL_MAX bytes. */
#define ATOLL_CLI_SIGNAL_MAX 24
const char *atoll_cli_signal_name(int signo, char *out);

/* Says on standard error how it ended when that was not by exiting, with --json prints the whole
 * outcome on standard output, and returns the exit status. Needs outcome->result. */
int atoll_cli_outcome_report(const struct atoll_cli_outcome *outcome,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
