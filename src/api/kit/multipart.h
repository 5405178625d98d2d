#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * A streaming parser for multipart/form-data (RFC 7578): bytes go in, events come out; only the
 * head of one part is buffered. Pure.
 */
#define ATOLL_MULTIPART_BOUNDARY_MAX 70
#define ATOLL_MULTIPART_HEAD_MAX 8192

enum atoll_multipart_kind {
    ATOLL_PART_BEGIN = 1, /* name, filename */
    ATOLL_PART_DATA,      /* data, len */
    ATOLL_PART_END,
    ATOLL_MULTIPART_END, /* the bytes after it are ignored */
};

struct atoll_multipart_event {
    enum atoll_multipart_kind kind;
    const uint8_t *data; /* in the input or in m: valid until the next call */
    size_t len;
    const char *name;     /* "" if not given */
    const char *filename; /* NULL if not given */
};

/* All fields are private. */
struct atoll_multipart {
    enum {
        ATOLL_MP_PREAMBLE,
        ATOLL_MP_DELIMITER,
        ATOLL_MP_HEAD,
        ATOLL_MP_DATA,
        ATOLL_MP_OVER
    } state;
    char delimiter[4 + ATOLL_MULTIPART_BOUNDARY_MAX + 1]; /* CR LF "--" boundary */
    size_t delimiter_len;
    size_t matched; /* bytes of the delimiter matched so far */
    char after;     /* last significant byte after a delimiter */
    size_t head_len;
    char head[ATOLL_MULTIPART_HEAD_MAX + 1];
    char *name, *filename; /* in head */
};

/* content_type: of the request. -EINVAL if it is not multipart/form-data or has no boundary. */
int atoll_multipart_init(struct atoll_multipart *m, const char *content_type) ATOLL_MUST_CHECK;
/* Consumes from *p, *n bytes; advances both. 1: *ret is the next event, 0: all was consumed and
 * more is needed, -EBADMSG: not valid multipart, -E2BIG: the head of a part is too long. */
int atoll_multipart_next(struct atoll_multipart *m, const uint8_t **p, size_t *n,
                         struct atoll_multipart_event *ret) ATOLL_MUST_CHECK;
