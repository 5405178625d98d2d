#pragma once
#include "base/buf.h"

/*
 * WebSocket framing (RFC 6455 section 5) for both ends, on wslay's frame layer: decodes bytes to whole
 * messages and control frames, one at a time. Messages are assembled here, not by wslay's event layer,
 * which allocates memory for every fragment: a message in one-byte fragments would need a hundred times
 * its size.
 *
 * Blocking: does no I/O. Thread: any one at a time.
 */
struct atoll_ws_codec;

enum atoll_ws_opcode {
    ATOLL_WS_TEXT = 1,
    ATOLL_WS_BINARY = 2,
    ATOLL_WS_CLOSE = 8,
    ATOLL_WS_PING = 9,
    ATOLL_WS_PONG = 10,
};

/* A message or control frame; bytes are borrowed until the next call with the codec. */
struct atoll_ws_event {
    enum atoll_ws_opcode opcode;
    const uint8_t *bytes; /* of a CLOSE: the reason */
    size_t n;
    uint16_t code; /* CLOSE: the peer's status, 1005 when it gave none */
};

#define ATOLL_WS_HEADER_MAX 14

int atoll_ws_codec_new(bool is_server, size_t max_message,
                       struct atoll_ws_codec **ret_codec) ATOLL_MUST_CHECK;
struct atoll_ws_codec *atoll_ws_codec_free(struct atoll_ws_codec *c);

/* Decodes from *bytes, and advances *bytes and *n past the consumed bytes. 1: *ret_event is an event;
 * call again, even with n = 0, because more may be buffered. 0: needs more bytes. -EPROTO: fail the
 * connection with *ret_code (1002, 1007, 1009, 1011), and do not use the codec again. */
int atoll_ws_codec_decode(struct atoll_ws_codec *c, const uint8_t **bytes, size_t *n,
                          struct atoll_ws_event *ret_event, uint16_t *ret_code) ATOLL_MUST_CHECK;

/* The header of an unmasked frame of n bytes (server); returns its length. */
size_t atoll_ws_codec_header(struct atoll_ws_codec *c, enum atoll_ws_opcode opcode, size_t n,
                             uint8_t header[ATOLL_WS_HEADER_MAX]);
/* Appends a whole masked frame (client). -ENOBUFS, -ENOMEM: nothing is appended. */
int atoll_ws_codec_mask(struct atoll_ws_codec *c, enum atoll_ws_opcode opcode, const void *bytes,
                        size_t n, struct atoll_buf *out) ATOLL_MUST_CHECK;

/* Makes the payload of a close frame: code (none if 1005) and reason, cut at a character boundary.
 * Returns its length, at most 125. */
size_t atoll_ws_close_payload(uint16_t code, const char *reason, uint8_t payload[125]);
bool atoll_ws_is_utf8(const uint8_t *bytes, size_t n);
/* Sec-WebSocket-Accept for a Sec-WebSocket-Key; out holds 29 bytes. */
int atoll_ws_accept_key(const char *key, char out[29]) ATOLL_MUST_CHECK;
