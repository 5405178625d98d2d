#pragma once
#include "spawn/plan_run.h"
#include "spawn/walk.h"

/*
 * The process that copies the writable layer of a sandbox to a new layer; see snapshot.c. It runs in
 * atoll_child_work() and talks with spawn by a socket: it sends ATOLL_SNAPSHOT_ASK when it wants the
 * processes of the sandbox to stand still, waits for a byte, and then until they do; when it has copied, it
 * sends struct atoll_snapshot_copied, and they may go on. It may send that once more, with other figures.
 */
struct atoll_snapshot_work {
    const struct atoll_spawn_host *host;
    int disk_fd; /* the top of the disk, or ATOLL_NO_FD: the kept disk of a sandbox that does not run */
    int link_fd; /* the socket */
    bool moves;  /* processes run: copy while they run first, then ask */
    bool small;  /* but there is little to copy: spawn sends the byte without being asked */
    bool userxattr;
    uint32_t outside, layer_base; /* first ids; without root the same */
    const char *id, *layer;
};

struct atoll_snapshot_copied {
    struct atoll_walk_sum sum;
};

#define ATOLL_SNAPSHOT_ASK "f"
/* The answers: processes are being frozen; there are none. */
#define ATOLL_SNAPSHOT_FREEZING "f"
#define ATOLL_SNAPSHOT_EMPTY "e"
/* The unfinished layer, in sandboxes/. */
#define ATOLL_SNAPSHOT_SUFFIX "snap"

/* arg: struct atoll_snapshot_work. Limits the memory of the calling process for good. */
int atoll_snapshot_do(const void *arg) ATOLL_MUST_CHECK;

/* Asks for stillness. */
int atoll_snapshot_ask(const struct atoll_snapshot_work *work) ATOLL_MUST_CHECK;
/* Waits for it, at most ten seconds: -ETIMEDOUT. */
int atoll_snapshot_await(const struct atoll_snapshot_work *work) ATOLL_MUST_CHECK;
/* snapshot_cow.c: the same for a disk in the pool, by the name of its subvolume. */
int atoll_snapshot_cow(const struct atoll_snapshot_work *work, const char *disk) ATOLL_MUST_CHECK;

/* commit.c: removes our programs from a copy of a writable layer, if they are unchanged. */
void atoll_commit_remove_tools(int state_fd, int layer_fd);
