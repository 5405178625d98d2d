#pragma once
#include "base/buf.h"
#include "sys/cgroup.h"

/*
 * Files of /proc that programs size themselves by, as this sandbox's limits have them instead of the
 * host: free, nproc, top, a runtime that counts CPUs. Atoll-spawn puts an ordinary file in memory over
 * each, on a read-only mount, and the agent writes it through a descriptor from before.
 */
enum atoll_view {
    ATOLL_VIEW_LOADAVG,
    ATOLL_VIEW_MEMINFO,
    ATOLL_VIEW_STAT,
    ATOLL_VIEW_UPTIME,
    ATOLL_VIEW_CPUINFO,
    ATOLL_VIEW_COUNT,
};

/* "loadavg": below /proc. */
extern const char *const atoll_view_names[ATOLL_VIEW_COUNT];

/* Descriptors the agent gets; ATOLL_NO_FD where there is none. */
struct atoll_view_fds {
    int file[ATOLL_VIEW_COUNT];  /* to be written */
    int source[ATOLL_CGF_COUNT]; /* of the sandbox's own cgroup, read-only */
};

#define ATOLL_VIEW_FDS_NONE                                                 \
    {                                                                       \
        {ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD},  \
        {                                                                   \
            ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD \
        }                                                                   \
    }

/* Whether the files this view is computed from are there. */
bool atoll_view_is_possible(enum atoll_view view, const int source[ATOLL_CGF_COUNT]);

/* What the views are computed from. Sizes in bytes, times in hundredths of a second. */
struct atoll_view_facts {
    uint64_t memory_total, memory_used;
    uint64_t cache, shmem, mapped;
    uint64_t anon_active, anon_inactive, file_active, file_inactive;
    uint64_t cpu_user, cpu_system;
    unsigned cpus;
    uint64_t uptime;
    int64_t boot_unix_s;
    uint64_t load[3]; /* over 1, 5 and 15 minutes; ATOLL_VIEW_LOAD_ONE is a load of one */
    uint32_t running, processes, last_pid;
};

#define ATOLL_VIEW_LOAD_ONE 2048u

/* The limit in a cgroup's file: UINT64_MAX where it says that there is none. */
uint64_t atoll_view_parse_limit(const char *text);
/* CPUs that this limit is worth, rounded up; 0 for no limit. */
unsigned atoll_view_parse_cpus(const char *text);
/* From memory.stat and from cpuacct.stat or cpu.stat. */
void atoll_view_parse_memory(const char *text, struct atoll_view_facts *facts);
void atoll_view_parse_cpu(const char *text, struct atoll_view_facts *facts);

/* One more look, five seconds after the last: `active` processes run or wait for a disk. */
void atoll_view_add_load(uint64_t load[3], uint32_t active);

/* Appends the text. cpu: of /proc/cpuinfo about one CPU. -ENOBUFS. */
int atoll_view_print(enum atoll_view view, const struct atoll_view_facts *facts, const char *cpu,
                     struct atoll_buf *out) ATOLL_MUST_CHECK;
