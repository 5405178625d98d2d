#include "egress/bucket.h"

#define BURST_PER_SECOND 10 /* a burst is what passes in a tenth of a second */
#define BURST_MIN 2048
#define CHUNK_MAX (64 * 1024)

static int64_t burst(const struct atoll_bucket *b)
{
    return ATOLL_MAX((int64_t)(b->bytes_per_second / BURST_PER_SECOND), (int64_t)BURST_MIN);
}

/* Smaller amounts are not given out, so that a slow bucket does not cost a system call for a few bytes. */
static int64_t chunk(const struct atoll_bucket *b)
{
    return ATOLL_MIN(burst(b) / 2, (int64_t)CHUNK_MAX);
}

void atoll_bucket_init(struct atoll_bucket *b, uint64_t bytes_per_second, int64_t now_us)
{
    *b = (struct atoll_bucket){.bytes_per_second = bytes_per_second, .at_us = now_us};
}

static void refill(struct atoll_bucket *b, int64_t now_us)
{
    int64_t elapsed_us = ATOLL_MIN(ATOLL_MAX(now_us - b->at_us, (int64_t)0), (int64_t)1000000);
    int64_t more = (int64_t)(b->bytes_per_second * (uint64_t)elapsed_us / 1000000);

    if (more == 0 && elapsed_us < 1000000)
        return; /* keeps the fraction for the next refill */
    b->tokens = ATOLL_MIN(b->tokens + more, burst(b));
    b->at_us = now_us;
}

size_t atoll_bucket_take(struct atoll_bucket *b, size_t want, int64_t now_us)
{
    size_t n;

    if (b->bytes_per_second == 0)
        return want;
    refill(b, now_us);
    if (b->tokens < ATOLL_MIN(chunk(b), (int64_t)want))
        return 0;
    n = ATOLL_MIN(want, (size_t)b->tokens);
    b->tokens -= (int64_t)n;
    return n;
}

void atoll_bucket_give_back(struct atoll_bucket *b, size_t bytes)
{
    if (b->bytes_per_second > 0)
        b->tokens += (int64_t)bytes;
}

int64_t atoll_bucket_wait_ms(const struct atoll_bucket *b)
{
    int64_t missing = chunk(b) - b->tokens;

    if (b->bytes_per_second == 0 || missing <= 0)
        return 1;
    return missing * 1000 / (int64_t)b->bytes_per_second + 1;
}
