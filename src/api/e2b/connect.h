#pragma once
#include <jansson.h>
#include "api/call.h"

/*
 * The Connect protocol with JSON, as envd's clients speak it. Unary: one JSON message each way, an
 * error is a status and {"code","message"}. Streams: messages in envelopes (a byte of flags, a
 * big-endian length, JSON) over HTTP 200; the last envelope has flag 2 and says how it ended, and
 * without it a client takes the stream for broken.
 *
 * Proto3 rules for JSON: names in camelCase, snake_case is accepted; what is absent has its default;
 * unknown fields are ignored. Strings hold no NUL: such a message is refused as a whole.
 */
#define ATOLL_CONNECT_END 2u /* flag of the last envelope */
#define ATOLL_CONNECT_HEAD 5 /* bytes before the message */

struct atoll_connect_frame {
    uint8_t flags;
    const uint8_t *message; /* in the bytes given */
    size_t len;
};
/* Takes the first envelope of `bytes`: how many bytes it has, 0 when more are needed. -EMSGSIZE for a
 * message longer than max, -EBADMSG for flags nobody knows. */
ssize_t atoll_connect_take(const uint8_t *bytes, size_t n, size_t max,
                           struct atoll_connect_frame *ret) ATOLL_MUST_CHECK;

/* The message of a request by its content type, which must be that of a unary call or of a stream.
 * An error is answered here and ends the call. The caller owns *ret. */
bool atoll_connect_unary(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret);
bool atoll_connect_stream(struct atoll_api_call *call, const uint8_t *body, size_t n, json_t **ret);
/* The same for one message. INVALID_ARGUMENT. */
int atoll_connect_parse(const uint8_t *bytes, size_t n, json_t **ret,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* True for a request in envelopes. */
bool atoll_connect_is_stream(const struct atoll_api_call *call);

/* Fields of a message by their camelCase names; NULL or the default when absent. */
const json_t *atoll_connect_get(const json_t *message, const char *name);
/* *ret stays as it is when the field is absent. INVALID_ARGUMENT. */
int atoll_connect_text(const json_t *message, const char *name, const char **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_connect_flag(const json_t *message, const char *name, bool *ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_connect_u32(const json_t *message, const char *name, uint32_t *ret,
                      struct atoll_error *err) ATOLL_MUST_CHECK;

/* How long the client waits, from Connect-Timeout-Ms; 0: it does not say. INVALID_ARGUMENT. */
int atoll_connect_timeout(const struct atoll_api_call *call, uint32_t *ret_ms,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* After how much silence a stream sends a sign of life. */
int64_t atoll_connect_keepalive_ms(const struct atoll_api_call *call);

/* Answers a unary call with {}. */
void atoll_connect_reply_empty(struct atoll_api_call *call);
/* Ends the call with the error as it is, text included, in the form its request asks for. */
void atoll_connect_fail(struct atoll_api_call *call, const struct atoll_error *error);

/* Begins the answer of a stream. */
void atoll_connect_begin(struct atoll_api_call *call);
/* One message: begin, write with the json_out, send. The buffer is the stream's own and is used again.
 * -EPIPE, -ENOBUFS as atoll_http_write(). */
struct atoll_json_out atoll_connect_frame_begin(struct atoll_buf *buf);
int atoll_connect_frame_send(struct atoll_api_call *call,
                             struct atoll_json_out *out) ATOLL_MUST_CHECK;
/* The end of a begun stream, and of the call. error NULL: it went well. */
void atoll_connect_end(struct atoll_api_call *call, const struct atoll_error *error);
