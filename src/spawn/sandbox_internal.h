#pragma once
#include "base/list.h"
#include "base/map.h"
#include "spawn/sandbox.h"

/* Shared by sandbox.c (start), freeze.c, commit.c, snapshot.c and undo.c (removal). */

enum sandbox_state {
    SANDBOX_STARTING,
    SANDBOX_RUNNING,
    SANDBOX_EXITED,     /* the first process exited; waits for a remove request */
    SANDBOX_COMMITTING, /* its processes end, then its result becomes a layer, then it is EXITED */
    SANDBOX_FAILED,     /* a start failed: being undone, then `started` is called */
    SANDBOX_REMOVING,   /* being undone, then `removed` is called */
};

#define SANDBOX_JOINED_MAX 8

struct sandbox {
    struct atoll_sandboxes *all;
    char id[33];
    enum sandbox_state state;
    uint32_t request; /* the daemon's request that waits for an answer; 0: none */
    uint32_t joined[SANDBOX_JOINED_MAX]; /* remove requests that came during a removal */
    unsigned joined_count;
    uint64_t begun_us;
    pid_t pid; /* 0 once reaped */
    int pidfd;
    int status_fd;               /* our end of the socket of struct atoll_plan_run */
    struct atoll_netspace space; /* its sockets, or ATOLL_NO_FD */
    struct atoll_watch status_watch, pid_watch;
    struct atoll_timer retry; /* of the removal */
    unsigned tries;
    int disk_fd;   /* the top of its disk, while its first process lives, or ATOLL_NO_FD */
    pid_t sweeper; /* process that removes a large tree, or writes a disk; or 0 */
    int sweeper_fd;
    struct atoll_watch sweeper_watch;
    struct atoll_po_ids ids; /* as in struct atoll_plan_run, like those that follow */
    bool kept_disk, existing_disk;
    bool keep_disk;          /* REMOVING: the disk is kept */
    bool unwritten;          /* REMOVING: a disk that is kept need not be written */
    bool flushing, flushed;  /* REMOVING: its disk in the pool is being, or was, written */
    unsigned flushes;        /* that failed */
    bool frozen;             /* frozen or freezing */
    uint32_t freeze_request; /* waits for its processes to be frozen; 0: none */
    struct atoll_timer freezing;
    unsigned freeze_tries;
    int keep_fd; /* to the process that keeps runsc (runsc_keep.c), or ATOLL_NO_FD */
    struct atoll_watch keep_watch;
    uint32_t save_request;   /* waits for a save or a restore; 0: none */
    bool saved;              /* runsc has ended; its memory is on disk */
    bool reclaimed;          /* some of its memory may be in swap */
    struct reclaim *reclaim; /* in progress, or NULL; reclaim.c */
    struct {
        uint32_t request; /* 0: no request waits */
        char path[16], layer[65];
        pid_t pid; /* of the process that makes the layer, or 0 */
        int pidfd;
        int sum_fd; /* read end: what the layer has */
        struct atoll_watch watch;
    } commit; /* commit.c */
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
    struct atoll_list snapshots; /* snapshot.c */
    unsigned snapshot_count;
};

/* Performs the next step of the removal: called at its begin, when the process has exited, and by
 * the retry timer. Frees the sandbox at the end. */
void atoll_sandbox_undo(struct sandbox *s);
/* freeze.c: thaws the sandbox so that it can be killed; a waiting freeze request fails. */
void atoll_sandbox_thaw(struct sandbox *s);
/* save.c: takes over the connection to the process that keeps runsc. */
void atoll_sandbox_keep(struct sandbox *s, int fd);
void atoll_sandbox_save(struct sandbox *s, uint32_t request, unsigned how);
/* Closes the connection. */
void atoll_sandbox_unkeep(struct sandbox *s);
/* reclaim.c: ends the freeing of its memory, if it is in progress. */
void atoll_sandbox_end_reclaim(struct sandbox *s);
/* Its request is not answered. */
void atoll_sandbox_forget_reclaim(struct sandbox *s);
/* commit.c: the processes of a builder have ended: makes its result a layer. */
void atoll_sandbox_commit(struct sandbox *s);
/* Ends the process that does so. */
void atoll_sandbox_end_commit(struct sandbox *s);
/* The same, and fails the request. The sandbox is EXITED then. */
void atoll_sandbox_abort_commit(struct sandbox *s);
void atoll_sandbox_free(struct sandbox *s);
/* Closes its sockets, which keep its network namespace. */
void atoll_sandbox_close_network(struct sandbox *s);
/* Closes the top of its disk, which keeps it mounted. */
void atoll_sandbox_close_disk(struct sandbox *s);
/* snapshot.c: ends the making of a snapshot of this sandbox, if there is one; its processes go on. Its
 * request is answered. */
void atoll_snapshot_abort(struct atoll_sandboxes *all, const char *id);
/* The same for all sandboxes; requests are not answered. */
void atoll_snapshots_abort(struct atoll_sandboxes *all);
bool atoll_snapshot_is_made(const struct atoll_sandboxes *all, const char *id);
/* Deletes the disk of a sandbox that does not run, or the mark of its disk in the pool. A missing one is not
 * an error. */
void atoll_sandbox_drop_disk(const struct atoll_spawn_host *host, const char *id);
