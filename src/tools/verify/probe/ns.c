/* Rows 12, 14, 37 and 43-45: our namespaces are private, and others can be neither made nor entered. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#ifndef CLONE_NEWCGROUP
#define CLONE_NEWCGROUP 0x02000000
#endif
#define CLONE_NEWTIME_BIT 0x00000080

/* The harness passes the identity of the host's namespaces, as readlink shows them. */
static void own_namespace(const char *kind)
{
    char key[32], path[64], link[128];
    const char *theirs;
    ssize_t n;

    snprintf(key, sizeof(key), "ns_%s", kind);
    theirs = probe_need(key);
    snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
    n = readlink(path, link, sizeof(link) - 1);
    if (n < 0)
        probe_skip("%s: %s", path, strerror(errno));
    link[n] = '\0';
    if (strcmp(link, theirs) == 0)
        probe_fail("%s is the host's", link);
    probe_pass("%s", link);
}

static void ns_cgroup(void)
{
    own_namespace("cgroup");
}
static void ns_ipc(void)
{
    own_namespace("ipc");
}
static void ns_mnt(void)
{
    own_namespace("mnt");
}
static void ns_net(void)
{
    own_namespace("net");
}
static void ns_pid(void)
{
    own_namespace("pid");
}
static void ns_user(void)
{
    own_namespace("user");
}
static void ns_uts(void)
{
    own_namespace("uts");
}

static void userns_unshare(void)
{
    static const struct probe_call calls[] = {
        {"unshare", SYS_unshare, {PROBE_INT(CLONE_NEWUSER)}},
        {"with mount", SYS_unshare, {PROBE_INT(CLONE_NEWUSER | CLONE_NEWNS)}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

/* If the call succeeds it returns 0 in the new process, too, which then just exits. */
static void userns_clone(void)
{
    static const struct probe_call calls[] = {
        {"clone", SYS_clone, {PROBE_INT(CLONE_NEWUSER | SIGCHLD)}},
        {"high bits", SYS_clone, {PROBE_INT(0xdeadbeef00000000L | CLONE_NEWUSER | SIGCHLD)}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void userns_clone3(void)
{
    static const unsigned long long args[8] = {[0] = CLONE_NEWUSER, [4] = SIGCHLD};
    static const struct probe_call calls[] = {
        {"clone3", SYS_clone3, {args, PROBE_INT(sizeof(args))}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void ns_unshare(void)
{
    static const struct probe_call calls[] = {
        {"mnt", SYS_unshare, {PROBE_INT(CLONE_NEWNS)}},
        {"net", SYS_unshare, {PROBE_INT(CLONE_NEWNET)}},
        {"pid", SYS_unshare, {PROBE_INT(CLONE_NEWPID)}},
        {"ipc", SYS_unshare, {PROBE_INT(CLONE_NEWIPC)}},
        {"uts", SYS_unshare, {PROBE_INT(CLONE_NEWUTS)}},
        {"cgroup", SYS_unshare, {PROBE_INT(CLONE_NEWCGROUP)}},
        {"time", SYS_unshare, {PROBE_INT(CLONE_NEWTIME_BIT)}},
        {"clone net", SYS_clone, {PROBE_INT(CLONE_NEWNET | SIGCHLD)}},
    };
    probe_all_refused(calls, PROBE_COUNT(calls));
}

static void ns_setns(void)
{
    static const char *const kinds[] = {"uts", "ipc", "net", "mnt"};
    char path[64];

    for (size_t i = 0; i < PROBE_COUNT(kinds); i++) {
        int fd;

        snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (syscall(SYS_setns, fd, 0) == 0 || !probe_refused(errno))
            probe_found("%s", kinds[i]);
        close(fd);
    }
    probe_conclude("refused");
}

static const struct probe_check checks[] = {
    {12, "ns.ipc", ns_ipc},
    {14, "ns.pid", ns_pid},
    {37, "ns.user", ns_user},
    {43, "userns.unshare", userns_unshare},
    {43, "userns.clone", userns_clone},
    {43, "userns.clone3", userns_clone3},
    {44, "ns.unshare", ns_unshare},
    {44, "ns.setns", ns_setns},
    {45, "ns.mnt", ns_mnt},
    {45, "ns.net", ns_net},
    {45, "ns.uts", ns_uts},
    {45, "ns.cgroup", ns_cgroup},
};

const struct probe_table probe_ns = {checks, PROBE_COUNT(checks)};
