#pragma once
#include "base/buf.h"

/*
 * Writes JSON directly into a buffer, without building a tree. The first failure (the buffer is
 * full) is kept in `error`; the sender checks it once, at the end. `key` is NULL for members of an
 * array and for the outermost value.
 */
struct atoll_json_out {
    struct atoll_buf *buf; /* borrowed */
    int error;             /* 0 or -errno */
    bool comma;            /* the next member needs one before it */
};

void atoll_json_out_init(struct atoll_json_out *out, struct atoll_buf *buf);

/* bracket: '{' or '[' to open, '}' or ']' to close. */
void atoll_json_open(struct atoll_json_out *out, const char *key, char bracket);
void atoll_json_close(struct atoll_json_out *out, char bracket);

void atoll_json_text(struct atoll_json_out *out, const char *key, const char *text);
/* null for "". */
void atoll_json_text_or_null(struct atoll_json_out *out, const char *key, const char *text);
void atoll_json_u64(struct atoll_json_out *out, const char *key, uint64_t value);
void atoll_json_i64(struct atoll_json_out *out, const char *key, int64_t value);
/* Up to `digits` significant digits, at most 17; null for a value that JSON cannot express. */
void atoll_json_double(struct atoll_json_out *out, const char *key, double value, int digits);
void atoll_json_bool(struct atoll_json_out *out, const char *key, bool value);
void atoll_json_null(struct atoll_json_out *out, const char *key);
/* A value that is already encoded as JSON. */
void atoll_json_raw(struct atoll_json_out *out, const char *key, const char *json);
/* "2026-01-31T12:00:00.123Z"; null for 0. */
void atoll_json_time(struct atoll_json_out *out, const char *key, int64_t unix_ms);

/* Bytes that may not be UTF-8: invalid ones become U+FFFD in the string, and a second member
 * named <key>_base64 then holds all bytes, so that nothing is lost; not in an array, whose members
 * have no names. */
void atoll_json_bytes(struct atoll_json_out *out, const char *key, const void *bytes, size_t n);
void atoll_json_base64(struct atoll_json_out *out, const char *key, const void *bytes, size_t n);

/* Length of the longest prefix that is valid UTF-8. */
size_t atoll_json_utf8_prefix(const uint8_t *bytes, size_t n);
/* How many of the last bytes (0..3) begin a UTF-8 sequence that is not complete yet. */
size_t atoll_json_utf8_open_tail(const uint8_t *bytes, size_t n);
