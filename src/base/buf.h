#pragma once
#include "base/defs.h"

/*
 * A growable byte buffer with a mandatory maximum. Bytes are appended at the end and consumed at the
 * front; its content is `data + off .. data + len`. It is also the string builder: atoll_buf_str()
 * returns the content with a terminating NUL.
 */
struct atoll_buf {
    uint8_t *data; /* owned */
    size_t off;    /* first byte not yet consumed */
    size_t len;    /* end of the bytes held; off <= len <= cap */
    size_t cap;
    size_t max; /* most bytes it may ever hold */
    bool erases;
};

void atoll_buf_init(struct atoll_buf *b, size_t max);
/* The same for bytes that may be secrets: memory is overwritten when its bytes are consumed, when the
 * buffer grows, and at the end. */
void atoll_buf_init_erasing(struct atoll_buf *b, size_t max);
void atoll_buf_done(struct atoll_buf *b);
/* The same for a buffer that held a secret: erases its memory first. Copies from before it grew are not
 * erased, so reserve the whole size at once. */
void atoll_buf_wipe(struct atoll_buf *b);

static inline size_t atoll_buf_size(const struct atoll_buf *b)
{
    return b->len - b->off;
}

static inline const uint8_t *atoll_buf_head(const struct atoll_buf *b)
{
    return b->data ? b->data + b->off : NULL;
}

/* Makes room for n more bytes at the end: write them to *ret_tail, then call atoll_buf_commit().
 * -ENOBUFS beyond the maximum, -ENOMEM. */
int atoll_buf_reserve(struct atoll_buf *b, size_t n, uint8_t **ret_tail) ATOLL_MUST_CHECK;
void atoll_buf_commit(struct atoll_buf *b, size_t n);

/* Appends all bytes or none. -ENOBUFS beyond the maximum, -ENOMEM. */
int atoll_buf_append(struct atoll_buf *b, const void *bytes, size_t n) ATOLL_MUST_CHECK;
int atoll_buf_appends(struct atoll_buf *b, const char *text) ATOLL_MUST_CHECK;
int atoll_buf_appendf(struct atoll_buf *b, const char *fmt, ...)
    ATOLL_PRINTF(2, 3) ATOLL_MUST_CHECK;

/* Drops n bytes at the front. */
void atoll_buf_consume(struct atoll_buf *b, size_t n);
void atoll_buf_clear(struct atoll_buf *b);

/* The content as a C string, borrowed until the next change; "" without memory. */
const char *atoll_buf_str(struct atoll_buf *b);
