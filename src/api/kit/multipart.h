#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * multipart/form-data (RFC 7578), taken apart as it comes: bytes go in, events come out, and nothing is
 * kept but the head of one part. Pure.
 */
#define ATOLL_MULTIPART_BOUNDARY_MAX 70
#define ATOLL_MULTIPART_HEAD_MAX 8192

enum atoll_multipart_kind {
    ATOLL_PART_BEGIN = 1, /* name, filename */
    ATOLL_PART_DATA,      /* data, len */
    ATOLL_PART_END,
    ATOLL_MULTIPART_END, /* what follows means nothing */
};

struct atoll_multipart_event {
    enum atoll_multipart_kind kind;
    const uint8_t *data; /* in the bytes given, or ours: good until the next call */
    size_t len;
    const char *name;     /* "" where it has none */
    const char *filename; /* NULL where it has none */
};

/* The fields are this module's own. */
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
    size_t matched; /* bytes of the delimiter that may have begun */
    char after;     /* the last byte behind a delimiter that means something */
    size_t head_len;
    char head[ATOLL_MULTIPART_HEAD_MAX + 1];
    char *name, *filename; /* in head */
};

/* content_type: of the request. -EINVAL when it is not this one, or has no boundary. */
int atoll_multipart_init(struct atoll_multipart *m, const char *content_type) ATOLL_MUST_CHECK;
/* Takes from *p, *n bytes; moves both. 1: *ret is the next event, 0: all was taken and more is needed,
 * -EBADMSG: this is no multipart, -E2BIG: a head is too long. */
int atoll_multipart_next(struct atoll_multipart *m, const uint8_t **p, size_t *n,
                         struct atoll_multipart_event *ret) ATOLL_MUST_CHECK;
