#pragma once
#include "engine/engine.h"

/*
 * What has changed between two moments of a sandbox.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns.
 */
#define ATOLL_MOMENT_START "start" /* the template that the sandbox was made from */
#define ATOLL_MOMENT_NOW "now"

#define ATOLL_DIFF_LINES_MAX 10000

struct atoll_diff_request {
    /* Moments: "start", "now", the number of a command with checkpoints (the files after it; 0: before the first), or the name of a snapshot or another template. Defaults: start, now. */
    const char *from, *to;
    bool patch;
    const char *below; /* only this directory, absolute; NULL: all */
    uint32_t lines;    /* at most ATOLL_DIFF_LINES_MAX */
};
/* bytes: as atoll_compare_fn (compare.h). */
typedef void atoll_diff_fn(void *arg, const uint8_t *bytes, size_t n,
                           const struct atoll_error *error);
/* UNIMPLEMENTED: the provider has no layers. FAILED_PRECONDITION: as of a snapshot. NOT_FOUND: no such moment. */
void atoll_engine_diff(struct atoll_engine *engine, const char *sandbox_id,
                       const struct atoll_diff_request *request, atoll_diff_fn *done, void *arg);
/* Frees those in progress without calling done. */
void atoll_diffs_done(struct atoll_engine *engine);

/* The stack of a moment other than now; borrowed until the caller returns to the loop. */
struct atoll_sandbox;
int atoll_moment_find(struct atoll_sandbox *sandbox, const char *moment, const char **ret_stack,
                      struct atoll_error *err) ATOLL_MUST_CHECK;
