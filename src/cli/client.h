#pragma once
#include <jansson.h>
#include "cli/cli.h"
#include "net/http_client.h"

/*
 * The daemon as the verbs see it: where it is, one call per request, errors in its own words.
 *
 * It is found by ATOLL_SOCKET, else ATOLL_URL with ATOLL_API_KEY, else the usual socket: that of
 * the system for root, that of the user otherwise.
 * Blocking: every call, up to the client's timeout.
 */
struct atoll_cli {
    bool json;
    char where[512];                  /* "" until it has been looked up */
    struct atoll_http_client *client; /* owned; opened by the first call */
    char authorization[512];          /* "Bearer KEY", or "" */
    int timeout_ms;                   /* 0: the client's own */
    char hint[400];                   /* what to do about the last error, or "" */
};

void atoll_cli_init(struct atoll_cli *cli);
void atoll_cli_done(struct atoll_cli *cli);
/* The longest silence of the daemon during a request from now on; -1 for no limit. */
void atoll_cli_set_timeout(struct atoll_cli *cli, int timeout_ms);

/* Most bytes of a JSON reply, and of one WebSocket message. */
#define ATOLL_CLI_REPLY_MAX (64u * 1024 * 1024)

/* A request target. Every %s of the format (nothing else is understood) is percent-encoded. */
struct atoll_cli_target {
    char text[8192];
};
/* INVALID_ARGUMENT when it grows too long. */
int atoll_cli_target(struct atoll_cli_target *ret, struct atoll_error *err, const char *fmt, ...)
    ATOLL_PRINTF(3, 4) ATOLL_MUST_CHECK;

/* One request with an optional JSON body. *ret_reply (which may be NULL) is the caller's; it is
 * JSON null when the reply has no body. The daemon's errors keep their kind and text. */
int atoll_cli_call(struct atoll_cli *cli, const char *method, const char *target, json_t *body,
                   json_t **ret_reply, struct atoll_error *err) ATOLL_MUST_CHECK;

/* A request whose body or reply comes in pieces; otherwise the same. With a write callback in
 * *transfer there is no JSON to return. */
int atoll_cli_stream(struct atoll_cli *cli, const char *method, const char *target,
                     const struct atoll_http_transfer *transfer, json_t **ret_reply,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_cli_websocket(struct atoll_cli *cli, const char *target, struct atoll_wsc **ret_ws,
                        struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fills *err, and cli->hint, from the "error" member of a message of the daemon. */
int atoll_cli_daemon_error(struct atoll_cli *cli, const json_t *message, int status,
                           struct atoll_error *err);

/* INVALID_ARGUMENT unless the text can be an id of a sandbox or exec ("what"). */
int atoll_cli_check_id(const char *what, const char *id, struct atoll_error *err) ATOLL_MUST_CHECK;

/* NULL when it is no JSON. The caller's. */
json_t *atoll_cli_parse_json(const void *bytes, size_t n);

/* Members of objects, with what to take when they are absent or of another type. */
const char *atoll_cli_text(const json_t *object, const char *key, const char *otherwise);
double atoll_cli_number(const json_t *object, const char *key, double otherwise);

/* Writes a JSON value and a newline on standard output. INTERNAL. */
int atoll_cli_print_json(const json_t *value, struct atoll_error *err) ATOLL_MUST_CHECK;

static inline void atoll_cli_auto_decref(json_t **value)
{
    json_decref(*value);
}
#define ATOLL_CLI_AUTOJSON ATOLL_CLEANUP(atoll_cli_auto_decref)
