#pragma once
#include "base/defs.h"

/*
 * How often somebody may ask: a token bucket per name. A bucket holds up to `burst` tokens, gains
 * `per_second`, and every request takes one. The table is bounded; the name that was not seen for the
 * longest time makes room, and starts with a full bucket should it come back.
 */
struct atoll_rate {
    uint32_t per_second; /* 0: no limit */
    uint32_t burst;      /* at least 1 */
};

struct atoll_buckets;

#define ATOLL_BUCKET_NAME_MAX 64

/* Aborts out of memory. */
struct atoll_buckets *atoll_buckets_new(struct atoll_rate rate, size_t max);
struct atoll_buckets *atoll_buckets_free(struct atoll_buckets *buckets);

/* Takes a token of that name's bucket. 0, or in how many milliseconds there will be one. */
int64_t atoll_buckets_take(struct atoll_buckets *buckets, const char *name, int64_t now_ms);
/* Puts back one that was taken. */
void atoll_buckets_return(struct atoll_buckets *buckets, const char *name);
