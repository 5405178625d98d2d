#pragma once
#include "engine/engine.h"

/*
 * Merges: what forks have changed since they were made is brought into another sandbox of their tenant, which goes on
 * running; and tries: forks that run a command each, of which the best is merged.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns.
 */
#define ATOLL_MERGE_FORKS_MAX 32

struct atoll_merge_request {
    const char *const *from; /* ids of sandboxes, NULL-terminated */
    const char *prefer;      /* "ours", "theirs": decides conflicts; NULL: they prevent the merge */
    bool dry_run;            /* nothing is written */
};
/* report_json: {"merged", "changes": […], "conflicts": […]}; borrowed. If there are conflicts, nothing is written and "merged" is
 * false; conflicts of two forks have the earlier one as "with". What the target or a fork writes while they are merged
 * may still be a conflict when something has been written. */
typedef void atoll_merge_fn(void *arg, const char *report_json, const struct atoll_error *error);
/* NOT_FOUND, INVALID_ARGUMENT; FAILED_PRECONDITION: a sandbox does not run. RESOURCE_EXHAUSTED: more than
 * 16 MiB are to be written. */
void atoll_engine_merge(struct atoll_engine *engine, const char *sandbox_id,
                        const struct atoll_merge_request *request, atoll_merge_fn *done, void *arg);

struct atoll_try_request {
    uint32_t count;
    const char *const *argv, *const *env;
    const char *user, *cwd; /* NULL: default */
    uint32_t timeout_ms;    /* of each command; 0: none */
};
/* Forks the sandbox `count` times and runs the command in each, with ATOLL_TRY=0… in its environment. The score is the
 * number on the last line of the output; without one it is 1 for exit status 0, else 0. The fork with the highest score
 * above 0, the first of equals, is merged; all forks are destroyed. If the best could not be merged, because of conflicts
 * or of an error, it is kept. report_json: {"tries": [each with the end of its output], "best", "merge", "kept": its id or null, "error": of the merge}.
 * An error instead of a report: there is no fork. */
void atoll_engine_try(struct atoll_engine *engine, const char *sandbox_id,
                      const struct atoll_try_request *request, atoll_merge_fn *done, void *arg);
/* Frees those in progress without calling done. */
void atoll_merges_done(struct atoll_engine *engine);
void atoll_tries_done(struct atoll_engine *engine);
