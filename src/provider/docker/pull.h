#pragma once
#include <jansson.h>
#include "base/defs.h"

/*
 * The progress of a pull, summed up from the engine's messages about single layers. Pure.
 */
#define ATOLL_DOCKER_LAYERS_MAX 128

struct atoll_docker_pull {
    struct {
        char id[16];
        uint64_t now, total; /* bytes; total 0: unknown */
        bool done;
    } layers[ATOLL_DOCKER_LAYERS_MAX];
    size_t count;
};

/* Takes one message; false if it is not about a layer. */
bool atoll_docker_pull_take(struct atoll_docker_pull *pull, const json_t *message);
/* "2 of 5 layers, 12.5M of 80M"; out holds 80. */
const char *atoll_docker_pull_text(const struct atoll_docker_pull *pull, char *out);
