#pragma once
#include "agent/agent_internal.h"

/*
 * Shared by the two halves of watching: watch.c speaks with the daemon and reads events,
 * watch_tree.c knows which directories are watched and adds new ones.
 */
#define ATOLL_AGENT_WATCH_DIRS_MAX 8192
/* Longest path below the root of a watch. */
#define ATOLL_AGENT_WATCH_PATH_MAX 3072
/* Read from the kernel at once. Small, as each record may become a frame with a long path. */
#define ATOLL_AGENT_WATCH_CHUNK 4096

/* A watched directory. */
struct atoll_agent_watch_dir {
    int wd;
    char *path; /* owned, relative to the root; NULL: no longer watched */
};

/* A directory to be added. */
struct atoll_agent_watch_pending {
    struct atoll_agent_watch_pending *next;
    bool report; /* what it holds is news */
    char path[];
};

struct atoll_agent_watch {
    struct atoll_agent *agent;
    struct atoll_agent_job job; /* in the agent's list while there are pending directories */
    bool working;
    bool failed; /* to be freed with the job */
    bool recursive;
    uint32_t handle;
    uint32_t request; /* of WATCH_START, until all directories are added */
    int fd;           /* owned: inotify */
    char *root_path; /* owned, without links: the directory is not kept open, or the kernel would */
    dev_t root_dev;  /* not tell of its end; device and inode say whether it is still there */
    ino_t root_ino;
    struct atoll_watch ready;
    struct atoll_agent_user user;
    struct atoll_agent_watch_dir *dirs; /* owned, by rising wd */
    size_t dir_count, dir_cap;
    struct atoll_agent_watch_pending *first, **last;
    int scan_fd; /* owned: directory being read for the first of pending */
};

void atoll_agent_watch_free(struct atoll_agent_watch *w);
/* Takes it out of the agent's table as well. */
void atoll_agent_watch_forget(struct atoll_agent_watch *w);
void atoll_agent_watch_tell(const struct atoll_agent_watch *w, uint8_t kind, const char *name);

/* dir/name, or whichever is not empty. False when it is too long to be followed. */
bool atoll_agent_watch_join(const char *dir, const char *name,
                            char out[ATOLL_AGENT_WATCH_PATH_MAX]);
/* NULL when there is no such directory (any more). */
struct atoll_agent_watch_dir *atoll_agent_watch_dir_of(const struct atoll_agent_watch *w, int wd);
/* A directory left the tree: neither it nor what is below it is watched any longer. */
void atoll_agent_watch_drop_below(struct atoll_agent_watch *w, const char *path);
/* Remembers the root by its real path and inode. -errno. */
int atoll_agent_watch_find_root(struct atoll_agent_watch *w, const char *path) ATOLL_MUST_CHECK;
/* Queues a directory and makes sure that somebody works on the queue. */
int atoll_agent_watch_add(struct atoll_agent_watch *w, const char *path, bool report,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* What -errno means when a watch is set up. */
int atoll_agent_watch_explain(const struct atoll_agent_watch *w, struct atoll_error *err, int r);
