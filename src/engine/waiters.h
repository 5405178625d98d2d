#pragma once
#include "base/list.h"
#include "engine/engine.h"

/*
 * Callbacks that wait for one event, in a list that the caller owns.
 */

void atoll_waiters_add(struct atoll_list *list, atoll_done_fn *done, void *arg);
/* Removes all without calling them. */
void atoll_waiters_drop(struct atoll_list *list);
/* Calls each once. All are removed from the list before the first call. */
void atoll_waiters_tell(struct atoll_list *list, const struct atoll_error *error);
