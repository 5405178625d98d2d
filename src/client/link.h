#pragma once
#include <atoll/atoll.h>
#include <jansson.h>
#include "net/http_client.h"

/*
 * The daemon as libatoll and the CLI see it: where it is, one call per request with JSON on both
 * sides, errors in the daemon's own words. The public functions of atoll/atoll.h are made of these.
 *
 * Blocking: every call, up to the client's timeout.
 */

/* Most bytes of a JSON reply, and of one WebSocket message. */
#define ATOLL_LINK_REPLY_MAX (64u * 1024 * 1024)

/* As atoll_client_open(). options may be NULL. */
int atoll_link_open(const struct atoll_client_options *options, struct atoll_client **ret_client,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_link_timeout(const struct atoll_client *client);
/* The value of the header Authorization that it sends, or "". */
const char *atoll_link_authorization(const struct atoll_client *client);
/* What to do about the last error, or "". The caller may clear it. */
char *atoll_link_hint(struct atoll_client *client);

/* A request target. Every %s of the format (nothing else is understood) is percent-encoded. */
struct atoll_link_target {
    char text[8192];
};
/* INVALID_ARGUMENT when it grows too long. */
int atoll_link_target(struct atoll_link_target *ret, struct atoll_error *err, const char *fmt, ...)
    ATOLL_PRINTF(3, 4) ATOLL_MUST_CHECK;

/* One request with an optional JSON body. *ret_reply (which may be NULL) is the caller's; it is
 * JSON null when the reply has no body. The daemon's errors keep their kind and text. */
int atoll_link_call(struct atoll_client *client, const char *method, const char *target,
                    json_t *body, json_t **ret_reply, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with a header Idempotency-Key, unless that is NULL. */
int atoll_link_call_once(struct atoll_client *client, const char *method, const char *target,
                         json_t *body, const char *idempotency_key, json_t **ret_reply,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with text on both sides; *ret_text (which may be NULL) is the caller's, to be freed. */
int atoll_link_call_text(struct atoll_client *client, const char *method, const char *target,
                         const char *text, char **ret_text,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* A request whose body or reply comes in pieces; otherwise the same. With a write callback in
 * *transfer there is no JSON to return. */
int atoll_link_stream(struct atoll_client *client, const char *method, const char *target,
                      const struct atoll_http_transfer *transfer, json_t **ret_reply,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_link_websocket(struct atoll_client *client, const char *target, struct atoll_wsc **ret_ws,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fills *err, and the hint, from the "error" member of a message of the daemon. */
int atoll_link_daemon_error(struct atoll_client *client, const json_t *message, int status,
                            struct atoll_error *err);

/* INVALID_ARGUMENT unless the text can be an id of a sandbox or exec ("what"). NULL cannot. */
int atoll_link_check_id(const char *what, const char *id, struct atoll_error *err) ATOLL_MUST_CHECK;

/* The end of every public function: what it returns, and *ret (may be NULL) filled when r < 0.
 * client may be NULL. */
int atoll_link_conclude(struct atoll_client *client, int r, const struct atoll_error *err,
                        struct atoll_client_error *ret);

/* A struct that begins with its size, as the caller knows it, into one of ours; what it does not
 * reach stays zero. INVALID_ARGUMENT when it says something we do not know. from may be NULL. */
int atoll_link_import(void *to, size_t to_size, const void *from,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* JSON. */

/* NULL when it is no JSON. The caller's. */
json_t *atoll_link_parse_json(const void *bytes, size_t n);
/* Members of objects, with what to take when they are absent or of another type. */
const char *atoll_link_text(const json_t *object, const char *key, const char *otherwise);
double atoll_link_number(const json_t *object, const char *key, double otherwise);
/* A count of bytes or the like: 0 unless it is one. */
uint64_t atoll_link_count(const json_t *object, const char *key);

/* The number in a record or signal name ("SIGTERM", 15), 0 when there is none. */
int atoll_link_signal_number(const json_t *value);
/* "SIGTERM", "SIGRTMIN+1"; out holds ATOLL_LINK_SIGNAL_MAX bytes. */
#define ATOLL_LINK_SIGNAL_MAX 24
const char *atoll_link_signal_name(int signo, char *out);

static inline void atoll_auto_decref(json_t **value)
{
    json_decref(*value);
}
#define ATOLL_AUTOJSON ATOLL_CLEANUP(atoll_auto_decref)
