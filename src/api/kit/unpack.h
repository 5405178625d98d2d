#pragma once
#include <zlib.h>
#include "base/buf.h"

/*
 * Decompresses a request body. Input is buffered until it is consumed; output is bounded, whatever
 * the compression ratio.
 */
struct atoll_unpack {
    struct atoll_buf in;
    bool gzip, at_edge; /* at_edge: between two members, or before the first */
    z_stream z;
    uint8_t *plain; /* owned */
    size_t plain_at, plain_len;
};

/* coding: the Content-Encoding, or NULL. max: of the buffered input. -EINVAL for an unknown
 * coding, -ENOMEM. */
int atoll_unpack_init(struct atoll_unpack *u, const char *coding, size_t max) ATOLL_MUST_CHECK;
void atoll_unpack_done(struct atoll_unpack *u);
/* -ENOBUFS, -ENOMEM. */
int atoll_unpack_add(struct atoll_unpack *u, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* The next decompressed bytes: *n is 0 when more input is needed. -EBADMSG when the input is
 * corrupt. */
int atoll_unpack_view(struct atoll_unpack *u, const uint8_t **p, size_t *n) ATOLL_MUST_CHECK;
/* Marks n of these bytes as used. */
void atoll_unpack_consume(struct atoll_unpack *u, size_t n);
/* Call at the end of input: whether the data is complete. */
bool atoll_unpack_is_whole(const struct atoll_unpack *u);
