#pragma once
#include "sandbox/spec.h"

/*
 * Fixed sizes of a service: its templates with their memory and CPUs. Pure.
 */
#define ATOLL_SIZES_MAX 16

struct atoll_size {
    char template_name[129];
    uint64_t memory_bytes;
    uint32_t cpu_millis;
};

/* The smallest size (by memory, then by CPUs) with at least the memory and CPUs of the limits;
 * NULL if no size is large enough. Waived limits are not compared. */
const struct atoll_size *atoll_size_choose(const struct atoll_size *sizes, size_t count,
                                           const struct atoll_limits *limits, uint32_t waived);
