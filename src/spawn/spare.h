#pragma once
#include "base/error.h"

/*
 * The user and network namespaces of the next sandbox, created in advance while spawn is idle: the
 * first takes a fork, and the second a sixth of the time of a create. Id ranges are allocated in
 * order, so the next one is known.
 */
struct atoll_spare;

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Returns a user namespace that maps a whole range to [outside, …): the spare one if it matches,
 * else a new one. *ret_netns is its network namespace, or ATOLL_NO_FD if none was prepared. The
 * caller owns both descriptors. -errno. */
int atoll_spare_take(struct atoll_spare *spare, uint32_t outside, int *ret_netns) ATOLL_MUST_CHECK;
/* Creates the namespaces of the range after the last one taken, unless they exist already. */
void atoll_spare_make(struct atoll_spare *spare);
