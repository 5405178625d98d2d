#pragma once
#include "base/error.h"

/*
 * The uncompressed bytes of an archive, from a descriptor. One thread reads and decompresses (gzip also of
 * several members, zstd, xz, bzip2, or no compression), a second one computes the digest of the result,
 * and the caller takes the bytes: all three work on the same blocks, of which there are few.
 *
 * Thread: one caller. Blocking. Ownership: borrows the descriptor.
 */
struct atoll_archive;

/* A block boundary is a multiple of this, so that heads of tar archives lie in one piece. */
#define ATOLL_ARCHIVE_BLOCK ((size_t)512 * 1024)

struct atoll_archive_facts {
    char diff_id[65]; /* hex SHA-256 of the uncompressed bytes */
    char digest[65];  /* hex SHA-256 of the input */
    uint64_t tar_bytes, input_bytes;
};

/* max_ratio: uncompressed bytes for each byte of input, beyond the first 16 MiB; 0: any. INTERNAL. */
int atoll_archive_open(int fd, uint64_t max_ratio, struct atoll_archive **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the threads. Accepts NULL. Does not wait for input. */
struct atoll_archive *atoll_archive_close(struct atoll_archive *s);

/* The next bytes, without consuming them: 1, or 0 at the end. Pieces but the last end at a multiple of 512.
 * INVALID_ARGUMENT: the compression is malformed; RESOURCE_EXHAUSTED: the ratio; INTERNAL. */
int atoll_archive_peek(struct atoll_archive *s, const uint8_t **ret_bytes, size_t *ret_n,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* n is at most what was peeked. */
void atoll_archive_skip(struct atoll_archive *s, size_t n);

/* Reads the rest, to the end of the input. Errors of _peek. */
int atoll_archive_finish(struct atoll_archive *s, struct atoll_archive_facts *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
