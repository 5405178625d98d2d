#pragma once
#include "api/call.h"

/* What api.c and call.c share. */

struct atoll_api {
    struct atoll_api_config config;
    struct atoll_list sessions;
    bool draining;
    char id_prefix[9]; /* random per process, so that request ids of two runs differ */
    uint64_t id_count;
};

/* The routes of all facades. */
extern const struct atoll_routes *const atoll_api_routes[];
extern const size_t atoll_api_routes_count;
