#pragma once
#include "base/error.h"

#include <limits.h>

/*
 * The cgroups of the floor benchmark: one directory per v1 hierarchy, or one on v2. Limits are the
 * ones a sandbox gets (memory, pids, cpu). A controller the host does not have is left out and
 * therefore missing in atoll_floor_cgroup_describe(), which the report prints.
 * Blocking: cgroupfs only.
 */
#define FLOOR_CGROUPS_MAX 5
#define FLOOR_LIMITS_MAX 3

struct atoll_floor_cgroup {
    bool v2;
    size_t count;                                 /* hierarchies in use; 1 on v2 */
    char parent[FLOOR_CGROUPS_MAX][PATH_MAX / 4]; /* our own directory in each */
    int limit_at[FLOOR_LIMITS_MAX];               /* which hierarchy has the limit, -1 for none */
    int dir_fd;                                   /* v2: the cgroup of the current round */
    unsigned round;
};

/* Picks v1 when its memory controller is mounted, v2 otherwise; `force_v2` insists on v2. Makes
 * the parent directories. After a failure atoll_floor_cgroup_remove() is still to be called. */
int atoll_floor_cgroup_open(struct atoll_floor_cgroup *cg, bool force_v2,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Directories and limits of one round. */
int atoll_floor_cgroup_create(struct atoll_floor_cgroup *cg, unsigned round,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* v1, in the child: the caller moves itself into the directories of the round. No-op on v2, where
 * clone3 already placed it. Returns -errno. */
int atoll_floor_cgroup_enter(const struct atoll_floor_cgroup *cg) ATOLL_MUST_CHECK;

/* FAILED_PRECONDITION unless process `pid` is in every directory of the round. */
int atoll_floor_cgroup_verify(const struct atoll_floor_cgroup *cg, pid_t pid,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* Removes the directories of the round; waits up to a second for the kernel to let go of them. */
int atoll_floor_cgroup_destroy(struct atoll_floor_cgroup *cg,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* Removes the parents. Safe on a half-opened object. */
int atoll_floor_cgroup_remove(struct atoll_floor_cgroup *cg,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

/* "v1 limits=memory,pids,cpu" */
void atoll_floor_cgroup_describe(const struct atoll_floor_cgroup *cg, char *text, size_t size);
