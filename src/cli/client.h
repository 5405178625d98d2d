#pragma once
#include "cli/cli.h"
#include "client/link.h"

/*
 * The connection to the daemon that verbs use. It wraps client/link.h: it connects on the first call,
 * and keeps the hint of the last error for main(). Every call blocks, up to the client's timeout.
 */
struct atoll_cli {
    const struct atoll_cli_verb *verb; /* the verb that is running */
    bool json;
    const char *ca_file;         /* borrowed; NULL: ATOLL_CA_FILE */
    struct atoll_client *client; /* owned; opened by the first call */
    int timeout_ms;              /* 0: the client's default */
    json_t *ids;                 /* owned: ids that were found by a prefix; NULL: none */
    char hint[512];              /* remedy for the last error; "": use the client's hint */
};

void atoll_cli_init(struct atoll_cli *cli);
void atoll_cli_done(struct atoll_cli *cli);
/* How long later requests wait for data from the daemon; -1 for no limit. */
void atoll_cli_set_timeout(struct atoll_cli *cli, int timeout_ms);
/* Sets cli->client, if it is not open yet. INVALID_ARGUMENT. */
int atoll_cli_open(struct atoll_cli *cli, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The remedy for the last error, or "". Borrowed. */
const char *atoll_cli_hint(const struct atoll_cli *cli);
/* Converts the error of a public libatoll function that returned r. Returns r. */
int atoll_cli_take_error(struct atoll_cli *cli, int r, const struct atoll_client_error *error,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Like atoll_link_call() and atoll_link_stream(), and open the client if needed. */
int atoll_cli_call(struct atoll_cli *cli, const char *method, const char *target, json_t *body,
                   json_t **ret_reply, struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_cli_stream(struct atoll_cli *cli, const char *method, const char *target,
                     const struct atoll_http_transfer *transfer, json_t **ret_reply,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* Writes a JSON value and a newline on standard output. INTERNAL. */
int atoll_cli_print_json(const json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;
