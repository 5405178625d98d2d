#pragma once
#include "api/call.h"

/*
 * A walk through the sandboxes in the caller's lists, in their order, some in each turn of the loop,
 * so that an answer about ten thousand of them keeps no other client waiting. Sandboxes that come or
 * go meanwhile are met or not; none is met twice.
 */
struct atoll_rest_walk;

/* One sandbox; false ends the walk. */
typedef bool atoll_rest_walk_fn(void *arg, struct atoll_sandbox *sandbox);

/* Begins behind that place in the order (0 and "" for all of them), with `step` sandboxes in each turn,
 * the first of them before this returns. `done` is called once, at the end, perhaps before this
 * returns. */
void atoll_rest_walk(struct atoll_api_call *call, int64_t after_unix_ms, const char *after_id,
                     size_t step, atoll_rest_walk_fn *each, void (*done)(void *arg), void *arg);
