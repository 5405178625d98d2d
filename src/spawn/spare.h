#pragma once
#include "base/error.h"

/*
 * The user and network namespaces of the next sandbox, created in advance while spawn is idle: the
 * first takes a fork, and the second a sixth of the time of a create. Id ranges are allocated in
 * order, so the next one is known. If the last sandbox had layers, the next one gets a namespace for its
 * layers, too.
 */
struct atoll_spare;

/* The namespaces of one sandbox; the caller owns the descriptors. */
struct atoll_spare_set {
    int userns; /* maps a whole range to [outside, …) */
    int netns;  /* its network namespace; ATOLL_NO_FD: none was prepared */
    int layers; /* maps layer_base to the same range; ATOLL_NO_FD: not asked for, or not needed */
};

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The spare namespaces if they match, else new ones. layer_base: first id of its layers on disk; 0: it
 * has none. A builder has the ids of layers, and so no map for them. -errno. */
int atoll_spare_take(struct atoll_spare *spare, uint32_t outside, uint32_t layer_base,
                     struct atoll_spare_set *ret) ATOLL_MUST_CHECK;
/* Creates the namespaces of the range after the last one taken, unless they exist already. */
void atoll_spare_make(struct atoll_spare *spare);
