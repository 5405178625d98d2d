#include "egress/blake2b.h"

#include <string.h>
#include "base/defs.h"

#define BLOCK 128
#define ROUNDS 12

static const uint64_t iv[8] = {UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b),
                               UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
                               UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
                               UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

static const uint8_t sigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t load(const uint8_t *p)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

static uint64_t rotate(uint64_t value, int bits)
{
    return value >> bits | value << (64 - bits);
}

/* The function G of RFC 7693 section 3.1. */
static void mix(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 63);
}

static void compress(struct atoll_blake2b *b, const uint8_t *block, bool last)
{
    uint64_t v[16], m[16];

    memcpy(v, b->h, sizeof(b->h));
    memcpy(v + 8, iv, sizeof(iv));
    v[12] ^= b->count;
    if (last)
        v[14] = ~v[14];
    for (size_t i = 0; i < 16; i++)
        m[i] = load(block + 8 * i);
    for (size_t round = 0; round < ROUNDS; round++) {
        const uint8_t *s = sigma[round % 10];

        mix(v, 0, 4, 8, 12, m[s[0]], m[s[1]]);
        mix(v, 1, 5, 9, 13, m[s[2]], m[s[3]]);
        mix(v, 2, 6, 10, 14, m[s[4]], m[s[5]]);
        mix(v, 3, 7, 11, 15, m[s[6]], m[s[7]]);
        mix(v, 0, 5, 10, 15, m[s[8]], m[s[9]]);
        mix(v, 1, 6, 11, 12, m[s[10]], m[s[11]]);
        mix(v, 2, 7, 8, 13, m[s[12]], m[s[13]]);
        mix(v, 3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
    for (size_t i = 0; i < 8; i++)
        b->h[i] ^= v[i] ^ v[i + 8];
}

void atoll_blake2b_init(struct atoll_blake2b *b)
{
    memset(b, 0, sizeof(*b));
    memcpy(b->h, iv, sizeof(iv));
    b->h[0] ^= UINT64_C(0x01010000) ^ ATOLL_BLAKE2B_BYTES;
}

/* The last block is compressed differently: a full one waits for more bytes or the end. */
void atoll_blake2b_update(struct atoll_blake2b *b, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    while (n > 0) {
        size_t part = ATOLL_MIN(n, BLOCK - b->held);

        if (b->held == BLOCK) {
            b->count += BLOCK;
            compress(b, b->block, false);
            b->held = 0;
            continue;
        }
        memcpy(b->block + b->held, p, part);
        b->held += part;
        p += part;
        n -= part;
    }
}

void atoll_blake2b_final(struct atoll_blake2b *b, uint8_t out[ATOLL_BLAKE2B_BYTES])
{
    b->count += b->held;
    memset(b->block + b->held, 0, BLOCK - b->held);
    compress(b, b->block, true);
    for (size_t i = 0; i < ATOLL_BLAKE2B_BYTES; i++)
        out[i] = (uint8_t)(b->h[i / 8] >> (8 * (i % 8)));
}
