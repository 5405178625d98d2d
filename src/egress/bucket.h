#pragma once
#include "base/defs.h"

/*
 * A token bucket of bytes: bounds the bandwidth of one sandbox in one direction. All its connections take
 * from the same bucket. Pure.
 */
struct atoll_bucket {
    uint64_t bytes_per_second; /* 0: no limit */
    int64_t at_us;             /* of the last refill */
    int64_t tokens;            /* bytes that may be moved now; at most one burst */
};

/* Starts with an empty bucket, so that a change of the limit gives no burst. */
void atoll_bucket_init(struct atoll_bucket *b, uint64_t bytes_per_second, int64_t now_us);
/* How many of `want` bytes may be moved now; give back what was not moved. */
size_t atoll_bucket_take(struct atoll_bucket *b, size_t want, int64_t now_us);
void atoll_bucket_give_back(struct atoll_bucket *b, size_t bytes);
/* After take returned 0: milliseconds until it is worth another try. */
int64_t atoll_bucket_wait_ms(const struct atoll_bucket *b);
