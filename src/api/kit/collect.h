#pragma once
#include "api/json_out.h"
#include "api/kit/exec_pump.h"

/*
 * Collects the output of a command until it ends: the first megabyte of each stream. Ownership: the
 * caller's storage; what is inside is freed by _done.
 */
#define ATOLL_COLLECT_MAX ((size_t)1024 * 1024)

struct atoll_collect {
    struct atoll_exec_pump pump;
    struct atoll_buf streams[ATOLL_STREAM_STDERR + 1]; /* by stream number */
    bool truncated[ATOLL_STREAM_STDERR + 1];
    /* Called once, with the result or with an error. It may call atoll_collect_done(). */
    void (*ended)(void *arg, const struct atoll_exec_result *result,
                  const struct atoll_error *error);
    void *arg;
};

/* `ended` may be called before this returns, as its last action. */
void atoll_collect_start(struct atoll_collect *c, struct atoll_loop *loop, struct atoll_exec *exec,
                         void (*ended)(void *arg, const struct atoll_exec_result *result,
                                       const struct atoll_error *error),
                         void *arg);
/* The same with the output that there is now. If the command runs, it ends with neither a result nor an
 * error. */
void atoll_collect_so_far(struct atoll_collect *c, struct atoll_loop *loop, struct atoll_exec *exec,
                          void (*ended)(void *arg, const struct atoll_exec_result *result,
                                        const struct atoll_error *error),
                          void *arg);
/* Safe on a zeroed struct. */
void atoll_collect_done(struct atoll_collect *c);
/* Writes "stdout", "stderr" and, if output was dropped, "stdout_truncated":true and the like. */
void atoll_collect_write(const struct atoll_collect *c, struct atoll_json_out *out);
