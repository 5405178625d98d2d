#pragma once
#include <atoll/atoll.h>
#include <jansson.h>
#include "net/http_client.h"

/*
 * Requests to the daemon, for libatoll and the CLI: finds the daemon, sends and receives JSON, and
 * returns errors with the daemon's text. The public functions of atoll/atoll.h use this.
 *
 * Blocking: every call, up to the client's timeout.
 */

/* Most bytes of a JSON reply, and of one WebSocket message. */
#define ATOLL_LINK_REPLY_MAX (64u * 1024 * 1024)

/* Like atoll_client_open(). options may be NULL. */
int atoll_link_open(const struct atoll_client_options *options, struct atoll_client **ret_client,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_link_timeout(const struct atoll_client *client);
/* Sends the key also over a unix socket, where the daemon asks for none from its own user. For programs that
 * must not be taken for that user. INVALID_ARGUMENT. */
int atoll_link_set_key(struct atoll_client *client, const char *key,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* The value of the Authorization header, or "". Borrowed. */
const char *atoll_link_authorization(const struct atoll_client *client);
/* The remedy for the last error, or "". The caller may clear it. */
char *atoll_link_hint(struct atoll_client *client);

/* A request target. Every %s of the format (no other conversion is supported) is percent-encoded. */
struct atoll_link_target {
    char text[8192];
};
/* INVALID_ARGUMENT if it is too long. */
int atoll_link_target(struct atoll_link_target *ret, struct atoll_error *err, const char *fmt, ...)
    ATOLL_PRINTF(3, 4) ATOLL_MUST_CHECK;

/* git.c: a request about git in a sandbox. The members of `request` are in the query, unless the method is POST
 * or PUT, which send it as body. INVALID_ARGUMENT. */
int atoll_link_git_target(struct atoll_link_target *ret, const char *method, const char *sandbox_id,
                          const char *operation, json_t *request,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

/* One request with an optional JSON body. The caller owns *ret_reply (ret_reply may be NULL), which is
 * JSON null if the reply has no body. Errors of the daemon keep their kind and text. */
int atoll_link_call(struct atoll_client *client, const char *method, const char *target,
                    json_t *body, json_t **ret_reply, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with an Idempotency-Key header, unless idempotency_key is NULL. */
int atoll_link_call_once(struct atoll_client *client, const char *method, const char *target,
                         json_t *body, const char *idempotency_key, json_t **ret_reply,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same with text instead of JSON; the caller frees *ret_text (ret_text may be NULL). */
int atoll_link_call_text(struct atoll_client *client, const char *method, const char *target,
                         const char *text, char **ret_text,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same with a streamed body or reply. With a write callback in *transfer no JSON is returned. */
int atoll_link_stream(struct atoll_client *client, const char *method, const char *target,
                      const struct atoll_http_transfer *transfer, json_t **ret_reply,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_link_websocket(struct atoll_client *client, const char *target, struct atoll_wsc **ret_ws,
                         struct atoll_error *err) ATOLL_MUST_CHECK;

/* Fills *err and the hint from the "error" member of a message of the daemon. */
int atoll_link_daemon_error(struct atoll_client *client, const json_t *message, int status,
                            struct atoll_error *err);

/* An id, or the name of a sandbox, with its NUL. */
#define ATOLL_LINK_ID_MAX 72

/* INVALID_ARGUMENT unless `id` has the form of an id or of a name, which can stand in a path; `what`
 * ("sandbox", "exec") is for the message. NULL is not valid. */
int atoll_link_check_id(const char *what, const char *id, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Every public function returns with this: fills *ret (ret may be NULL) if r < 0, and returns r.
 * client may be NULL. */
int atoll_link_conclude(struct atoll_client *client, int r, const struct atoll_error *err,
                        struct atoll_client_error *ret);

/* Copies a caller's struct, which begins with its size, to the current version of the struct; members
 * beyond the caller's size are zero. INVALID_ARGUMENT if it is larger than ours and sets a member that we
 * do not know. from may be NULL. */
int atoll_link_import(void *to, size_t to_size, const void *from,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* JSON. */

/* NULL if it is not JSON. Owned by the caller. */
json_t *atoll_link_parse_json(const void *bytes, size_t n);
/* Members of objects; `otherwise` if a member is absent or of another type. Texts are borrowed. */
const char *atoll_link_text(const json_t *object, const char *key, const char *otherwise);
double atoll_link_number(const json_t *object, const char *key, double otherwise);
/* A non-negative number such as a count of bytes; 0 if it is absent or invalid. */
uint64_t atoll_link_count(const json_t *object, const char *key);

/* The number of a signal given as a name or number ("SIGTERM", 15), 0 if invalid. */
int atoll_link_signal_number(const json_t *value);
/* "SIGTERM", "SIGRTMIN+1"; out holds ATOLL_LINK_SIGNAL_MAX bytes. */
#define ATOLL_LINK_SIGNAL_MAX 24
const char *atoll_link_signal_name(int signo, char *out);

static inline void atoll_auto_decref(json_t **value)
{
    json_decref(*value);
}
#define ATOLL_AUTOJSON ATOLL_CLEANUP(atoll_auto_decref)
