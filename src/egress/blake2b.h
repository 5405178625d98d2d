#pragma once
#include <stddef.h>
#include <stdint.h>

/*
 * BLAKE2b with a digest of 32 bytes and no key (RFC 7693). OpenSSL 3.0 has only the digest of 64 bytes, of
 * which this is not a part.
 */
#define ATOLL_BLAKE2B_BYTES 32

struct atoll_blake2b {
    uint64_t h[8];
    uint64_t count; /* bytes that were compressed */
    uint8_t block[128];
    size_t held; /* bytes in block */
};

void atoll_blake2b_init(struct atoll_blake2b *b);
void atoll_blake2b_update(struct atoll_blake2b *b, const void *bytes, size_t n);
void atoll_blake2b_final(struct atoll_blake2b *b, uint8_t out[ATOLL_BLAKE2B_BYTES]);
