#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/text.h"

#define CPU_PERIOD_US 100000
/* The kernel looks at signals between calls at best: a caller that is killed is gone after one part. */
#define RECLAIM_PART (UINT64_C(16) << 20)

/* Number of entries of parent_fd in use: one on v2. */
static size_t hierarchies(const struct atoll_cgroups *cg)
{
    return cg->version == 2 ? 1 : cg->version == 1 ? ATOLL_CG_COUNT : 0;
}

/* Any hierarchy that exists, for information that every hierarchy has. */
static int any_parent(const struct atoll_cgroups *cg)
{
    for (size_t i = 0; i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0)
            return cg->parent_fd[i];
    return ATOLL_NO_FD;
}

int atoll_cgroups_remove_parents(const struct atoll_cgroups *cg, const char *instance)
{
    char name[64];
    int r = 0;

    (void)snprintf(name, sizeof(name), "../atoll-%s", instance);
    for (size_t i = 0; i < ATOLL_CG_COMMON_COUNT; i++)
        if (cg->common_fd[i] >= 0) {
            (void)!atoll_fd_write_file(cg->common_fd[i], "../tasks", "0");
            (void)unlinkat(cg->common_fd[i], name, AT_REMOVEDIR);
        }
    for (size_t i = 0; i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && unlinkat(cg->parent_fd[i], name, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            r = -errno;
    return r;
}

static int parent_of(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c)
{
    return cg->parent_fd[cg->version == 2 ? 0 : c];
}

static int write_knob(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c,
                      const char *id, const char *knob, const char *text)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", id, knob);
    return atoll_fd_write_file(parent_of(cg, c), path, text);
}

static int set_memory_v1(const struct atoll_cgroups *cg, const char *id, const char *bytes,
                         bool raise)
{
    static const char *const knobs[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"};
    int r = 0;

    /* The kernel requires memory <= memory+swap after each write: raising and lowering need
     * different orders. */
    for (size_t i = 0; r == 0 && i < 2; i++) {
        const char *knob = knobs[raise ? 1 - i : i];
        r = write_knob(cg, ATOLL_CG_MEMORY, id, knob, bytes);
        if (r == -ENOENT && strstr(knob, "memsw")) /* kernel without swap accounting */
            r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.swappiness", "0");
    }
    return r;
}

/* v1 charges TCP and UDP socket buffers separately from memory, and only if a limit is set. A
 * socket at the limit waits or drops packets and kills no process, so a share of the memory limit
 * is enough. */
static int set_sockets_v1(const struct atoll_cgroups *cg, const char *id, uint64_t memory_bytes)
{
    char text[32];
    int r;

    (void)snprintf(text, sizeof(text), "%lld",
                   memory_bytes ? (long long)(memory_bytes / ATOLL_CGROUP_SOCKETS_SHARE) : -1);
    r = write_knob(cg, ATOLL_CG_MEMORY, id, ATOLL_CGROUP_SOCKETS_V1, text);
    return r == -ENOENT ? 0 : r; /* a kernel without TCP */
}

static int set_cpu(const struct atoll_cgroups *cg, const char *id, uint32_t millis)
{
    long long quota = (long long)millis * CPU_PERIOD_US / 1000;
    char text[48];

    if (cg->version == 1) {
        (void)snprintf(text, sizeof(text), "%lld", millis ? quota : -1);
        return write_knob(cg, ATOLL_CG_CPU, id, "cpu.cfs_quota_us", text);
    }
    (void)snprintf(text, sizeof(text), "%lld %d", quota, CPU_PERIOD_US);
    return write_knob(cg, ATOLL_CG_CPU, id, "cpu.max", millis ? text : "max");
}

static int set_memory(const struct atoll_cgroups *cg, const char *id, uint64_t bytes)
{
    char text[32];
    int r;

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    if (cg->version == 1) {
        r = set_memory_v1(cg, id, bytes ? text : "-1", false);
        if (r < 0)
            r = set_memory_v1(cg, id, bytes ? text : "-1", true);
        return r < 0 ? r : set_sockets_v1(cg, id, bytes);
    }
    r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.max", bytes ? text : "max");
    if (r == 0 && bytes) {
        r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.swap.max", "0");
        r = r == -ENOENT ? 0 : r; /* a kernel without swap */
    }
    return r;
}

static int set_pids(const struct atoll_cgroups *cg, const char *id, uint32_t pids)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", pids);
    return write_knob(cg, ATOLL_CG_PIDS, id, "pids.max", pids ? text : "max");
}

/* A new group has no limits, so only non-zero limits are written. */
static int set_limits(const struct atoll_cgroups *cg, const char *id,
                      const struct atoll_cgroup_limits *l, bool fresh)
{
    int r = 0;

    if ((l->memory_bytes && !cg->has[ATOLL_CG_MEMORY]) ||
        (l->cpu_millis && !cg->has[ATOLL_CG_CPU]) || (l->pids && !cg->has[ATOLL_CG_PIDS]))
        return -EOPNOTSUPP;
    if (l->memory_bytes || (!fresh && cg->has[ATOLL_CG_MEMORY]))
        r = set_memory(cg, id, l->memory_bytes);
    if (r == 0 && (l->cpu_millis || (!fresh && cg->has[ATOLL_CG_CPU])))
        r = set_cpu(cg, id, l->cpu_millis);
    if (r == 0 && (l->pids || (!fresh && cg->has[ATOLL_CG_PIDS])))
        r = set_pids(cg, id, l->pids);
    return r;
}

int atoll_cgroup_set_limits(const struct atoll_cgroups *cg, const char *id,
                            const struct atoll_cgroup_limits *limits)
{
    return set_limits(cg, id, limits, false);
}

int atoll_cgroup_create(const struct atoll_cgroups *cg, const char *id,
                        const struct atoll_cgroup_limits *limits)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && mkdirat(cg->parent_fd[i], id, 0755) < 0)
            r = -errno;
    if (r == 0)
        r = set_limits(cg, id, limits, true);
    if (r < 0)
        (void)!atoll_cgroup_remove(cg, id);
    return r;
}

int atoll_cgroup_enter_v1(const struct atoll_cgroups *cg, const char *id)
{
    char path[64];
    int r = 0;

    (void)snprintf(path, sizeof(path), "%s/tasks", id);
    for (size_t i = 0; r == 0 && i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0)
            r = atoll_fd_write_file(cg->parent_fd[i], path, "0");
    return r;
}

int atoll_cgroup_enter_common(const struct atoll_cgroups *cg, enum atoll_cgroup_common c)
{
    if (cg->version != 1 || cg->common_fd[c] < 0)
        return 0;
    return atoll_fd_write_file(cg->common_fd[c], "tasks", "0");
}

int atoll_cgroups_join_common(const struct atoll_cgroups *cg)
{
    int r = atoll_cgroup_enter_common(cg, ATOLL_CG_CPUSET);

    return r < 0 ? r : atoll_cgroup_enter_common(cg, ATOLL_CG_BLKIO);
}

static int open_below(const struct atoll_cgroups *cg, enum atoll_cgroup_controller c,
                      const char *id, const char *file, int flags)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", id, file);
    fd = openat(parent_of(cg, c), path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int atoll_cgroup_open_v2(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id, "", O_RDONLY | O_DIRECTORY);
}

int atoll_cgroup_open_oom(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id,
                      cg->version == 2 ? "memory.events" : "memory.oom_control", O_RDONLY);
}

int atoll_cgroup_open_peak(const struct atoll_cgroups *cg, const char *id)
{
    return open_below(cg, ATOLL_CG_MEMORY, id,
                      cg->version == 2 ? "memory.peak" : "memory.max_usage_in_bytes", O_RDONLY);
}

int atoll_cgroup_open_file(const struct atoll_cgroups *cg, const char *id,
                           enum atoll_cgroup_file file)
{
    static const struct {
        enum atoll_cgroup_controller controller;
        const char *v1, *v2;
    } rows[] = {
        [ATOLL_CGF_MEMORY_USED] = {ATOLL_CG_MEMORY, "memory.usage_in_bytes", "memory.current"},
        [ATOLL_CGF_MEMORY_STAT] = {ATOLL_CG_MEMORY, "memory.stat", "memory.stat"},
        [ATOLL_CGF_MEMORY_LIMIT] = {ATOLL_CG_MEMORY, "memory.limit_in_bytes", "memory.max"},
        [ATOLL_CGF_CPU_USED] = {ATOLL_CG_CPUACCT, "cpuacct.stat", "cpu.stat"},
        [ATOLL_CGF_CPU_LIMIT] = {ATOLL_CG_CPU, "cpu.cfs_quota_us", "cpu.max"},
    };

    if (parent_of(cg, rows[file].controller) < 0)
        return -ENOENT;
    return open_below(cg, rows[file].controller, id,
                      cg->version == 2 ? rows[file].v2 : rows[file].v1, O_RDONLY);
}

int atoll_cgroups_freezer(const struct atoll_cgroups *cg)
{
    return parent_of(cg, ATOLL_CG_FREEZER);
}

bool atoll_cgroups_can_freeze(const struct atoll_cgroups *cg)
{
    return cg->version > 0 && parent_of(cg, ATOLL_CG_FREEZER) >= 0;
}

int atoll_cgroup_freeze(const struct atoll_cgroups *cg, const char *id, bool frozen)
{
    int r;

    if (!atoll_cgroups_can_freeze(cg))
        return -EOPNOTSUPP;
    if (cg->version == 1)
        return write_knob(cg, ATOLL_CG_FREEZER, id, "freezer.state", frozen ? "FROZEN" : "THAWED");
    r = write_knob(cg, ATOLL_CG_FREEZER, id, "cgroup.freeze", frozen ? "1" : "0");
    /* The group exists without the knob: a kernel before 5.2. */
    return r == -ENOENT && faccessat(parent_of(cg, ATOLL_CG_FREEZER), id, F_OK, 0) == 0
               ? -EOPNOTSUPP
               : r;
}

int atoll_cgroup_is_frozen(const struct atoll_cgroups *cg, const char *id)
{
    char path[96], text[256];
    int r;

    if (!atoll_cgroups_can_freeze(cg))
        return -EOPNOTSUPP;
    (void)snprintf(path, sizeof(path), "%s/%s", id,
                   cg->version == 2 ? "cgroup.events" : "freezer.state");
    r = atoll_fd_read_file(parent_of(cg, ATOLL_CG_FREEZER), path, text, sizeof(text));
    if (r < 0)
        return r;
    return strstr(text, cg->version == 2 ? "frozen 1" : "FROZEN") != NULL;
}

bool atoll_cgroups_can_reclaim(const struct atoll_cgroups *cg)
{
    return cg->version > 0 && parent_of(cg, ATOLL_CG_MEMORY) >= 0 && cg->has[ATOLL_CG_MEMORY];
}

static int write_bytes(const struct atoll_cgroups *cg, const char *id, const char *knob,
                       uint64_t bytes)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    return write_knob(cg, ATOLL_CG_MEMORY, id, knob, text);
}

static int reclaim_parts(const struct atoll_cgroups *cg, const char *id, uint64_t bytes)
{
    int r = 0;

    for (uint64_t done = 0; r == 0 && done < bytes; done += RECLAIM_PART)
        r = write_bytes(cg, id, "memory.reclaim", RECLAIM_PART);
    return r == -EAGAIN ? 0 : r; /* less than that could be freed */
}

/* Before Linux 5.19: a limit that no process is held back by, because all are frozen. */
static int reclaim_by_high(const struct atoll_cgroups *cg, const char *id, uint64_t bytes)
{
    struct atoll_cgroup_stats stats;
    int r, back;

    do {
        bytes = bytes > RECLAIM_PART ? bytes - RECLAIM_PART : 0;
        r = write_bytes(cg, id, "memory.high", bytes);
        if (r == 0)
            r = atoll_cgroup_read_stats(cg, id, &stats);
    } while (r == 0 && bytes > 0 && stats.memory_bytes <= bytes);
    back = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.high", "max");
    return r < 0 ? r : back;
}

int atoll_cgroup_reclaim(const struct atoll_cgroups *cg, const char *id)
{
    struct atoll_cgroup_stats stats;
    int r;

    if (!atoll_cgroups_can_reclaim(cg))
        return -EOPNOTSUPP;
    if (cg->version == 1) {
        r = write_knob(cg, ATOLL_CG_MEMORY, id, "memory.force_empty", "0");
        return r == -EBUSY ? 0 : r;
    }
    r = atoll_cgroup_read_stats(cg, id, &stats);
    if (r < 0)
        return r;
    /* As much as its memory: else each pause after a resume would move more of it to the host's swap. */
    if (stats.memory_limit_bytes > 0)
        r = write_bytes(cg, id, "memory.swap.max", stats.memory_limit_bytes);
    if (r == 0 || r == -ENOENT) /* a kernel without swap */
        r = reclaim_parts(cg, id, stats.memory_bytes);
    return r == -ENOENT ? reclaim_by_high(cg, id, stats.memory_bytes) : r;
}

void atoll_cgroup_end_reclaim(const struct atoll_cgroups *cg, const char *id)
{
    struct atoll_cgroup_stats stats;

    if (cg->version != 2)
        return;
    /* A reclaim that was killed leaves its limit, which would hold back the processes. */
    (void)!write_knob(cg, ATOLL_CG_MEMORY, id, "memory.high", "max");
    if (atoll_cgroup_read_stats(cg, id, &stats) < 0 || stats.memory_limit_bytes > 0)
        (void)!write_knob(cg, ATOLL_CG_MEMORY, id, "memory.swap.max", "0");
}

int atoll_cgroup_kill(const struct atoll_cgroups *cg, const char *id)
{
    char list[16 * 1024], *save = NULL, *last, path[64];
    int r;

    if (cg->version == 0)
        return 0;
    if (cg->version == 2 && write_knob(cg, ATOLL_CG_MEMORY, id, "cgroup.kill", "1") == 0)
        return 0;
    /* On v1 a frozen process handles SIGKILL only after it is thawed. */
    (void)!atoll_cgroup_freeze(cg, id, false);
    /* One buffer of pids per call; the caller repeats until the group is empty. */
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", id);
    r = atoll_fd_read_file(any_parent(cg), path, list, sizeof(list));
    if (r < 0 && r != -EFBIG)
        return r == -ENOENT ? 0 : r;
    list[sizeof(list) - 1] = '\0';
    /* Text after the last newline is a truncated pid, which would name another process. */
    last = strrchr(list, '\n');
    if (!last)
        return 0;
    *last = '\0';
    for (char *p = strtok_r(list, "\n", &save); p; p = strtok_r(NULL, "\n", &save)) {
        uint64_t pid;
        if (atoll_text_u64(p, 2, INT32_MAX, &pid) == 0)
            (void)kill((pid_t)pid, SIGKILL);
    }
    return 0;
}

int atoll_cgroup_remove(const struct atoll_cgroups *cg, const char *id)
{
    int r = 0;

    for (size_t i = 0; i < hierarchies(cg); i++)
        if (cg->parent_fd[i] >= 0 && unlinkat(cg->parent_fd[i], id, AT_REMOVEDIR) < 0 &&
            errno != ENOENT)
            r = -errno;
    return r;
}

int atoll_cgroups_each(const struct atoll_cgroups *cg, void (*fn)(void *arg, const char *id),
                       void *arg)
{
    struct dirent *entry;
    DIR *dir;
    int fd;

    if (cg->version == 0)
        return 0;
    fd = openat(any_parent(cg), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_type == DT_DIR && atoll_text_is_id(entry->d_name))
            fn(arg, entry->d_name);
    (void)closedir(dir);
    return 0;
}
