#pragma once
#include "agent/agent_internal.h"

/*
 * Shared by watch.c, which reads events and sends them to the daemon, and watch_tree.c, which keeps
 * the set of watched directories and adds new ones.
 */
#define ATOLL_AGENT_WATCH_DIRS_MAX 8192
/* Maximum length of a path below the root of a watch. */
#define ATOLL_AGENT_WATCH_PATH_MAX 3072
/* Bytes read from the kernel at once. Small, because each record may become a frame with a long
 * path. */
#define ATOLL_AGENT_WATCH_CHUNK 4096

/* A watched directory. */
struct atoll_agent_watch_dir {
    int wd;
    char *path; /* owned, relative to the root; NULL: no longer watched */
};

/* A directory to be added. */
struct atoll_agent_watch_pending {
    struct atoll_agent_watch_pending *next;
    bool report; /* its entries are reported as created */
    char path[];
};

struct atoll_agent_watch {
    struct atoll_agent *agent;
    struct atoll_agent_job job; /* in the agent's list while there are pending directories */
    bool working;
    bool failed; /* freed with the job */
    bool recursive;
    uint32_t handle;
    uint32_t request; /* of WATCH_START, until all directories are added */
    int fd;           /* owned: inotify */
    /* The root is not kept open, or inotify would not report its removal; device and inode identify
     * it. */
    char *root_path; /* owned, without links */
    dev_t root_dev;
    ino_t root_ino;
    struct atoll_watch ready;
    struct atoll_agent_user user;
    struct atoll_agent_watch_dir *dirs; /* owned, by rising wd */
    size_t dir_count, dir_cap;
    struct atoll_agent_watch_pending *first, **last;
    int scan_fd; /* owned: directory being read for the first of pending */
};

void atoll_agent_watch_free(struct atoll_agent_watch *w);
/* Frees the watch and removes it from the agent's table. */
void atoll_agent_watch_forget(struct atoll_agent_watch *w);
void atoll_agent_watch_tell(const struct atoll_agent_watch *w, uint8_t kind, const char *name);

/* Writes dir/name, or the one that is not empty. False if the path is too long to be watched. */
bool atoll_agent_watch_join(const char *dir, const char *name,
                            char out[ATOLL_AGENT_WATCH_PATH_MAX]);
/* NULL if wd is not, or no longer, a watched directory. */
struct atoll_agent_watch_dir *atoll_agent_watch_dir_of(const struct atoll_agent_watch *w, int wd);
/* A directory left the tree: neither it nor what is below it is watched any longer. */
void atoll_agent_watch_drop_below(struct atoll_agent_watch *w, const char *path);
/* Stores the root's real path, device and inode. -errno. */
int atoll_agent_watch_find_root(struct atoll_agent_watch *w, const char *path) ATOLL_MUST_CHECK;
/* Queues a directory and starts the job that works on the queue. */
int atoll_agent_watch_add(struct atoll_agent_watch *w, const char *path, bool report,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
/* Sets the error text for a failure -errno of setting up a watch. */
int atoll_agent_watch_explain(const struct atoll_agent_watch *w, struct atoll_error *err, int r);
