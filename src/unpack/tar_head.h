#pragma once
#include "base/buf.h"
#include "unpack/tar_read.h"

/*
 * Parts of heads of tar archives: numbers, pax records, maps of sparse files. Pure.
 */
#define ATOLL_TAR_EXTENTS_MAX 65536
#define ATOLL_TAR_XATTRS_MAX 256

/* A number of a head: octal, or base 256 with the highest bit set. Blank is 0. -EINVAL. */
int atoll_tar_number(const uint8_t *field, size_t width, int64_t *ret) ATOLL_MUST_CHECK;
/* Whether the sum of a head of 512 bytes is right, as signed or unsigned bytes. */
bool atoll_tar_sum_is_right(const uint8_t *head);

struct atoll_tar_extent {
    uint64_t offset, len;
};

/* What the pax records before an entry say. Texts point into the buffer that was parsed. */
struct atoll_tar_pax {
    const char *path, *linkpath; /* NULL: not given */
    bool has_size, has_uid, has_gid, has_mtime;
    uint64_t size, uid, gid;
    int64_t mtime_s;
    uint32_t mtime_ns;
    struct atoll_tar_xattr xattrs[ATOLL_TAR_XATTRS_MAX];
    size_t xattr_count;
    /* Sparse files. */
    unsigned sparse_major, sparse_minor;
    bool sparse;
    const char *sparse_name, *sparse_map; /* NULL: not given */
    uint64_t sparse_size;
    struct atoll_tar_extent *extents; /* owned; of format 0.0 */
    size_t extent_count;
};

/* Reads all records, which are changed: their newlines become NUL. -EINVAL, -E2BIG, -ENOMEM. */
int atoll_tar_pax_parse(uint8_t *text, size_t n, struct atoll_tar_pax *ret) ATOLL_MUST_CHECK;
void atoll_tar_pax_done(struct atoll_tar_pax *pax);

/* A decimal number up to `end`, a character that is consumed. -EINVAL. */
int atoll_tar_decimal(const char **text, char end, uint64_t *ret) ATOLL_MUST_CHECK;
/* Extents do not overlap, are in order and within size. Returns whether their lengths are `stored`. */
bool atoll_tar_extents_are_right(const struct atoll_tar_extent *extents, size_t n, uint64_t size,
                                 uint64_t stored);
