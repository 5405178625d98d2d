#pragma once
#include "base/error.h"
#include "unpack/digest.h"

/*
 * Decompression of a descriptor's bytes: gzip by zlib, which checks the sums that libarchive ignores, and
 * zstd, xz and bzip2 by libarchive; input without a known magic is passed on as it is. Counts the input
 * and computes its digest. Blocking. Ownership: borrows the descriptor.
 */
struct atoll_inflate;

/* Reading fails with CANCELED when stop_fd (borrowed) becomes readable; -1: never. */
int atoll_inflate_open(int fd, int stop_fd, struct atoll_inflate **ret,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_inflate *atoll_inflate_close(struct atoll_inflate *f);

/* Fills at most cap bytes; stores fewer only at the end, where 0 is stored. INVALID_ARGUMENT, INTERNAL. */
int atoll_inflate_read(struct atoll_inflate *f, uint8_t *out, size_t cap, size_t *ret_n,
                       struct atoll_error *err) ATOLL_MUST_CHECK;
/* Reads what follows the end of the compressed data. INTERNAL. */
int atoll_inflate_drain(struct atoll_inflate *f, struct atoll_error *err) ATOLL_MUST_CHECK;
uint64_t atoll_inflate_input_bytes(const struct atoll_inflate *f);
/* Of the input, once, at the end. False: it is not compressed, so the digest is that of the output. */
bool atoll_inflate_digest(struct atoll_inflate *f, char out[ATOLL_DIGEST_HEX]);
