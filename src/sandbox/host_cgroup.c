/*
 * cgroups: what sys/cgroup_open.c would find for a daemon started in our place.
 */
#include <stdio.h>
#include <string.h>
#include "sandbox/host_internal.h"
#include "sys/cgroup.h"

static const struct {
    size_t offset;
    enum atoll_cgroup_controller controller;
    const char *limits; /* the resource that cannot be limited without it */
} flags[] = {
    {offsetof(struct atoll_host_caps, cgroup_memory), ATOLL_CG_MEMORY, "memory"},
    {offsetof(struct atoll_host_caps, cgroup_cpu), ATOLL_CG_CPU, "CPU"},
    {offsetof(struct atoll_host_caps, cgroup_pids), ATOLL_CG_PIDS, "processes"},
    {offsetof(struct atoll_host_caps, cgroup_freezer), ATOLL_CG_FREEZER, NULL},
};

void atoll_host_find_cgroups(struct atoll_host_caps *caps)
{
    struct atoll_cgroups_facts facts;

    if (atoll_cgroups_look(&facts) < 0)
        return;
    caps->cgroup_version = facts.version;
    for (size_t i = 0; facts.version && i < ATOLL_ARRAY_LEN(flags); i++)
        *(bool *)((char *)caps + flags[i].offset) = facts.has[flags[i].controller];
}

static const char *layout_of(const struct atoll_cgroups_facts *facts)
{
    return facts->v1 && facts->v2 ? "hybrid (v1 controllers)"
           : facts->v1            ? "v1"
           : facts->v2            ? "v2"
                                  : "none";
}

static const char *fix_of(const struct atoll_cgroups_facts *facts, bool root)
{
    if (!facts->v1 && !facts->v2)
        return "mount cgroups: mount -t cgroup2 none /sys/fs/cgroup";
    if (root)
        return "enable the controllers in the kernel (cgroup_enable=memory) and remount cgroups "
               "writable";
    if (facts->version == 2)
        return "let systemd delegate every controller to users: systemctl edit user@.service, with "
               "[Service] Delegate=cpu memory pids; then log in again";
    return "run atolld as root, or delegate a cgroup v2 subtree: systemd-run --user --scope "
           "-p Delegate=yes atolld";
}

static void check_limits(struct atoll_host_report *report, const struct atoll_cgroups_facts *facts)
{
    char have[64] = "", lack[64] = "";
    bool root = report->caps.root;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(flags); i++) {
        bool got = facts->version && facts->has[flags[i].controller];
        char *list = got ? have : lack;
        size_t len = strlen(list);
        if (flags[i].limits)
            (void)snprintf(list + len, sizeof(have) - len, "%s%s", len ? ", " : "",
                           flags[i].limits);
    }
    if (*lack)
        atoll_host_add(report, "cgroups", ATOLL_HOST_MISSING, false, fix_of(facts, root),
                       "%s; no limit on %s can be given (--waive accepts that)", layout_of(facts),
                       lack);
    else
        atoll_host_add(report, "cgroups", ATOLL_HOST_OK, false, "",
                       "%s, writable%s%s; limits on %s%s%s", layout_of(facts),
                       *facts->below ? " below " : "", facts->below, have,
                       root && facts->has[ATOLL_CG_IO] ? ", disk bandwidth" : "",
                       facts->has[ATOLL_CG_FREEZER] ? ", freezing" : "");
}

void atoll_host_check_cgroups(struct atoll_host_report *report)
{
    struct atoll_cgroups_facts facts;

    (void)!atoll_cgroups_look(&facts); /* fails without /proc: facts stay empty */
    check_limits(report, &facts);
}
