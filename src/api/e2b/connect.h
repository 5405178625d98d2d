#pragma once
#include <jansson.h>
#include "api/call.h"

/*
 * The Connect protocol with JSON, as the clients of envd use it. Unary calls: one JSON message each
 * way; an error is a status and {"code","message"}. Streams: messages in envelopes (a byte of
 * flags, a big-endian length, JSON) over HTTP 200. The last envelope has flag 2 and contains the
 * result; without it a client treats the stream as broken.
 *
 * The JSON rules of proto3 apply: names are camelCase, snake_case is accepted; an absent field has
 * its default; unknown fields are ignored. A message with a NUL in a string is refused.
 */
#define ATOLL_CONNECT_END 2u /* flag of the last envelope */
#define ATOLL_CONNECT_HEAD 5 /* bytes before the message */

struct atoll_connect_frame {
    uint8_t flags;
    const uint8_t *message; /* points into the input */
    size_t len;
};
/* Parses the first envelope in `bytes`. Returns its length, or 0 when more bytes are needed.
 * -EMSGSIZE for a message longer than max, -EBADMSG for unknown flags. */
ssize_t atoll_connect_take(const uint8_t *bytes, size_t n, size_t max,
                           struct atoll_connect_frame *ret) ATOLL_MUST_CHECK;

/* Parses the message of a unary request, by its content type, which may be that of a unary call
 * or of a stream. On an error, answers and ends the call. The caller owns *ret. */
bool atoll_connect_unary(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret);
bool atoll_connect_stream(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret);
/* Parses one message. INVALID_ARGUMENT. */
int atoll_connect_parse(const uint8_t *bytes, size_t n, json_t **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* True for a request in envelopes. */
bool atoll_connect_is_stream(const struct atoll_api_call *call);

/* Fields of a message by their camelCase names; NULL or the default if absent. */
const json_t *atoll_connect_get(const json_t *message, const char *name);
/* *ret is unchanged if the field is absent. INVALID_ARGUMENT. */
int atoll_connect_text(const json_t *message, const char *name, const char **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_connect_flag(const json_t *message, const char *name, bool *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_connect_u32(const json_t *message, const char *name, uint32_t *ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* The client's timeout, from Connect-Timeout-Ms; 0: not given. INVALID_ARGUMENT. */
int atoll_connect_timeout(const struct atoll_api_call *call, uint32_t *ret_ms,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* The idle time after which a stream sends a keep-alive. */
int64_t atoll_connect_keepalive_ms(const struct atoll_api_call *call);

/* Answers a unary call with {}. */
void atoll_connect_reply_empty(struct atoll_api_call *call);
/* Ends the call with the error and its text, in the form (unary or stream) of the request. */
void atoll_connect_fail(struct atoll_api_call *call, const struct atoll_error *error);

/* Begins the response of a stream. */
void atoll_connect_begin(struct atoll_api_call *call);
/* One message: begin, write with the json_out, send. The buffer belongs to the stream and is
 * reused. -EPIPE, -ENOBUFS as atoll_http_write(). */
struct atoll_json_out atoll_connect_frame_begin(struct atoll_buf *buf);
int atoll_connect_frame_send(struct atoll_api_call *call,
                             struct atoll_json_out *out) ATOLL_MUST_CHECK;
/* Ends a stream that has begun, and the call. error NULL: success. */
void atoll_connect_end(struct atoll_api_call *call, const struct atoll_error *error);
