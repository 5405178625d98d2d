#pragma once
#include "loop/loop.h"
#include "proto/spawn_proto.h"
#include "spawn/plan_run.h"
#include "sys/netspace.h"

/*
 * The sandboxes of this spawn: executes a plan until the agent runs, and removes sandboxes. Removal
 * is the same code for a failed start, a dead agent and a request of the daemon; it is reported
 * when it is complete (process, cgroup, directory).
 * Thread: the loop's. Never blocks: starts and removals run while other requests are served.
 */
struct atoll_sandboxes;

struct atoll_sandbox_exit {
    int code;   /* -1 if a signal killed it */
    int signal; /* 0 if it exited */
    struct atoll_cgroup_stats stats;
};

struct atoll_sandboxes_events {
    /* A start ended: pid > 0, or error (then everything was removed). */
    void (*started)(void *arg, const char *id, uint32_t request, pid_t pid, uint64_t boot_us,
                    const struct atoll_error *error, const char *step);
    /* The first process of a started sandbox exited; its resources remain until it is removed. */
    void (*exited)(void *arg, const char *id, const struct atoll_sandbox_exit *exit);
    /* The sandbox is removed, or error says why not. */
    void (*removed)(void *arg, const char *id, uint32_t request,
                    const struct atoll_sandbox_exit *exit, const struct atoll_error *error);
    /* A freeze, a thaw or a reclaim ended. */
    void (*frozen)(void *arg, uint32_t request, const struct atoll_error *error);
    /* A commit or a snapshot ended. made: NULL if there is an error. */
    void (*committed)(void *arg, uint32_t request, const struct atoll_sm_layer *made,
                      const struct atoll_error *error);
    /* A tree that was not completed has this name among the layers now, and has to be dropped. */
    void (*left)(void *arg, const char *name, const struct atoll_po_ids *ids);
};

int atoll_sandboxes_new(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                        const struct atoll_sandboxes_events *events, void *arg,
                        struct atoll_sandboxes **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Starts a sandbox; `started` is called later. Fails at once if the id is invalid or in use. */
int atoll_sandboxes_start(struct atoll_sandboxes *all, const char *id, uint32_t request,
                          const uint8_t *plan, size_t plan_len,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Removes a sandbox; `removed` is called later, also if it does not exist. Deletes a disk that can
 * outlive its sandbox, unless keep_disk is set; a kept disk is unmounted when `removed` is
 * called, and written to stable storage unless `unwritten` is set. */
void atoll_sandboxes_remove(struct atoll_sandboxes *all, uint32_t request,
                            const struct atoll_sm_remove *want);
/* Freezes, thaws or saves its processes (ATOLL_FREEZE_*); `frozen` is called later. */
void atoll_sandboxes_freeze(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            unsigned how);
/* Frees memory of a sandbox whose processes are frozen; `frozen` is called later. */
int atoll_sandboxes_reclaim(struct atoll_sandboxes *all, const char *id, uint32_t request,
                            struct atoll_error *err) ATOLL_MUST_CHECK;
/* Ends the processes of a builder and makes its result ("import", or "": the writable layer) a layer;
 * `committed` is called later. The sandbox stays until it is removed. */
int atoll_sandboxes_commit(struct atoll_sandboxes *all, const char *id, uint32_t request,
                           const char *path, const char *layer,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Copies what a sandbox changed in its root to a layer; `committed` is called later. The
 * sandbox continues afterwards. Without a sandbox of that id, its kept disk is copied. */
int atoll_sandboxes_snapshot(struct atoll_sandboxes *all, uint32_t request,
                             const struct atoll_sm_snapshot *want,
                             struct atoll_error *err) ATOLL_MUST_CHECK;
/* The daemon disconnected: its requests are not answered, so that the next daemon cannot mistake an
 * answer for its own, and sandboxes being started for it are removed. */
void atoll_sandboxes_forget_requests(struct atoll_sandboxes *all);

/* The sockets of a started sandbox with a network; NULL: absent. */
const struct atoll_netspace *atoll_sandboxes_network(const struct atoll_sandboxes *all,
                                                     const char *id);

/* Number of sandboxes in any state. */
size_t atoll_sandboxes_count(const struct atoll_sandboxes *all);
/* True if a sandbox in any state has ids in [first, first + count). */
bool atoll_sandboxes_use_ids(const struct atoll_sandboxes *all, uint32_t first, uint32_t count);
/* Iterates over started sandboxes: begin with *pos = 0; NULL at the end. */
const char *atoll_sandboxes_next(const struct atoll_sandboxes *all, size_t *pos, pid_t *ret_pid);
