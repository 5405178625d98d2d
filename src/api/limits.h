#pragma once
#include "base/defs.h"

/*
 * Rate limits: one token bucket per name. A bucket holds up to `burst` tokens, gains `per_second`,
 * and every request takes one. The table is bounded: the name unused for the longest time is
 * evicted, and starts with a full bucket when it comes back.
 */
struct atoll_rate {
    uint32_t per_second; /* 0: no limit */
    uint32_t burst;      /* at least 1 */
};

struct atoll_buckets;

#define ATOLL_BUCKET_NAME_MAX 64

/* Aborts when out of memory. */
struct atoll_buckets *atoll_buckets_new(struct atoll_rate rate, size_t max);
struct atoll_buckets *atoll_buckets_free(struct atoll_buckets *buckets);

/* Takes a token from the bucket of that name. Returns 0, or the milliseconds until a token is
 * available. */
int64_t atoll_buckets_take(struct atoll_buckets *buckets, const char *name, int64_t now_ms);
/* Returns a token that was taken. */
void atoll_buckets_return(struct atoll_buckets *buckets, const char *name);
