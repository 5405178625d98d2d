#pragma once
#include <zlib.h>
#include "base/buf.h"

/*
 * The bytes of a body as they were before it was packed. What was put in waits here until it is used;
 * of what comes out there is never more than a little, however well it was packed.
 */
struct atoll_unpack {
    struct atoll_buf in;
    bool gzip, at_edge; /* at_edge: between two members, or before the first */
    z_stream z;
    uint8_t *plain; /* owned */
    size_t plain_at, plain_len;
};

/* coding: of the body, or NULL. max: of what may wait. -EINVAL for one that is not known, -ENOMEM. */
int atoll_unpack_init(struct atoll_unpack *u, const char *coding, size_t max) ATOLL_MUST_CHECK;
void atoll_unpack_done(struct atoll_unpack *u);
/* -ENOBUFS, -ENOMEM. */
int atoll_unpack_add(struct atoll_unpack *u, const void *bytes, size_t n) ATOLL_MUST_CHECK;
/* What comes next: *n is 0 when more must be put in. -EBADMSG when it is not what it says. */
int atoll_unpack_view(struct atoll_unpack *u, const uint8_t **p, size_t *n) ATOLL_MUST_CHECK;
/* So many bytes of it were used. */
void atoll_unpack_consume(struct atoll_unpack *u, size_t n);
/* Nothing more comes: whether that was all. */
bool atoll_unpack_is_whole(const struct atoll_unpack *u);
