#pragma once
#include "base/error.h"

/*
 * The user namespace of the next sandbox, made ahead while spawn has nothing to do: it takes a
 * fork, and id ranges are handed out in order, so that the next one is known.
 */
struct atoll_spare;

int atoll_spare_new(struct atoll_spare **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The namespace that maps a whole range to [outside, …): the spare one when it fits, else a fresh
 * one. A descriptor of the caller's, or -errno. */
int atoll_spare_take(struct atoll_spare *spare, uint32_t outside) ATOLL_MUST_CHECK;
/* Makes the one after the last that was taken, unless it is there. */
void atoll_spare_make(struct atoll_spare *spare);
