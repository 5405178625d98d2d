#pragma once
#include "unpack/unpack.h"

/*
 * The output of a packed layer: compresses by libarchive, and computes the digests before and after. The same
 * input gives the same output. Blocking. Ownership: borrows the descriptor.
 */
struct atoll_deflate;

int atoll_deflate_open(int fd, enum atoll_pack_compression compression, int level,
                       struct atoll_deflate **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
struct atoll_deflate *atoll_deflate_close(struct atoll_deflate *d);
int atoll_deflate_write(struct atoll_deflate *d, const void *bytes, size_t n,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the end, and sets digests and sizes of *ret. */
int atoll_deflate_finish(struct atoll_deflate *d, struct atoll_pack_result *ret,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
