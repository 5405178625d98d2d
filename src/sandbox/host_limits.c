/*
 * Host limits that many sandboxes reach before they run out of memory. None of them stops the first
 * sandbox, so each is a warning with the number of sandboxes at which it is reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "sandbox/host_internal.h"

/* The number of sandboxes that a limit should allow, and the number for namespaces, whose default
 * limit depends on the host's memory and is often below it. */
#define SANDBOXES 1000
#define MANY_SANDBOXES 10000
#define FILES_WANTED 65536 /* of the daemon: a few for each sandbox and each client */

static const struct {
    const char *name; /* as in sysctl(8) */
    bool rootless;    /* counted per user: matters only if all sandboxes run as one user */
    long each;        /* consumption of one busy sandbox */
    long sandboxes;   /* number of sandboxes it should allow */
    long wanted;
    const char *of_what;
} sysctls[] = {
    {"kernel.pid_max", false, 32, MANY_SANDBOXES, 4194304,
     "process ids (an idle sandbox uses one)"},
    {"kernel.threads-max", false, 32, SANDBOXES, 200000, "threads"},
    {"fs.file-max", false, 256, SANDBOXES, 1000000, "open files"},
    {"fs.nr_open", false, 16, SANDBOXES, 1048576, "open files of one process"},
    {"kernel.pty.max", false, 2, SANDBOXES, 4096, "terminals"},
    {"vm.max_map_count", false, 60, SANDBOXES, 262144, "mappings of one process"},
    {"user.max_user_namespaces", true, 1, MANY_SANDBOXES, 15000, "user namespaces"},
    {"user.max_mnt_namespaces", true, 1, MANY_SANDBOXES, 15000, "mount namespaces"},
    {"user.max_pid_namespaces", true, 1, MANY_SANDBOXES, 15000, "pid namespaces"},
    {"user.max_net_namespaces", true, 1, MANY_SANDBOXES, 15000, "network namespaces"},
    {"user.max_ipc_namespaces", true, 1, MANY_SANDBOXES, 15000, "ipc namespaces"},
    {"user.max_uts_namespaces", true, 1, MANY_SANDBOXES, 15000, "uts namespaces"},
    {"user.max_cgroup_namespaces", true, 1, MANY_SANDBOXES, 15000, "cgroup namespaces"},
    {"fs.inotify.max_user_instances", true, 1, SANDBOXES, 8192, "watchers"},
    {"fs.inotify.max_user_watches", true, 60, SANDBOXES, 1048576, "watched directories"},
    {"net.core.somaxconn", false, 1, SANDBOXES, 4096, "simultaneous connection attempts"},
};

static void check_sysctls(struct atoll_host_report *report)
{
    size_t good = 0, low = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sysctls); i++) {
        char fix[96];
        long value;
        if (atoll_host_read_sysctl(sysctls[i].name, &value) < 0 ||
            (sysctls[i].rootless && report->caps.root))
            continue;
        if (value / sysctls[i].each >= sysctls[i].sandboxes) {
            good++;
            continue;
        }
        low++;
        (void)snprintf(fix, sizeof(fix), "sysctl -w %s=%ld", sysctls[i].name, sysctls[i].wanted);
        atoll_host_add(report, sysctls[i].name, ATOLL_HOST_WARN, false, fix,
                       "is %ld: about %ld busy sandboxes use up all %s", value,
                       value / sysctls[i].each, sysctls[i].of_what);
    }
    if (low == 0)
        atoll_host_add(report, "limits", ATOLL_HOST_OK, false, "",
                       "%zu sysctls are high enough for %d sandboxes", good, SANDBOXES);
}

static void check_files(struct atoll_host_report *report)
{
    struct rlimit limit;

    /* The daemon raises its soft limit to the hard limit. */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_max >= FILES_WANTED)
        atoll_host_add(report, "open files", ATOLL_HOST_OK, false, "", "up to %llu",
                       (unsigned long long)limit.rlim_max);
    else
        atoll_host_add(report, "open files", ATOLL_HOST_WARN, false,
                       "LimitNOFILE=1048576 in the unit, or `ulimit -Hn 1048576` before starting",
                       "up to %llu, shared by sandboxes and clients",
                       (unsigned long long)limit.rlim_max);
}

static void check_processes(struct atoll_host_report *report)
{
    struct rlimit limit;

    /* The limit does not apply to root. Rootless, it counts the processes of all the user's
     * sandboxes. */
    if (report->caps.root || getrlimit(RLIMIT_NPROC, &limit) < 0)
        return;
    if (limit.rlim_max >= 32 * SANDBOXES)
        return;
    atoll_host_add(report, "processes", ATOLL_HOST_WARN, false,
                   "LimitNPROC=infinity in the unit, or a line in /etc/security/limits.conf",
                   "this user may have %llu in all sandboxes together",
                   (unsigned long long)limit.rlim_max);
}

static void check_loops(struct atoll_host_report *report)
{
    char text[32];
    long most;

    if (!report->caps.loop ||
        atoll_host_read("/sys/module/loop/parameters/max_loop", text, sizeof(text)) < 0)
        return;
    /* If not 0, it is the number of devices created at boot, and on old kernels the maximum. */
    most = strtol(text, NULL, 10);
    if (most > 0 && report->caps.kernel_major < 6)
        atoll_host_add(report, "loop limit", ATOLL_HOST_WARN, false,
                       "boot with loop.max_loop=0, or load the module with max_loop=0",
                       "%ld loop devices: at most that many sandboxes can have a disk image", most);
}

void atoll_host_check_limits(struct atoll_host_report *report)
{
    check_sysctls(report);
    check_files(report);
    check_processes(report);
    check_loops(report);
}
