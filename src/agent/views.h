#pragma once
#include "base/buf.h"
#include "sys/cgroup.h"

/*
 * Views: files of /proc that show this sandbox's limits instead of the host's, for programs that
 * read them (free, nproc, top, runtimes that count CPUs). atoll-spawn mounts an ordinary file in
 * memory over each of them, read-only; the agent writes it through a descriptor that was opened
 * before the mount.
 */
enum atoll_view {
    ATOLL_VIEW_LOADAVG,
    ATOLL_VIEW_MEMINFO,
    ATOLL_VIEW_STAT,
    ATOLL_VIEW_UPTIME,
    ATOLL_VIEW_CPUINFO,
    ATOLL_VIEW_COUNT,
};

/* Names below /proc, such as "loadavg". */
extern const char *const atoll_view_names[ATOLL_VIEW_COUNT];

/* Descriptors that the agent gets; ATOLL_NO_FD if absent. */
struct atoll_view_fds {
    int file[ATOLL_VIEW_COUNT];  /* the views, writable */
    int source[ATOLL_CGF_COUNT]; /* files of the sandbox's cgroup, read-only */
};

#define ATOLL_VIEW_FDS_NONE                                                 \
    {                                                                       \
        {ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD},  \
        {                                                                   \
            ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD, ATOLL_NO_FD \
        }                                                                   \
    }

/* True if the cgroup files that this view is computed from are available. */
bool atoll_view_is_possible(enum atoll_view view, const int source[ATOLL_CGF_COUNT]);

/* Input of the views. Sizes in bytes, times in hundredths of a second. */
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

/* The limit in a cgroup file; UINT64_MAX: no limit. */
uint64_t atoll_view_parse_limit(const char *text);
/* The number of CPUs that this limit equals, rounded up; 0: no limit. */
unsigned atoll_view_parse_cpus(const char *text);
/* Parse memory.stat, and cpuacct.stat or cpu.stat. */
void atoll_view_parse_memory(const char *text, struct atoll_view_facts *facts);
void atoll_view_parse_cpu(const char *text, struct atoll_view_facts *facts);

/* Adds one sample, five seconds after the last one: `active` processes run or wait for a disk. */
void atoll_view_add_load(uint64_t load[3], uint32_t active);

/* Appends the text of the view. cpu: the /proc/cpuinfo text of one CPU. -ENOBUFS. */
int atoll_view_print(enum atoll_view view, const struct atoll_view_facts *facts, const char *cpu,
                     struct atoll_buf *out) ATOLL_MUST_CHECK;
