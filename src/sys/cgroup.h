#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * The cgroups of sandboxes, on v2 or on whatever v1 controllers the host mounts. All groups of one
 * Atoll instance live below one parent (`atoll-<instance>`), so that orphans can be found.
 * cgroup_open.c finds the place for that, cgroup.c works below it.
 * Blocking: cgroupfs only. Every function returns -errno.
 */
enum atoll_cgroup_controller {
    ATOLL_CG_MEMORY,
    ATOLL_CG_CPU,
    ATOLL_CG_CPUACCT,
    ATOLL_CG_PIDS,
    ATOLL_CG_FREEZER,
    ATOLL_CG_COUNT,
};

/* A v2 group with controllers for its children may have no processes of its own: where we work
 * below our own group, everybody in it is moved into this child of it first. A service manager that
 * starts us in a group of this name has prepared that, and means its parent for us. */
#define ATOLL_CGROUP_LEAF "atoll-daemon"

/* v1: the limit on what waits in sockets, which is one part in so many of the memory limit. v2 counts
 * that as memory. */
#define ATOLL_CGROUP_SOCKETS_V1 "memory.kmem.tcp.limit_in_bytes"
#define ATOLL_CGROUP_SOCKETS_SHARE 4

/* v1: hierarchies with one group for all sandboxes of the instance, `atoll-<instance>` itself, since
 * what holds there is the same for each of them. Into the first two spawn goes itself, and its
 * sandboxes are born there; the last takes one write for each. */
enum atoll_cgroup_common {
    ATOLL_CG_CPUSET,  /* CPUs and memory nodes; those of the parent, for the operator to change */
    ATOLL_CG_BLKIO,   /* for the operator's weights and limits */
    ATOLL_CG_DEVICES, /* all are refused but those in /dev of a sandbox */
    ATOLL_CG_COMMON_COUNT,
};

struct atoll_cgroups {
    int version;                          /* 0: none usable, 1, 2 */
    int parent_fd[ATOLL_CG_COUNT];        /* owned; on v2 only [0] is used; ATOLL_NO_FD if absent */
    bool has[ATOLL_CG_COUNT];             /* this controller can limit or measure here */
    int common_fd[ATOLL_CG_COMMON_COUNT]; /* owned; v1 only; ATOLL_NO_FD if absent */
    char path[512];                       /* v2: the parent's directory */
};

/* Makes the instance's parent groups, on v2 in the first place that gives any limit: the group we
 * were put into for it, the root of the hierarchy, our own group if it was delegated to us.
 * Version 0 with success when the host has no usable cgroups for us. */
int atoll_cgroups_make(struct atoll_cgroups *ret, const char *instance) ATOLL_MUST_CHECK;
/* Opens what another process has made; `path` is what that one has in its struct, "" looks for it
 * in the same places. Nothing is known about limits then: has[] tells only what is measured. */
int atoll_cgroups_open(struct atoll_cgroups *ret, const char *instance,
                       const char *path) ATOLL_MUST_CHECK;
void atoll_cgroups_close(struct atoll_cgroups *cg);

/* What atoll_cgroups_make() would find, without making anything. */
struct atoll_cgroups_facts {
    bool v1, v2;              /* mounted, with or without controllers */
    int version;              /* as above */
    bool has[ATOLL_CG_COUNT]; /* as above */
    char below[512];          /* v2: the directory that would get the parent */
};
int atoll_cgroups_look(struct atoll_cgroups_facts *ret) ATOLL_MUST_CHECK;

/* v1: moves the calling process to where its sandboxes inherit cpuset and blkio. */
int atoll_cgroups_join_common(const struct atoll_cgroups *cg) ATOLL_MUST_CHECK;
/* Removes the instance's parent groups, after leaving them; -EBUSY while sandboxes live in them. */
int atoll_cgroups_remove_parents(const struct atoll_cgroups *cg,
                                 const char *instance) ATOLL_MUST_CHECK;

/* 0 means no limit in each field. One whose controller is absent is -EOPNOTSUPP. */
struct atoll_cgroup_limits {
    uint64_t memory_bytes;
    uint32_t cpu_millis; /* 1500: one and a half CPUs */
    uint32_t pids;
};

/* Makes the group `id` with its limits. On failure nothing of it remains. */
int atoll_cgroup_create(const struct atoll_cgroups *cg, const char *id,
                        const struct atoll_cgroup_limits *limits) ATOLL_MUST_CHECK;
int atoll_cgroup_set_limits(const struct atoll_cgroups *cg, const char *id,
                            const struct atoll_cgroup_limits *limits) ATOLL_MUST_CHECK;
/* v1: moves the calling single-threaded process in. Writing "0" to `tasks` moves only ourselves, so
 * the kernel (5.15) skips the lock that costs an RCU grace period when a pid is written. */
int atoll_cgroup_enter_v1(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* v1: the same for one of those that all sandboxes share; absent is success. */
int atoll_cgroup_enter_common(const struct atoll_cgroups *cg,
                              enum atoll_cgroup_common c) ATOLL_MUST_CHECK;
/* v2: a descriptor for CLONE_INTO_CGROUP. */
int atoll_cgroup_open_v2(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Read-only descriptors of the file with the "oom_kill N" line, and of the peak memory file. */
int atoll_cgroup_open_oom(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
int atoll_cgroup_open_peak(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Files that tell what a group uses and may use; spelled differently by v1 and v2, where every reader
 * has to know both. */
enum atoll_cgroup_file {
    ATOLL_CGF_MEMORY_USED,
    ATOLL_CGF_MEMORY_STAT,
    ATOLL_CGF_MEMORY_LIMIT,
    ATOLL_CGF_CPU_USED,
    ATOLL_CGF_CPU_LIMIT,
    ATOLL_CGF_COUNT,
};
/* A read-only descriptor; -ENOENT where the controller is absent. */
int atoll_cgroup_open_file(const struct atoll_cgroups *cg, const char *id,
                           enum atoll_cgroup_file file) ATOLL_MUST_CHECK;
/* Whether groups here can be made to stand still. */
bool atoll_cgroups_can_freeze(const struct atoll_cgroups *cg);
/* Asks for it, or for its end, which is there at once. -EOPNOTSUPP without a freezer. */
int atoll_cgroup_freeze(const struct atoll_cgroups *cg, const char *id,
                        bool frozen) ATOLL_MUST_CHECK;
/* 1 once every process stands still, 0 while some are on their way to it. */
int atoll_cgroup_is_frozen(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Kills every process still in it, frozen ones too. */
int atoll_cgroup_kill(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Absent is success; -EBUSY while processes are in it. */
int atoll_cgroup_remove(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;

struct atoll_cgroup_stats {
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes; /* limit 0: none */
    uint64_t cpu_us;
    uint64_t processes, processes_peak;
    uint64_t oom_kills;
};
/* Fields whose controller is absent stay 0. -ENOENT when the group is gone. */
int atoll_cgroup_read_stats(const struct atoll_cgroups *cg, const char *id,
                            struct atoll_cgroup_stats *ret) ATOLL_MUST_CHECK;

/* Calls fn for each group below the parent (name without path), for the reaper. */
int atoll_cgroups_each(const struct atoll_cgroups *cg, void (*fn)(void *arg, const char *id),
                       void *arg) ATOLL_MUST_CHECK;
