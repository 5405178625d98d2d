#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Message encoding, driven by a table with one row per struct field, in wire order. Both sides
 * share the struct and the table, so each message is described once.
 *
 * On the wire: integers are little-endian; a string or byte run is a u32 length, the bytes and a
 * NUL (so that a decoded string can be used in place); a vector is a u32 count and that many
 * strings.
 * Versions: fields are only appended. If the payload ends early, the decoder leaves the remaining
 * fields zero; it ignores bytes after the last field it knows.
 * Ownership: decoded strings and byte runs point into the payload. Only vectors allocate;
 * atoll_msg_done() frees them.
 */
enum atoll_msg_field_type {
    ATOLL_MSG_U8,
    ATOLL_MSG_U32,
    ATOLL_MSG_U64,
    ATOLL_MSG_I32,
    ATOLL_MSG_I64,
    ATOLL_MSG_STR,   /* const char *; NULL is sent as "" */
    ATOLL_MSG_BYTES, /* struct atoll_bytes */
    ATOLL_MSG_STRV,  /* struct atoll_strv */
};

struct atoll_bytes {
    const uint8_t *data;
    size_t len;
};

struct atoll_strv {
    const char **items; /* owned by the struct after a decode, borrowed for an encode */
    size_t len;
};

/* Maximum number of strings in one vector. */
#define ATOLL_STRV_MAX 4096

struct atoll_msg_field {
    enum atoll_msg_field_type type;
    size_t offset;
};

struct atoll_msg_desc {
    const char *name;
    size_t size; /* of the struct */
    const struct atoll_msg_field *fields;
    size_t field_count;
};

/* Declares `extern const struct atoll_msg_desc` and defines it; see agent_proto.c for the use. */
#define ATOLL_MSG_FIELD(type_, struct_, member_)             \
    {                                                        \
        ATOLL_MSG_##type_, offsetof(struct struct_, member_) \
    }
#define ATOLL_MSG_DESC(struct_, ...)                                        \
    static const struct atoll_msg_field struct_##_fields[] = {__VA_ARGS__}; \
    const struct atoll_msg_desc struct_##_desc = {                          \
        #struct_, sizeof(struct struct_), struct_##_fields, ATOLL_ARRAY_LEN(struct_##_fields)}

/* Appends the encoded struct to out. -ENOBUFS if it would exceed out's maximum, -ENOMEM. */
int atoll_msg_encode(const struct atoll_msg_desc *desc, const void *msg,
                     struct atoll_buf *out) ATOLL_MUST_CHECK;

/* Fills *ret_msg (zeroed first). INVALID_ARGUMENT if the bytes are malformed; then there is nothing
 * to free. */
int atoll_msg_decode(const struct atoll_msg_desc *desc, const uint8_t *bytes, size_t n,
                     void *ret_msg, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Frees what a decode allocated. Safe on a zeroed struct. */
void atoll_msg_done(const struct atoll_msg_desc *desc, void *msg);
