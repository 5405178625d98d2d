#include "provider/sizes.h"

static bool fits(const struct atoll_size *size, const struct atoll_limits *limits, uint32_t waived)
{
    return (waived & ATOLL_LIMIT_MEMORY || size->memory_bytes >= limits->memory_bytes) &&
           (waived & ATOLL_LIMIT_CPU || size->cpu_millis >= limits->cpu_millis);
}

static bool is_smaller(const struct atoll_size *a, const struct atoll_size *b)
{
    return a->memory_bytes != b->memory_bytes ? a->memory_bytes < b->memory_bytes
                                              : a->cpu_millis < b->cpu_millis;
}

const struct atoll_size *atoll_size_choose(const struct atoll_size *sizes, size_t count,
                                           const struct atoll_limits *limits, uint32_t waived)
{
    const struct atoll_size *best = NULL;

    for (size_t i = 0; i < count; i++)
        if (fits(&sizes[i], limits, waived) && (!best || is_smaller(&sizes[i], best)))
            best = &sizes[i];
    return best;
}
