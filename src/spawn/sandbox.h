#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * The sandboxes spawn has made: from a plan to a running agent, and back to nothing. Removing is
 * the one way to undo, whether a start failed half-way, the agent died or the daemon asks; it is
 * complete (process, cgroup, directory) before it is reported.
 * Thread: the loop's. Nothing here waits: a start and a removal go on while others are served.
 */
struct atoll_sandboxes;

struct atoll_sandbox_exit {
    int code;   /* -1 when a signal ended it */
    int signal; /* 0 when it exited */
    struct atoll_cgroup_stats stats;
};

struct atoll_sandboxes_events {
    /* A start ended: ret_pid > 0, or error (nothing of it is left then). */
    void (*started)(void *arg, const char *id, uint32_t request, pid_t pid, uint64_t boot_us,
                    const struct atoll_error *error, const char *step);
    /* The first process of a started sandbox is gone; what remains waits for a removal. */
    void (*exited)(void *arg, const char *id, const struct atoll_sandbox_exit *exit);
    /* Nothing of it is left, or error says what is. */
    void (*removed)(void *arg, const char *id, uint32_t request,
                    const struct atoll_sandbox_exit *exit, const struct atoll_error *error);
    /* A freeze or thaw ended. */
    void (*frozen)(void *arg, uint32_t request, const struct atoll_error *error);
};

int atoll_sandboxes_new(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                        const struct atoll_sandboxes_events *events, void *arg,
                        struct atoll_sandboxes **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Starts one; `started` comes later. Fails at once for a bad or used id. */
int atoll_sandboxes_start(struct atoll_sandboxes *all, const char *id, uint32_t request,
                          const uint8_t *plan, size_t plan_len,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes one; `removed` comes later, also for one that does not exist. A disk that can outlive its
 * sandbox goes too, unless it is to be kept: then it is not mounted any more. */
void atoll_sandboxes_remove(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            bool keep_disk);
/* Makes its processes stand still, or go on; `frozen` comes later. */
void atoll_sandboxes_freeze(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            bool frozen);
/* How many there are, in whatever state. */
/* Whoever asked is gone: their requests are not answered, so that no other daemon takes an answer
 * for its own, and a sandbox that is being started for them is undone. */
void atoll_sandboxes_forget_requests(struct atoll_sandboxes *all);

size_t atoll_sandboxes_count(const struct atoll_sandboxes *all);
/* Whether any of them, in whatever state, has ids among these. */
bool atoll_sandboxes_use_ids(const struct atoll_sandboxes *all, uint32_t first, uint32_t count);
/* Walks the started ones: start with *pos = 0; NULL at the end. */
const char *atoll_sandboxes_next(const struct atoll_sandboxes *all, size_t *pos, pid_t *ret_pid);
