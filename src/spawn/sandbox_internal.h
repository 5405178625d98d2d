#pragma once
#include "base/map.h"
#include "spawn/sandbox.h"

/* Shared by sandbox.c (making) and undo.c (removing). */

enum sandbox_state {
    SANDBOX_STARTING,
    SANDBOX_RUNNING,
    SANDBOX_EXITED,   /* the first process is gone, the rest waits for a removal */
    SANDBOX_FAILED,   /* a start failed: being undone, then `started` tells */
    SANDBOX_REMOVING, /* being undone, then `removed` tells */
};

#define SANDBOX_JOINED_MAX 8

struct sandbox {
    struct atoll_sandboxes *all;
    char id[33];
    enum sandbox_state state;
    uint32_t request; /* the daemon's request that waits for an answer; 0: none does */
    uint32_t joined[SANDBOX_JOINED_MAX]; /* removals asked for while one is under way */
    unsigned joined_count;
    uint64_t begun_us;
    pid_t pid; /* 0 once reaped */
    int pidfd;
    int status_fd;
    struct atoll_watch status_watch, pid_watch;
    struct atoll_timer retry; /* of the undoing */
    unsigned tries;
    pid_t sweeper;           /* process that removes a large tree, or 0 */
    struct atoll_po_ids ids; /* as in struct atoll_plan_run, like those that follow */
    bool kept_disk, existing_disk;
    bool keep_disk;          /* REMOVING: all but the disk goes */
    bool frozen;             /* or on its way to it */
    uint32_t freeze_request; /* waits for its processes to stand still; 0: none does */
    struct atoll_timer freezing;
    unsigned freeze_tries;
    struct atoll_sandbox_exit exit;
    struct atoll_error error; /* FAILED */
    char step[16];
};

struct atoll_sandboxes {
    struct atoll_loop *loop;
    const struct atoll_spawn_host *host;
    const struct atoll_sandboxes_events *events;
    void *arg;
    struct atoll_map by_id; /* of struct sandbox, owned */
    struct atoll_timer spare_timer;
};

/* Takes one more step of removing: called when it begins, when the process is gone, and by its own
 * timer. Frees the sandbox at the end. */
void atoll_sandbox_undo(struct sandbox *s);
/* freeze.c: lets it go on so that it can be killed; whoever waited for it to stand still is told. */
void atoll_sandbox_thaw(struct sandbox *s);
void atoll_sandbox_free(struct sandbox *s);
/* The disk of a sandbox that is not there any more. Absent is fine. */
void atoll_sandbox_drop_disk(const struct atoll_spawn_host *host, const char *id);
