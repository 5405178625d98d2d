#pragma once
#include "base/list.h"
#include "engine/engine.h"

/*
 * Callbacks that wait for one event, in a list of the caller's.
 */

void atoll_waiters_add(struct atoll_list *list, atoll_done_fn *done, void *arg);
/* Each once; they leave the list before the first of them is told. */
void atoll_waiters_tell(struct atoll_list *list, const struct atoll_error *error);
