#pragma once
#include "engine/engine.h"
#include "registry/registry.h"

/*
 * Creates a sandbox from an environment and runs the environment's start command in it. If that
 * fails, the sandbox is destroyed before done is called. A template that the environment defines is built
 * first, if it is not there (environment_build.h), unless the request names a template or an image.
 *
 * Thread: the loop's. done is called exactly once, possibly before the call returns.
 */

struct atoll_environment_made {
    const char *sandbox_id;
    const char *start_exec; /* id of the start command's exec; "": none was started */
    int64_t created_unix_ms;
};
/* A step of the caller: calls done(done_arg, …) exactly once. made is borrowed until then. */
typedef void atoll_environment_fn(void *arg, const struct atoll_environment_made *made,
                                  atoll_done_fn *done, void *done_arg);

/* All of it is borrowed for the call. */
struct atoll_environment_create {
    const struct atoll_environment *environment; /* one whose fields are all 0 adds nothing */
    /* What the request asks for. The environment adds the template or image (if neither is set),
     * limits that are 0, variables that env does not have, and its network if the request names none. The interpreter is that of language,
     * or of the environment's. */
    struct atoll_options sandbox;
    /* Refuse a sandbox without the programs that the environment requires (FAILED_PRECONDITION says
     * what to do). */
    bool check;
    /* Steps before and after the start command; or NULL. If one fails, the sandbox is destroyed. */
    atoll_environment_fn *before_start, *after_start;
};
/* arg is for done and for the steps. ABORTED: the sandbox was destroyed meanwhile. */
void atoll_environment_create(struct atoll_engine *engine,
                              const struct atoll_environment_create *create, atoll_sandbox_fn *done,
                              void *arg);

/* Runs a start command (an environment's field start) in a sandbox. NULL: done gets neither an exec
 * nor an error. */
void atoll_environment_start(struct atoll_engine *engine, const json_t *start,
                             const char *sandbox_id, atoll_exec_fn *done, void *arg);
