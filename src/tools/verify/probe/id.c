/* Rows 32-40: our identity, and what the kernel allows it. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

/* The value of a field of /proc/self/status. */
static unsigned long long status_field(const char *name, int base)
{
    static char text[8192];
    const char *line;

    if (probe_read("/proc/self/status", text, sizeof(text)) < 0)
        probe_skip("/proc/self/status: %s", strerror(errno));
    line = strstr(text, name);
    if (line == NULL || line == text || line[-1] != '\n')
        probe_skip("/proc/self/status has no %s", name);
    return strtoull(line + strlen(name), NULL, base);
}

/* Root inside may have a few capabilities over its own namespace; the harness passes which. */
static void within_allowed(unsigned long long have)
{
    const char *caps = probe_arg("caps");
    unsigned long long allowed = caps ? strtoull(caps, NULL, 16) : 0;

    if ((have & ~allowed) != 0)
        probe_fail("has %016llx, may have %016llx", have, allowed);
    probe_pass("%016llx", have);
}

static void cap_effective(void)
{
    within_allowed(status_field("CapEff:", 16) | status_field("CapPrm:", 16));
}

static void cap_bounding(void)
{
    within_allowed(status_field("CapBnd:", 16));
}

/* Ambient capabilities survive exec for a non-root user, so neither set has a use here. */
static void cap_inh_amb(void)
{
    unsigned long long have = status_field("CapInh:", 16) | status_field("CapAmb:", 16);

    if (have != 0)
        probe_fail("%016llx", have);
    probe_pass("empty");
}

static void cap_dangerous(void)
{
    static const struct {
        int bit;
        const char *name;
    } caps[] = {
        {2, "DAC_READ_SEARCH"}, {9, "LINUX_IMMUTABLE"}, {12, "NET_ADMIN"},  {13, "NET_RAW"},
        {16, "SYS_MODULE"},     {17, "SYS_RAWIO"},      {18, "SYS_CHROOT"}, {19, "SYS_PTRACE"},
        {20, "SYS_PACCT"},      {21, "SYS_ADMIN"},      {22, "SYS_BOOT"},   {23, "SYS_NICE"},
        {24, "SYS_RESOURCE"},   {25, "SYS_TIME"},       {27, "MKNOD"},      {32, "MAC_OVERRIDE"},
        {34, "SYSLOG"},         {38, "PERFMON"},        {39, "BPF"},
    };
    unsigned long long have = status_field("CapPrm:", 16) | status_field("CapBnd:", 16);

    for (size_t i = 0; i < PROBE_COUNT(caps); i++)
        if ((have >> caps[i].bit & 1) != 0)
            probe_found("%s", caps[i].name);
    probe_conclude("none");
}

static void id_nonroot(void)
{
    if (getuid() == 0 || geteuid() == 0 || getgid() == 0 || getegid() == 0)
        probe_fail("uid %ld gid %ld", (long)geteuid(), (long)getegid());
    probe_pass("uid %ld gid %ld", (long)geteuid(), (long)getegid());
}

/* Translates our id to the one the parent namespace sees; -1 when it has none. */
static long outside_id(const char *map, long inside)
{
    FILE *f = fopen(map, "re");
    unsigned long first, lower, count;
    long found = -1;

    if (f == NULL)
        probe_skip("%s: %s", map, strerror(errno));
    while (fscanf(f, "%lu %lu %lu", &first, &lower, &count) == 3)
        if ((unsigned long)inside >= first && (unsigned long)inside - first < count)
            found = (long)(lower + ((unsigned long)inside - first));
    fclose(f);
    return found;
}

static void id_kuid_nonroot(void)
{
    long uid = outside_id("/proc/self/uid_map", (long)geteuid());
    long gid = outside_id("/proc/self/gid_map", (long)getegid());

    if (uid <= 0 || gid <= 0)
        probe_fail("outside we are uid %ld gid %ld", uid, gid);
    if (outside_id("/proc/self/uid_map", 0) == 0)
        probe_fail("uid 0 inside is uid 0 outside");
    probe_pass("outside we are uid %ld gid %ld", uid, gid);
}

static void id_groups(void)
{
    gid_t groups[256];
    int n = getgroups((int)PROBE_COUNT(groups), groups);

    for (int i = 0; i < n; i++)
        if (groups[i] != getegid())
            probe_found("group %ld", (long)groups[i]);
    probe_conclude("no supplementary group");
}

static void id_setuid0(void)
{
    static const gid_t root_group = 0;
    static const struct probe_call calls[] = {
        {"setuid", SYS_setuid, {PROBE_INT(0)}},
        {"setresuid", SYS_setresuid, {PROBE_INT(0), PROBE_INT(0), PROBE_INT(0)}},
        {"setgid", SYS_setgid, {PROBE_INT(0)}},
        {"setgroups", SYS_setgroups, {PROBE_INT(1), &root_group}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void no_new_privs(void)
{
    if (status_field("NoNewPrivs:", 10) != 1)
        probe_fail("not set");
    probe_pass("set");
}

static void seccomp_mode(void)
{
    unsigned long long mode = status_field("Seccomp:", 10);

    if (mode != 2)
        probe_fail("mode %llu", mode);
    probe_pass("filter");
}

static const struct probe_check checks[] = {
    {32, "cap.effective", cap_effective},
    {33, "cap.dangerous", cap_dangerous},
    {34, "cap.bounding", cap_bounding},
    {34, "cap.inh_amb", cap_inh_amb},
    {35, "id.nonroot", id_nonroot},
    {36, "id.kuid_nonroot", id_kuid_nonroot},
    {38, "id.groups", id_groups},
    {38, "id.setuid0", id_setuid0},
    {39, "nnp", no_new_privs},
    {40, "seccomp.mode", seccomp_mode},
};

const struct probe_table probe_id = {checks, PROBE_COUNT(checks)};
