#pragma once
#include <sys/types.h>
#include "base/defs.h"

/*
 * The cgroups of sandboxes, on v2 or on whatever v1 controllers the host mounts. All groups of one
 * Atoll instance live below one parent (`atoll-<instance>`), so that orphans can be found.
 * cgroup_open.c finds the directory for that parent; cgroup.c works below it.
 * Blocking: cgroupfs only. Every function returns -errno.
 */
enum atoll_cgroup_controller {
    ATOLL_CG_MEMORY,
    ATOLL_CG_CPU,
    ATOLL_CG_CPUACCT,
    ATOLL_CG_PIDS,
    ATOLL_CG_FREEZER,
    ATOLL_CG_IO, /* v2; on v1 has[] says whether blkio can limit devices, see cgroup_io.c */
    ATOLL_CG_COUNT,
};

/* A v2 group that enables controllers for its children may not contain processes itself. If the
 * instance's groups go below our own group, its processes are first moved into this child group. A
 * service manager that starts us in a group of this name has done that already; then the parent of
 * that group is used. */
#define ATOLL_CGROUP_LEAF "atoll-daemon"

/* v1: limit for socket buffers, memory limit / ATOLL_CGROUP_SOCKETS_SHARE. v2 charges socket
 * buffers as memory. */
#define ATOLL_CGROUP_SOCKETS_V1 "memory.kmem.tcp.limit_in_bytes"
#define ATOLL_CGROUP_SOCKETS_SHARE 4

/* v1: hierarchies in which all sandboxes of the instance share the group `atoll-<instance>`,
 * because the settings are the same for all of them. spawn joins the first two itself and sandboxes
 * inherit them; each sandbox joins the last one with one write. */
enum atoll_cgroup_common {
    ATOLL_CG_CPUSET,  /* CPUs and memory nodes: the parent's, unless the operator changes them */
    ATOLL_CG_BLKIO,   /* for the operator's weights and limits */
    ATOLL_CG_DEVICES, /* refuses all devices except those in a sandbox's /dev */
    ATOLL_CG_COMMON_COUNT,
};

struct atoll_cgroups {
    int version;                          /* 0: none usable, 1, 2 */
    int parent_fd[ATOLL_CG_COUNT];        /* owned; on v2 only [0] is used; ATOLL_NO_FD if absent */
    bool has[ATOLL_CG_COUNT];             /* this controller can limit or measure here */
    int common_fd[ATOLL_CG_COMMON_COUNT]; /* owned; v1 only; ATOLL_NO_FD if absent */
    char path[512];                       /* v2: the parent's directory */
};

/* Creates the instance's parent groups. On v2 they go below the first of these groups that offers a
 * limiting controller: the parent of ATOLL_CGROUP_LEAF if we are in such a group, the root of the
 * hierarchy, our own group if it was delegated to us.
 * Success with version 0 if the host has no cgroups that we can use. */
int atoll_cgroups_make(struct atoll_cgroups *ret, const char *instance) ATOLL_MUST_CHECK;
/* Opens the groups that another process created. `path` is the path in that process's struct; ""
 * searches the same places. Limits are then unknown: has[] only says what can be measured. */
int atoll_cgroups_open(struct atoll_cgroups *ret, const char *instance,
                       const char *path) ATOLL_MUST_CHECK;
void atoll_cgroups_close(struct atoll_cgroups *cg);

/* What atoll_cgroups_make() would find; creates nothing. */
struct atoll_cgroups_facts {
    bool v1, v2;              /* mounted, with or without controllers */
    int version;              /* as above */
    bool has[ATOLL_CG_COUNT]; /* as above */
    char below[512];          /* v2: the directory that would get the parent */
};
int atoll_cgroups_look(struct atoll_cgroups_facts *ret) ATOLL_MUST_CHECK;

/* v1: moves the calling process into the shared cpuset and blkio groups, for sandboxes to
 * inherit. */
int atoll_cgroups_join_common(const struct atoll_cgroups *cg) ATOLL_MUST_CHECK;
/* Leaves the instance's parent groups and removes them; -EBUSY while sandboxes are in them. */
int atoll_cgroups_remove_parents(const struct atoll_cgroups *cg,
                                 const char *instance) ATOLL_MUST_CHECK;

/* 0 in a field: no limit. A limit whose controller is absent fails with -EOPNOTSUPP. */
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
/* Limits reads of the group `id` from a block device, and its writes, to so many bytes a second each. v1
 * does not attribute buffered writes to a group: there the limit is that of the device, for all its users,
 * until it is removed. -EOPNOTSUPP unless has[ATOLL_CG_IO]. */
int atoll_cgroup_limit_device(const struct atoll_cgroups *cg, const char *id, dev_t device,
                              uint64_t bytes) ATOLL_MUST_CHECK;
/* v1: removes the limits on the device. v2: nothing to do, they are removed with the group. */
int atoll_cgroup_unlimit_device(const struct atoll_cgroups *cg, dev_t device) ATOLL_MUST_CHECK;
/* v1: moves the calling single-threaded process in. Writing "0" to `tasks` moves only ourselves, so
 * the kernel (5.15) skips the lock that costs an RCU grace period when a pid is written. */
int atoll_cgroup_enter_v1(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* v1: the same for a group that all sandboxes share; success if the hierarchy is absent. */
int atoll_cgroup_enter_common(const struct atoll_cgroups *cg,
                              enum atoll_cgroup_common c) ATOLL_MUST_CHECK;
/* v2: a descriptor for CLONE_INTO_CGROUP. */
int atoll_cgroup_open_v2(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Read-only descriptors of the file with the "oom_kill N" line, and of the peak memory file. */
int atoll_cgroup_open_oom(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
int atoll_cgroup_open_peak(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Files with a group's usage and limits. v1 and v2 use different formats; the reader of the file
 * must know both. */
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
/* True if groups can be frozen on this host. */
bool atoll_cgroups_can_freeze(const struct atoll_cgroups *cg);
/* What atoll_cgroup_is_frozen() reads below; borrowed. */
int atoll_cgroups_freezer(const struct atoll_cgroups *cg);
/* Requests the freeze (see atoll_cgroup_is_frozen()), or thaws, which takes effect at once.
 * -EOPNOTSUPP without a freezer. */
int atoll_cgroup_freeze(const struct atoll_cgroups *cg, const char *id,
                        bool frozen) ATOLL_MUST_CHECK;
/* 1: every process is frozen, 0: not yet. */
int atoll_cgroup_is_frozen(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
bool atoll_cgroups_can_reclaim(const struct atoll_cgroups *cg);
/* Moves as much memory of a frozen group as it can to swap, and drops clean pages. Takes as long as
 * that takes, until it is done or the caller is killed. Never kills. In swap there is at most as much as the
 * memory limit, with what is there from earlier calls. -EOPNOTSUPP. */
int atoll_cgroup_reclaim(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Also after a caller was killed. From now on a group with a memory limit does not use more swap, as before. */
void atoll_cgroup_end_reclaim(const struct atoll_cgroups *cg, const char *id);
/* Kills every process in the group, frozen ones too. */
int atoll_cgroup_kill(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;
/* Success if the group does not exist; -EBUSY while processes are in it. */
int atoll_cgroup_remove(const struct atoll_cgroups *cg, const char *id) ATOLL_MUST_CHECK;

struct atoll_cgroup_stats {
    uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes; /* limit 0: none */
    uint64_t cpu_us;
    uint64_t processes, processes_peak;
    uint64_t oom_kills;
};
/* Fields whose controller is absent stay 0. -ENOENT if the group does not exist. */
int atoll_cgroup_read_stats(const struct atoll_cgroups *cg, const char *id,
                            struct atoll_cgroup_stats *ret) ATOLL_MUST_CHECK;

/* Calls fn with the name of each group below the parent; the reaper uses it to find orphans. */
int atoll_cgroups_each(const struct atoll_cgroups *cg, void (*fn)(void *arg, const char *id),
                       void *arg) ATOLL_MUST_CHECK;
