/*
 * Promises that a tier cannot give by design, with the exact evidence that is expected: any other evidence
 * is a finding there, too. All other promises must hold, so this table lists all exceptions that
 * docs/security.md and the tests may make.
 */
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include "tools/verify/checks.h"

#define ANY ".*"
#define ENDED "it was ended itself: (lost|oom_killed) gVisor .*"
#define MANY "(" ENDED "|it came to [0-9]+, stopped by E[A-Z]+)"
#define WHOLE \
    "gVisor's kernel lives within the same limits and ends with them: the sandbox goes whole"
#define HOLES \
    "gVisor's kernel knows no limit for one file; a hole takes nothing, and the disk is bounded"
#define THREADS "threads are gVisor's own, and bounded by the memory they live in"
#define PTYS "the engine mounts terminals without a limit; the host's for all is kernel.pty.max"
#define ENGINE "the engine makes the mounts of its containers, and offers no other way"
#define SAME_IDS "an engine without userns-remap gives containers no user namespace of their own"
#define ARGUMENTS "the agent is started by its command line; it names paths inside, and no secret"
#define HOST_SIDE \
    "gVisor's kernel has no such file to look at; what runs it on the host is closed in"
#define OWN_KERNEL "a kernel of its own: this changes nothing but itself"
#define FOR_LINUX "refused, as by a kernel that does not have it, in other words than Linux's"
#define NO_RECORD "processes inside are gVisor's; the host's kernel has no record of them"
#define MADE_UP "gVisor's kernel makes up what it says there"
#define ONE_ABI "gVisor's kernel takes both ABIs itself, by the same rules"
#define ASKED_FOR "uid 0 inside is what --user root asks for"
#define OWN_IDS "root inside may change to any id of its own namespace"
#define ONE_RANGE "an ordinary user has one range of sub-ids for all sandboxes"
#define ONE_USER "sandboxes of an ordinary user are charged to that user's quotas"
#define MORE_IN_SOCKETS \
    "it came to [0-9]+, stopped by .*, with more in sockets than the memory limit"
#define SOCKETS "on cgroup v1 the engine sets no limit on what waits in sockets"
#define PLAIN_BRIDGE "the bridge of an engine is a plain network; policies are refused there"
#define OWN_LAYER "root writes to the layer of the sandbox, on a file system of gVisor's"

const struct atoll_not_offered atoll_not_offered[] = {
    {"", "root", false, "id.nonroot", "uid 0 gid 0", ASKED_FOR},
    {"", "root", false, "id.setuid0", ANY, OWN_IDS},
    {"namespaces", "", true, "seen.kuid_unique", ANY, ONE_RANGE},

    {"namespaces", "", true, "quota.inotify", ANY, ONE_USER},
    {"namespaces", "", true, "quota.signals", ANY, ONE_USER},
    {"namespaces", "", true, "quota.mqueue", ANY, ONE_USER},
    {"namespaces", "", true, "quota.memlock", ANY, ONE_USER},

    {"container", "", false, "quota.inotify", ANY, SAME_IDS},
    {"container", "", false, "quota.signals", ANY, SAME_IDS},
    {"container", "", false, "quota.mqueue", ANY, SAME_IDS},
    {"container", "", false, "quota.memlock", ANY, SAME_IDS},
    {"container", "", false, "bomb.tcp", MORE_IN_SOCKETS, SOCKETS},
    {"container", "", false, "bomb.udp", MORE_IN_SOCKETS, SOCKETS},
    {"container", "", false, "egress.host_service", ANY, PLAIN_BRIDGE},
    {"container", "", false, "egress.walls", "TCP port, UDP port", PLAIN_BRIDGE},
    {"container", "", false, "dev.minimal", "mqueue", ENGINE},
    {"container", "", false, "fs.mount_flags",
     "/[^ ]* lacks (nosuid|nodev|noexec)(, /[^ ]* lacks (nosuid|nodev|noexec))*", ENGINE},
    {"container", "", false, "fs.mount_propagation",
     "/[^ ]*: master:[0-9]+(, /[^ ]*: master:[0-9]+)*", ENGINE},
    {"container", "", false, "fs.mountinfo_paths", ANY, ENGINE},
    {"container", "", false, "id.kuid_nonroot",
     "(uid 0 inside is uid 0 outside|outside we are uid 0 gid 0)", SAME_IDS},
    {"container", "", false, "ns.user", "user:\\[[0-9]+\\] is the host's", SAME_IDS},
    {"container", "", false, "proc.pid1_cmdline", "/\\.atoll/.*", ARGUMENTS},
    {"container", "", false, "proc.boot_id", "it is the host's", ENGINE},
    {"container", "", false, "proc.host_state", ANY, ENGINE},
    {"container", "", false, "proc.load", ANY, ENGINE},
    {"container", "", false, "bomb.ptys", "it came to [0-9]+, stopped by cap", PTYS},
    {"container", "", false, "seen.init", ANY, ARGUMENTS},
    {"container", "", false, "seen.kuid", ANY, SAME_IDS},
    {"container", "", false, "seen.kuid_unique", ANY, SAME_IDS},
    {"container", "", false, "seen.userns", ANY, SAME_IDS},

    {"gvisor", "", false, "seen.nnp", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.seccomp", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.kuid", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.kuid_unique", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.namespaces", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.userns", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.caps", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.fds", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.init", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.oom", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.sealed", ANY, NO_RECORD},
    {"gvisor", "", false, "seen.limits", ANY, NO_RECORD},
    {"gvisor", "", false, "residue.stubborn", "nothing of it is visible here.*", NO_RECORD},
    {"gvisor", "", false, "bomb.fork", MANY, WHOLE},
    {"gvisor", "", false, "bomb.threads", "it came to [0-9]+, stopped by (cap|E[A-Z]+)", THREADS},
    {"gvisor", "", false, "bomb.oomloop", ENDED, WHOLE},
    {"gvisor", "", false, "bomb.inotify", "it came to [0-9]+, stopped by cap", OWN_KERNEL},
    {"gvisor", "", false, "bomb.ptys", "it came to [0-9]+, stopped by cap", OWN_KERNEL},
    {"gvisor", "", false, "bomb.sparse", "it came to 1, stopped by cap", HOLES},
    {"gvisor", "", false, "cap.inh_amb", ".* has no CapAmb:", HOST_SIDE},
    {"gvisor", "", false, "nnp", ".* has no NoNewPrivs:", HOST_SIDE},
    {"gvisor", "", false, "ns.cgroup", ".*: No such file or directory", HOST_SIDE},
    {"gvisor", "", false, "ns.ipc", ".*: No such file or directory", HOST_SIDE},
    {"gvisor", "", false, "ns.mnt", ".*: No such file or directory", HOST_SIDE},
    {"gvisor", "", false, "ns.uts", ".*: No such file or directory", HOST_SIDE},
    {"gvisor", "", false, "id.kuid_nonroot",
     "(uid 0 inside is uid 0 outside|outside we are uid 0 gid 0)", HOST_SIDE},
    {"gvisor", "", false, "seccomp.mode", "mode 0", HOST_SIDE},
    {"gvisor", "", false, "proc.pid1_cmdline", "/\\.atoll/.*", ARGUMENTS},
    {"gvisor", "", false, "c.tiocsti_hi32",
     "TIOC[A-Za-z0-9_]+ with high bits: Not a tty(, TIOC[A-Za-z0-9_]+ with high bits: Not a tty)*",
     FOR_LINUX},
    {"gvisor", "", false, "tty.tiocsti",
     "TIOC[A-Za-z0-9_]+: Not a tty(, TIOC[A-Za-z0-9_]+: Not a tty)*", FOR_LINUX},
    {"gvisor", "", false, "tty.session", "/dev/tty: I/O error", FOR_LINUX},
    {"gvisor", "", false, "fs.open_by_handle", "/[^ ]*: Not supported(, /[^ ]*: Not supported)*",
     FOR_LINUX},
    {"gvisor", "", false, "sc.perf", "self: No such device", FOR_LINUX},
    {"gvisor", "", false, "sc.personality",
     "[A-Za-z0-9_]+: Invalid argument(, [A-Za-z0-9_]+: Invalid argument)*", FOR_LINUX},
    {"gvisor", "", false, "c.abi_i386", "allowed", ONE_ABI},
    {"gvisor", "", false, "c.abi_i386_socket", "allowed", ONE_ABI},
    {"gvisor", "", false, "dev.minimal", "net, fuse", OWN_KERNEL},
    {"gvisor", "", false, "dev.open", "/dev/fuse, /dev/net/tun", OWN_KERNEL},
    {"gvisor", "", false, "fs.mount_flags",
     "/[^ ]* lacks (nosuid|nodev|noexec)(, /[^ ]* lacks (nosuid|nodev|noexec))*", OWN_KERNEL},
    {"gvisor", "", false, "fs.system_dirs_ro",
     "/[^ ]* is writable on file system type [A-Za-z0-9_]+(, /[^ ]* is writable on file system type [A-Za-z0-9_]+)*",
     OWN_LAYER},
    {"gvisor", "", false, "net.so_mark", "SO_MARK is allowed", OWN_KERNEL},
    {"gvisor", "", false, "ns.setns", "net", OWN_KERNEL},
    {"gvisor", "", false, "ns.unshare", "[A-Za-z0-9_ ]+: allowed(, [A-Za-z0-9_ ]+: allowed)*",
     OWN_KERNEL},
    {"gvisor", "", false, "userns.clone", "[A-Za-z0-9_ ]+: allowed(, [A-Za-z0-9_ ]+: allowed)*",
     OWN_KERNEL},
    {"gvisor", "", false, "userns.unshare", "[A-Za-z0-9_ ]+: allowed(, [A-Za-z0-9_ ]+: allowed)*",
     OWN_KERNEL},
    {"gvisor", "", false, "proc.cmdline", "/proc/cmdline", MADE_UP},
    {"gvisor", "", false, "proc.host_state", "/proc/cgroups", MADE_UP},
    {"gvisor", "", false, "proc.load", ANY, MADE_UP},
    {"gvisor", "", false, "proc.sysctl_net_w", "/proc/sys/net/[^ ]*(, /proc/sys/net/[^ ]*)*",
     OWN_KERNEL},
    {"gvisor", "", false, "proc.sysctl_w",
     "/proc/sys/(vm|kernel)/[^ ]*(, /proc/sys/(vm|kernel)/[^ ]*)*", OWN_KERNEL},
    {"gvisor", "", false, "proc.sys_ro", "/proc/[A-Za-z0-9_]+(, /proc/[A-Za-z0-9_]+)*", OWN_KERNEL},
    {"gvisor", "", false, "sys.ro", "sysfs is mounted writable", OWN_KERNEL},
    {"gvisor", "", false, "sc.io_uring", "setup: allowed", OWN_KERNEL},
    {"gvisor", "", false, "sc.oom_adj", "oom_score_adj went below 0: 0", OWN_KERNEL},
    {"gvisor", "", false, "sc.sched_rt", ".*nice -5: allowed", OWN_KERNEL},
    {"gvisor", "", false, "sc.syslog", "syslog: allowed", MADE_UP},
    {"gvisor", "", false, "sock.inet_protos",
     "ICMP, ICMPv6, SCTP: Invalid argument, MPTCP: Invalid argument", OWN_KERNEL},
    {"gvisor", "", false, "sock.netlink_misc", "NETLINK_KOBJECT_UEVENT", OWN_KERNEL},
};
const size_t atoll_not_offered_count = ATOLL_ARRAY_LEN(atoll_not_offered);

static bool matches(const char *pattern, const char *text)
{
    char whole[512];
    regex_t regex;
    bool match;

    (void)snprintf(whole, sizeof(whole), "^(%s)$", pattern);
    if (regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
}

const char *atoll_not_offered_reason(const struct atoll_tier_kind *kind, const char *id,
                                     const char *evidence)
{
    for (size_t i = 0; i < atoll_not_offered_count; i++) {
        const struct atoll_not_offered *row = &atoll_not_offered[i];
        if (strcmp(row->id, id) == 0 && (!*row->user || strcmp(row->user, kind->user) == 0) &&
            (!*row->isolation || strcmp(row->isolation, kind->isolation) == 0) &&
            (!row->rootless || kind->rootless) && matches(row->how, evidence))
            return row->reason;
    }
    return NULL;
}
