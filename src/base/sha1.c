#include "base/sha1.h"

#include <string.h>

#define BLOCK 64

static uint32_t rotate(uint32_t x, unsigned bits)
{
    return x << bits | x >> (32 - bits);
}

static void mix(uint32_t h[5], const uint8_t *block)
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (size_t t = 0; t < 80; t++)
        w[t] = t < 16 ? (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
                            (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3]
                      : rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (size_t t = 0; t < 80; t++) {
        uint32_t f = t < 20   ? (b & c) | (~b & d)
                     : t < 40 ? b ^ c ^ d
                     : t < 60 ? (b & c) | (b & d) | (c & d)
                              : b ^ c ^ d;
        uint32_t k = t < 20 ? 0x5a827999 : t < 40 ? 0x6ed9eba1 : t < 60 ? 0x8f1bbcdc : 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + k + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void atoll_sha1(const void *bytes, size_t n, uint8_t digest[ATOLL_SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const uint8_t *p = bytes;
    uint8_t tail[2 * BLOCK] = {0};
    size_t left = n % BLOCK, blocks;
    uint64_t bits = (uint64_t)n * 8;

    for (size_t i = 0; i < n / BLOCK; i++)
        mix(h, p + i * BLOCK);
    /* The final block or two: the remaining bytes, a one bit, zeroes, and the length in bits. */
    if (left > 0)
        memcpy(tail, p + n - left, left);
    tail[left] = 0x80;
    blocks = left + 9 > BLOCK ? 2 : 1;
    for (size_t i = 0; i < 8; i++)
        tail[blocks * BLOCK - 1 - i] = (uint8_t)(bits >> (8 * i));
    for (size_t i = 0; i < blocks; i++)
        mix(h, tail + i * BLOCK);
    for (size_t i = 0; i < ATOLL_SHA1_BYTES; i++)
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}
