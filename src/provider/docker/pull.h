#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * How far a pull is, from what the engine says about its layers one by one. Pure.
 */
#define ATOLL_DOCKER_LAYERS_MAX 128

struct atoll_docker_pull {
    struct {
        char id[16];
        uint64_t now, total; /* bytes; total 0: not known */
        bool done;
    } layers[ATOLL_DOCKER_LAYERS_MAX];
    size_t count;
};

/* Takes one message; false when it is not about a layer. */
bool atoll_docker_pull_take(struct atoll_docker_pull *pull, const json_t *message);
/* "2 of 5 layers, 12.5M of 80M"; out holds 80. */
const char *atoll_docker_pull_text(const struct atoll_docker_pull *pull, char *out);
