/*
 * Host settings that give hostile code more access or information. Atoll works with any value, so
 * each is a warning with the command that fixes it.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "sandbox/host_internal.h"

static const struct {
    const char *name; /* as in sysctl(8) */
    long min, max;    /* acceptable values */
    long wanted;
    const char *why;
} sysctls[] = {
    {"kernel.io_uring_disabled", 2, 2, 2, "io_uring bypasses system call filters"},
    {"kernel.unprivileged_bpf_disabled", 1, 2, 2, "any user may load BPF programs"},
    {"kernel.kptr_restrict", 2, 2, 2, "kernel addresses can be read"},
    {"kernel.dmesg_restrict", 1, 1, 1, "any user may read the kernel log"},
    {"kernel.perf_event_paranoid", 2, 4, 2, "any user may use perf events"},
    {"vm.unprivileged_userfaultfd", 0, 0, 0, "userfaultfd makes kernel races easy to win"},
    {"dev.tty.legacy_tiocsti", 0, 0, 0, "TIOCSTI can inject input into a terminal"},
    {"fs.protected_symlinks", 1, 1, 1, "symbolic links of other users in /tmp are followed"},
    {"fs.protected_hardlinks", 1, 1, 1, "files of other users can be hard-linked"},
    {"fs.protected_fifos", 2, 2, 2, "FIFOs of other users in /tmp can be opened"},
    {"fs.protected_regular", 2, 2, 2, "files of other users in /tmp can be opened"},
    {"fs.suid_dumpable", 0, 0, 0, "setuid programs leave core dumps"},
    {"net.core.bpf_jit_harden", 2, 2, 2, "constants in JIT-compiled BPF code are not blinded"},
    {"kernel.randomize_va_space", 2, 2, 2, "addresses can be guessed"},
    {"vm.mmap_min_addr", 4096, LONG_MAX, 65536,
     "page 0 can be mapped: kernel null-pointer bugs are exploitable"},
    {"kernel.yama.ptrace_scope", 1, 3, 1, "a process may trace any other process of its user"},
};

static void check_sysctls(struct atoll_host_report *report)
{
    size_t good = 0, wrong = 0;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(sysctls); i++) {
        char fix[96];
        long value;
        /* A sysctl that does not exist or is not readable is skipped: there is nothing to fix. */
        if (atoll_host_read_sysctl(sysctls[i].name, &value) < 0)
            continue;
        if (value >= sysctls[i].min && value <= sysctls[i].max) {
            good++;
            continue;
        }
        wrong++;
        (void)snprintf(fix, sizeof(fix), "sysctl -w %s=%ld", sysctls[i].name, sysctls[i].wanted);
        atoll_host_add(report, sysctls[i].name, ATOLL_HOST_WARN, false, fix, "is %ld: %s", value,
                       sysctls[i].why);
    }
    if (wrong == 0)
        atoll_host_add(report, "hardening", ATOLL_HOST_OK, false, "",
                       "%zu sysctls have secure values", good);
}

static void check_swap(struct atoll_host_report *report)
{
    char text[4096];

    if (atoll_host_read("/proc/swaps", text, sizeof(text)) < 0)
        return;
    /* The first line is the heading. */
    if (strchr(text, '\n'))
        atoll_host_add(report, "swap", ATOLL_HOST_WARN, false, "swapoff -a",
                       "is on: secrets may be written to disk, and low memory makes the host slow");
    else
        atoll_host_add(report, "swap", ATOLL_HOST_OK, false, "", "off");
}

static void check_ksm(struct atoll_host_report *report)
{
    char text[16];

    if (atoll_host_read("/sys/kernel/mm/ksm/run", text, sizeof(text)) < 0 || strcmp(text, "1") != 0)
        atoll_host_add(report, "KSM", ATOLL_HOST_OK, false, "", "off");
    else
        atoll_host_add(report, "KSM", ATOLL_HOST_WARN, false, "echo 2 > /sys/kernel/mm/ksm/run",
                       "is on: the timing of merged pages leaks data between tenants");
}

static void check_core_pattern(struct atoll_host_report *report)
{
    char text[160];

    if (atoll_host_read("/proc/sys/kernel/core_pattern", text, sizeof(text)) < 0)
        return;
    if (text[0] == '|')
        atoll_host_add(report, "core_pattern", ATOLL_HOST_WARN, false,
                       "sysctl -w kernel.core_pattern=core",
                       "crashes in sandboxes are piped to a program on the host: %.80s", text);
    else
        atoll_host_add(report, "core_pattern", ATOLL_HOST_OK, false, "", "a plain file name");
}

/* Hardware vulnerabilities that the kernel does not mitigate. */
static void check_processor(struct atoll_host_report *report)
{
    static const char where[] = "/sys/devices/system/cpu/vulnerabilities";
    DIR *dir = opendir(where);
    char open[160] = "";
    struct dirent *entry;
    size_t count = 0;

    while (dir && (entry = readdir(dir)) != NULL) {
        char path[320], text[64];
        size_t len = strlen(open);
        (void)snprintf(path, sizeof(path), "%s/%s", where, entry->d_name);
        /* "Vulnerable" may be followed by ": " and a partial mitigation. */
        if (atoll_host_read(path, text, sizeof(text)) < 0 || strncmp(text, "Vulnerable", 10) != 0)
            continue;
        count++;
        (void)snprintf(open + len, sizeof(open) - len, "%s%.30s", len ? ", " : "", entry->d_name);
    }
    if (!dir)
        return;
    (void)closedir(dir);
    if (count == 0)
        atoll_host_add(report, "processor", ATOLL_HOST_OK, false, "",
                       "known vulnerabilities are mitigated");
    else
        atoll_host_add(report, "processor", ATOLL_HOST_WARN, false,
                       "boot without mitigations=off, with new microcode",
                       "can leak data between tenants: %s", open);
}

static void check_smt(struct atoll_host_report *report)
{
    char text[16];

    if (atoll_host_read("/sys/devices/system/cpu/smt/active", text, sizeof(text)) >= 0 &&
        strcmp(text, "1") == 0)
        atoll_host_add(report, "SMT", ATOLL_HOST_INFO, false,
                       "echo off > /sys/devices/system/cpu/smt/control, if tenants are hostile",
                       "on: two sandboxes can share one core's caches");
}

void atoll_host_check_hardening(struct atoll_host_report *report)
{
    size_t first = report->nchecks;

    check_sysctls(report);
    check_swap(report);
    check_ksm(report);
    check_core_pattern(report);
    check_processor(report);
    check_smt(report);
    for (size_t i = first; i < report->nchecks; i++)
        report->checks[i].hardening = true;
}
