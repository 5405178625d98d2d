#pragma once
#include "api/call.h"

/*
 * Iterates over the sandboxes in the caller's lists, in list order, some per turn of the loop, so
 * that a response about ten thousand sandboxes does not delay other clients. Sandboxes created or
 * destroyed meanwhile may or may not be visited; none is visited twice.
 */
struct atoll_rest_walk;

/* Visits one sandbox; false ends the walk. */
typedef bool atoll_rest_walk_fn(void *arg, struct atoll_sandbox *sandbox);

/* Starts after that position in the order (0 and "" for all), with `step` sandboxes per turn,
 * the first of them before this returns. `done` is called once, at the end, possibly before this
 * returns. */
void atoll_rest_walk(struct atoll_api_call *call, int64_t after_unix_ms, const char *after_id,
                     size_t step, atoll_rest_walk_fn *each, void (*done)(void *arg), void *arg);
