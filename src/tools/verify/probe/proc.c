/* Rows 14-27: what /proc and /sys reveal, and what can be changed through them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define SEALS_NEEDED (0x0002 | 0x0004 | 0x0008) /* F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE */

static void none_writable(const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (probe_writable(paths[i]))
            probe_found("%s", paths[i]);
    probe_conclude("nothing opens for writing");
}

static void none_readable(const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (probe_readable(paths[i]))
            probe_found("%s", paths[i]);
    probe_conclude("nothing to read");
}

#define NONE_WRITABLE(...)                                \
    do {                                                  \
        static const char *const paths[] = {__VA_ARGS__}; \
        none_writable(paths, PROBE_COUNT(paths));         \
    } while (0)

#define NONE_READABLE(...)                                \
    do {                                                  \
        static const char *const paths[] = {__VA_ARGS__}; \
        none_readable(paths, PROBE_COUNT(paths));         \
    } while (0)

static void kthreads_hidden(void)
{
    char comm[64] = "";

    if (probe_read("/proc/2/comm", comm, sizeof(comm)) > 0 && strcmp(comm, "kthreadd\n") == 0)
        probe_fail("kthreadd is visible");
    probe_pass("no kernel thread is visible");
}

static void host_process(void)
{
    long pid = probe_need_long("pid");
    char word[8], path[64];
    struct iovec local = {word, sizeof(word)}, remote = {NULL, sizeof(word)};

    snprintf(path, sizeof(path), "/proc/%ld/status", pid);
    if (access(path, F_OK) == 0)
        probe_found("%s", path);
    if (kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        probe_found("kill");
    if (syscall(SYS_pidfd_open, pid, 0) >= 0)
        probe_found("pidfd_open");
    /* Address 0 is not mapped: EFAULT means that access to the process was allowed. */
    if (syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) >= 0 || errno == EFAULT)
        probe_found("process_vm_readv");
    snprintf(path, sizeof(path), "/proc/%ld/mem", pid);
    if (access(path, R_OK) == 0)
        probe_found("%s", path);
    probe_conclude("the process outside does not exist for us");
}

static void core_pattern_w(void)
{
    NONE_WRITABLE("/proc/sys/kernel/core_pattern");
}

static void modprobe_w(void)
{
    NONE_WRITABLE("/proc/sys/kernel/modprobe", "/proc/sys/kernel/poweroff_cmd",
                  "/proc/sys/kernel/hotplug");
}

static void binfmt_w(void)
{
    NONE_WRITABLE("/proc/sys/fs/binfmt_misc/register", "/proc/sys/fs/binfmt_misc/status");
}

static void sysrq_w(void)
{
    NONE_WRITABLE("/proc/sysrq-trigger");
}

static void sysctl_w(void)
{
    NONE_WRITABLE("/proc/sys/vm/overcommit_memory", "/proc/sys/vm/drop_caches",
                  "/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/panic",
                  "/proc/sys/kernel/pid_max", "/proc/sys/fs/file-max", "/proc/sys/fs/suid_dumpable",
                  "/proc/sys/kernel/hostname");
}

static void sysctl_net_w(void)
{
    NONE_WRITABLE("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/core/somaxconn",
                  "/proc/sys/net/ipv4/ip_unprivileged_port_start");
}

static void sysctl_userns_w(void)
{
    NONE_WRITABLE("/proc/sys/user/max_user_namespaces", "/proc/sys/user/max_mnt_namespaces");
}

/* A second line of defence after the permissions of each file. */
static void sys_read_only(void)
{
    static const char *const parts[] = {"/proc/sys", "/proc/bus", "/proc/fs", "/proc/irq"};
    struct statvfs fs;

    for (size_t i = 0; i < PROBE_COUNT(parts); i++)
        if (statvfs(parts[i], &fs) == 0 && (fs.f_flag & ST_RDONLY) == 0)
            probe_found("%s", parts[i]);
    probe_conclude("read-only");
}

static void kcore(void)
{
    NONE_READABLE("/proc/kcore");
}

/* Reading would take messages away from the host's logger, so opening decides. */
static void kmsg(void)
{
    static const char *const paths[] = {"/proc/kmsg", "/dev/kmsg"};

    for (size_t i = 0; i < PROBE_COUNT(paths); i++) {
        int fd = open(paths[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && !probe_is_null(fd))
            probe_found("%s", paths[i]);
    }
    probe_conclude("the kernel log does not open");
}

static void kallsyms(void)
{
    NONE_READABLE("/proc/kallsyms");
}

static void keys(void)
{
    NONE_READABLE("/proc/keys", "/proc/key-users");
}

static void masked_info(void)
{
    NONE_READABLE("/proc/interrupts", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
                  "/proc/latency_stats", "/proc/slabinfo", "/proc/iomem", "/proc/ioports",
                  "/proc/vmallocinfo", "/proc/zoneinfo", "/proc/pagetypeinfo", "/proc/modules",
                  "/proc/config.gz", "/proc/scsi/scsi", "/proc/acpi/wakeup", "/proc/asound/cards");
}

static void host_state(void)
{
    NONE_READABLE("/proc/buddyinfo", "/proc/diskstats", "/proc/pressure/cpu", "/proc/pressure/io",
                  "/proc/pressure/memory", "/proc/schedstat", "/proc/vmstat",
                  "/proc/bus/pci/devices", "/proc/bus/input/devices", "/proc/mdstat",
                  "/proc/partitions", "/proc/cgroups", "/proc/locks", "/proc/swaps",
                  "/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr", "/proc/sys/fs/inode-nr",
                  "/proc/sys/fs/inode-state", "/proc/sys/kernel/pty/nr");
}

/* If /proc/loadavg is not on procfs, another file covers the kernel's. */
static void load(void)
{
    struct statfs fs;

    if (statfs("/proc/loadavg", &fs) != 0 || fs.f_type == 0x9fa0) /* PROC_SUPER_MAGIC */
        probe_fail("/proc/loadavg is that of the host");
    probe_pass("/proc/loadavg is the sandbox's own");
}

static void cmdline(void)
{
    NONE_READABLE("/proc/cmdline");
}

/* CVE-2019-5736: the program that runs as init must not be writable through its magic link. */
static void self_exe(void)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%ld/exe", probe_need_long("init"));
    if (probe_writable(path))
        probe_fail("%s opens for writing", path);
    probe_pass("%s: %s", path, strerror(errno));
}

/* A running program cannot be opened for writing (ETXTBSY). After its end it must be sealed or read-only. */
static void pid1_exe(void)
{
    struct statvfs fs;
    char path[64];
    int fd, seals;

    snprintf(path, sizeof(path), "/proc/%ld/exe", probe_need_long("init"));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        probe_pass("%s: %s", path, strerror(errno));
    seals = fcntl(fd, 1034); /* F_GET_SEALS */
    if (seals >= 0 && (seals & SEALS_NEEDED) == SEALS_NEEDED)
        probe_pass("a sealed memfd");
    if (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0)
        probe_pass("on a read-only mount");
    probe_fail("%s is neither sealed nor on a read-only mount", path);
}

static void pid1_cmdline(void)
{
    char text[8192], path[64];
    long n;

    snprintf(path, sizeof(path), "/proc/%ld/cmdline", probe_need_long("init"));
    n = probe_read(path, text, sizeof(text));
    for (long i = 0; i < n; i++)
        if (text[i] == '\0')
            text[i] = ' ';
    if (n > 0 && strchr(text, '/') != NULL)
        probe_fail("%.100s", text);
    probe_pass("holds no path");
}

static void sys_ro(void)
{
    struct statvfs fs;

    if (access("/sys/kernel", F_OK) != 0)
        probe_pass("no sysfs");
    if (statvfs("/sys", &fs) != 0 || (fs.f_flag & ST_RDONLY) == 0)
        probe_fail("sysfs is mounted writable");
    probe_pass("read-only");
}

static void sys_knobs_w(void)
{
    NONE_WRITABLE("/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/ksm/run",
                  "/sys/kernel/profiling", "/sys/kernel/kexec_crash_size",
                  "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs",
                  "/sys/devices/system/cpu/cpu1/online");
}

static bool has_entries(const char *path)
{
    DIR *dir = opendir(path);
    int entries = 0;

    if (dir == NULL)
        return false;
    while (readdir(dir) != NULL)
        entries++;
    closedir(dir);
    return entries > 2;
}

static void sys_sensitive(void)
{
    static const char *const dirs[] = {"/sys/firmware",       "/sys/kernel/debug",
                                       "/sys/kernel/tracing", "/sys/class/dmi/id",
                                       "/sys/class/powercap", "/sys/kernel/security"};

    for (size_t i = 0; i < PROBE_COUNT(dirs); i++)
        if (has_entries(dirs[i]))
            probe_found("%s", dirs[i]);
    if (probe_readable("/sys/kernel/notes"))
        probe_found("/sys/kernel/notes");
    probe_conclude("hidden");
}

static const struct probe_check checks[] = {
    {14, "proc.kthreads_hidden", kthreads_hidden},
    {15, "proc.host_process", host_process},
    {16, "proc.core_pattern_w", core_pattern_w},
    {17, "proc.modprobe_w", modprobe_w},
    {18, "proc.binfmt_w", binfmt_w},
    {18, "proc.sysrq_w", sysrq_w},
    {19, "proc.sysctl_w", sysctl_w},
    {19, "proc.sysctl_net_w", sysctl_net_w},
    {19, "proc.sysctl_userns_w", sysctl_userns_w},
    {19, "proc.sys_ro", sys_read_only},
    {20, "proc.kcore", kcore},
    {20, "proc.kmsg", kmsg},
    {20, "proc.kallsyms", kallsyms},
    {21, "proc.keys", keys},
    {22, "proc.masked_info", masked_info},
    {22, "proc.host_state", host_state},
    {22, "proc.load", load},
    {23, "proc.cmdline", cmdline},
    {24, "proc.self_exe", self_exe},
    {24, "c.pid1_exe", pid1_exe},
    {25, "proc.pid1_cmdline", pid1_cmdline},
    {26, "sys.ro", sys_ro},
    {26, "sys.knobs_w", sys_knobs_w},
    {27, "sys.sensitive", sys_sensitive},
};

const struct probe_table probe_proc = {checks, PROBE_COUNT(checks)};
