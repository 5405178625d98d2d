#pragma once
#include "base/error.h"

/*
 * The user namespace of the next sandbox, created in advance while spawn is idle, because it takes
 * a fork. Id ranges are allocated in order, so the next one is known.
 */
struct atoll_spare;

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Returns a namespace that maps a whole range to [outside, …): the spare one if it matches, else a
 * new one. The caller owns the descriptor. -errno. */
int atoll_spare_take(struct atoll_spare *spare, uint32_t outside) ATOLL_MUST_CHECK;
/* Creates the namespace of the range after the last one taken, unless it exists already. */
void atoll_spare_make(struct atoll_spare *spare);
