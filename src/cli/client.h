#pragma once
#include "cli/cli.h"
#include "client/link.h"

/*
 * The daemon as the verbs see it. Requests are libatoll's (client/link.h); here is what the command
 * line adds: it is found when first needed, and what to do about an error is kept for main().
 * Blocking: every call, up to the client's timeout.
 */
struct atoll_cli {
    const struct atoll_cli_verb *verb; /* that runs */
    bool json;
    const char *ca_file;         /* borrowed; NULL: by the environment */
    struct atoll_client *client; /* owned; opened by the first call */
    int timeout_ms;              /* 0: the client's own */
    char hint[512];              /* what to do about the last error, or "": the client knows */
};

void atoll_cli_init(struct atoll_cli *cli);
void atoll_cli_done(struct atoll_cli *cli);
/* The longest silence of the daemon during a request from now on; -1 for no limit. */
void atoll_cli_set_timeout(struct atoll_cli *cli, int timeout_ms);
/* Opens the client, if it is not open yet; then cli->client is it. INVALID_ARGUMENT. */
int atoll_cli_open(struct atoll_cli *cli, struct atoll_error *err) ATOLL_MUST_CHECK;
/* What to do about the last error, or "". */
const char *atoll_cli_hint(const struct atoll_cli *cli);
/* What a public function of libatoll failed with, as one of ours. Returns r. */
int atoll_cli_take_error(struct atoll_cli *cli, int r, const struct atoll_client_error *error,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* As the functions of client/link.h. */
int atoll_cli_call(struct atoll_cli *cli, const char *method, const char *target, json_t *body,
                   json_t **ret_reply, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_cli_stream(struct atoll_cli *cli, const char *method, const char *target,
                     const struct atoll_http_transfer *transfer, json_t **ret_reply,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* Writes a JSON value and a newline on standard output. INTERNAL. */
int atoll_cli_print_json(const json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;
