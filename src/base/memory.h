#pragma once
#include "base/defs.h"

/* Zeroed memory for a small object of fixed size. Aborts without memory: the daemon is crash-only.
 * Sizes that input can choose are allocated by other means, and fail. */
static inline void *atoll_alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}
