#include "tools/verify/checks.h"

#include <string.h>

/* Advice for findings. Most promises hold on every host, so the advice says where to look first. */
#define REPORT \
    "a wall is missing: give this host no code you do not trust, and report it as SECURITY.md says"
#define FILES                                                                                    \
    "look at the template or image and at `mounts` in providers.yaml; if neither brings it in, " \
    "report it as SECURITY.md says"
#define KERNEL_FILES                                                                    \
    "parts of /proc or /sys are not covered: compare /proc/self/mountinfo inside with " \
    "docs/security.md, and report it as SECURITY.md says"
#define DEVICES                                                                                \
    "a device came in: look at the image, and at devices or privileges that the engine gives " \
    "its containers"
#define IDENTITY                                                                           \
    "the process has more rights than it needs: look for privileges the engine gives its " \
    "containers; with the native provider report it as SECURITY.md says"
#define FILTER                                                                                  \
    "the system-call filter is not in force or lets this through: `atoll doctor` says whether " \
    "the kernel can filter; then report it as SECURITY.md says"
#define NETWORK                                                                                 \
    "the sandbox has a way out: ask for networkMode \"none\", and look at the networks of the " \
    "engine"
#define SECRETS                                                                          \
    "start atolld with a clean environment, as its systemd unit does, and report it as " \
    "SECURITY.md says"
#define LIMITS                                                                                  \
    "look at the limits of the request and of the provider; `atoll doctor` says which of them " \
    "this host can enforce"

const struct atoll_check atoll_probe_checks[] = {
    /* Files. */
    {"fs.host_canary", "1", "no file of the host is reached, by path or through /proc", FILES},
    {"fs.root_dotdot", "1", "climbing with .. ends at the sandbox's own root", REPORT},
    {"fs.private_hidden", "1", "what of /usr is not for all users of the host is hidden", FILES},
    {"fs.cwd_reachable", "2", "the working directory lies inside the root", REPORT},
    {"fs.chroot_escape", "3", "chroot is refused, so it is no way out", FILTER},
    {"fs.open_by_handle", "4", "files cannot be opened by inode number", FILTER},
    {"fs.system_dirs_ro", "5", "system directories are read-only or a private layer", FILES},
    {"fs.mknod_block", "6", "no block device can be made", IDENTITY},
    {"fs.mknod_char", "6", "no character device can be made", IDENTITY},
    {"fs.setuid_effective", "7", "set-uid files do not change privileges", IDENTITY},
    {"fs.mount_flags", "8", "mounts are nosuid, nodev and, the kernel's, noexec", FILES},
    {"fs.mount_propagation", "9", "mounts neither come from the host nor go there", FILES},
    {"fs.mountinfo_paths", "10", "the list of mounts names no path of the host", FILES},
    {"fs.runtime_sockets", "11", "no socket of a daemon is in sight", FILES},
    {"fs.shm_private", "12", "/dev/shm is the sandbox's own", REPORT},
    {"ipc.sysv", "12", "System V memory of the host is out of reach", REPORT},
    {"ns.ipc", "12", "the ipc namespace is the sandbox's own", REPORT},
    {"fs.flock_channel", "13", "locks on shared programs are not seen by others", FILES},

    /* /proc and /sys. */
    {"ns.pid", "14", "the pid namespace is the sandbox's own", REPORT},
    {"proc.kthreads_hidden", "14", "no thread of the kernel is in sight", REPORT},
    {"proc.host_process", "15", "processes outside can be neither seen, killed nor read", REPORT},
    {"proc.core_pattern_w", "16", "core_pattern cannot be written", KERNEL_FILES},
    {"proc.modprobe_w", "17", "the programs the kernel starts cannot be chosen", KERNEL_FILES},
    {"proc.binfmt_w", "18", "binary formats cannot be registered", KERNEL_FILES},
    {"proc.sysrq_w", "18", "sysrq-trigger cannot be written", KERNEL_FILES},
    {"proc.sysctl_w", "19", "sysctls of kernel, vm and fs cannot be written", KERNEL_FILES},
    {"proc.sysctl_net_w", "19", "sysctls of the network cannot be written", KERNEL_FILES},
    {"proc.sysctl_userns_w", "19", "limits on namespaces cannot be changed", KERNEL_FILES},
    {"proc.sys_ro", "19", "/proc/sys and its like are read-only mounts", KERNEL_FILES},
    {"proc.kcore", "20", "the kernel's memory cannot be read", KERNEL_FILES},
    {"proc.kmsg", "20", "the kernel's log cannot be read", KERNEL_FILES},
    {"proc.kallsyms", "20", "the kernel's addresses are not told", KERNEL_FILES},
    {"proc.keys", "21", "the lists of keys are covered", KERNEL_FILES},
    {"proc.masked_info", "22", "files that serve as side channels are covered", KERNEL_FILES},
    {"proc.host_state", "22", "load, devices and counts of the host are covered", KERNEL_FILES},
    {"proc.load", "22", "the load is that of the sandbox", KERNEL_FILES},
    {"proc.cmdline", "23", "the host's kernel command line is covered", KERNEL_FILES},
    {"proc.self_exe", "24", "the program of the first process cannot be overwritten", REPORT},
    {"c.pid1_exe", "24", "it stays so when that process ends: sealed or read-only", REPORT},
    {"proc.pid1_cmdline", "25", "its command line tells nothing of the host", REPORT},
    {"sys.ro", "26", "sysfs is absent or read-only", KERNEL_FILES},
    {"sys.knobs_w", "26", "no knob of the kernel in /sys opens", KERNEL_FILES},
    {"sys.sensitive", "27", "firmware, tracing and hardware ids are hidden", KERNEL_FILES},

    /* Devices and terminals. */
    {"dev.minimal", "28", "/dev holds the usual harmless nodes and nothing else", DEVICES},
    {"dev.open", "29", "no node of memory, kvm, fuse, tun or a disk opens", DEVICES},
    {"tty.session", "30", "the session is its own, without a terminal of others", REPORT},
    {"tty.tiocsti", "31", "no ioctl injects input into a terminal", FILTER},
    {"c.tiocsti_hi32", "31", "nor with numbers whose high bits are dirty", FILTER},

    /* Identity and filter. */
    {"cap.effective", "32", "capabilities in force are none, or those of root inside", IDENTITY},
    {"cap.dangerous", "33", "no capability that reaches outside can be had", IDENTITY},
    {"cap.bounding", "34", "the bounding set holds none either", IDENTITY},
    {"cap.inh_amb", "34", "the inheritable and ambient sets are empty", IDENTITY},
    {"id.nonroot", "35", "a command is not root unless asked for", IDENTITY},
    {"id.kuid_nonroot", "36", "the kernel never sees user 0", IDENTITY},
    {"ns.user", "37", "the user namespace is the sandbox's own", IDENTITY},
    {"id.groups", "38", "no group of the host is left", IDENTITY},
    {"id.setuid0", "38", "a user cannot become root by a system call", IDENTITY},
    {"nnp", "39", "no_new_privs is set", IDENTITY},
    {"seccomp.mode", "40", "a system-call filter is in force", FILTER},
    {"c.abi_i386", "41", "the 32-bit entry to the kernel is closed", FILTER},
    {"c.abi_i386_socket", "41", "it opens no sockets the filter refuses", FILTER},
    {"c.abi_x32", "41", "the x32 entry to the kernel is closed", FILTER},
    {"c.abi_rax_hi", "42", "dirty high bits do not get past the filter", FILTER},
    {"c.ptrace_rewrite", "42", "a tracer cannot exchange a call behind the filter", FILTER},

    /* Namespaces, mounts, cgroups. */
    {"userns.unshare", "43", "no user namespace by unshare", FILTER},
    {"userns.clone", "43", "no user namespace by clone", FILTER},
    {"userns.clone3", "43", "no user namespace by clone3", FILTER},
    {"ns.unshare", "44", "no other new namespace", FILTER},
    {"ns.setns", "44", "no namespace can be entered", FILTER},
    {"ns.mnt", "45", "the mount namespace is the sandbox's own", REPORT},
    {"ns.net", "45", "the network namespace is the sandbox's own", NETWORK},
    {"ns.uts", "45", "the host name is the sandbox's own", REPORT},
    {"ns.cgroup", "45", "the cgroup namespace is the sandbox's own", REPORT},
    {"mnt.mount", "46", "nothing can be mounted", FILTER},
    {"mnt.bind", "46", "nothing can be bound or moved", FILTER},
    {"mnt.remount", "46", "no mount can be changed", FILTER},
    {"mnt.umount", "46", "no cover can be taken off", FILTER},
    {"mnt.pivot_root", "46", "the root cannot be exchanged", FILTER},
    {"mnt.new_api", "47", "nor any of it by the newer calls", FILTER},
    {"cg.fs_ro", "48", "no cgroup can be entered", KERNEL_FILES},
    {"cg.release_agent", "49", "no release_agent can be set", KERNEL_FILES},
    {"cg.mount_v1", "49", "no cgroup tree can be mounted to set one", FILTER},
    {"cg.path_hidden", "50", "the path of its cgroup is not told", REPORT},

    /* Kernel surface. */
    {"sc.bpf", "51", "bpf is refused", FILTER},
    {"sc.perf", "52", "perf_event_open is refused", FILTER},
    {"sc.userfaultfd", "53", "userfaultfd is refused", FILTER},
    {"sc.io_uring", "54", "io_uring is refused, which knows no filter", FILTER},
    {"sc.keyctl", "55", "the kernel's keys are refused", FILTER},
    {"key.session", "55", "the launcher's session keyring is out of reach", REPORT},
    {"sc.modules", "56", "modules cannot be loaded", FILTER},
    {"sc.kexec", "56", "no other kernel can be loaded", FILTER},
    {"sc.reboot", "56", "reboot is refused", FILTER},
    {"sc.swap_acct_quota", "56", "swap, accounting and quotas are refused", FILTER},
    {"sc.clock", "57", "the clock cannot be set", FILTER},
    {"sc.sethostname", "57", "the host name cannot be set", FILTER},
    {"sc.ioports", "58", "no I/O port opens", FILTER},
    {"sc.personality", "58", "memory protection cannot be turned off", FILTER},
    {"sc.legacy", "58", "obsolete system calls are refused", FILTER},
    {"sc.syslog", "59", "the kernel's log is refused", FILTER},
    {"sc.sched_rt", "60", "scheduling priority cannot be raised", FILTER},
    {"sc.oom_adj", "61", "no process escapes the out-of-memory killer", IDENTITY},
    {"sc.rlimit_raise", "61", "hard limits cannot be raised", IDENTITY},

    /* Sockets and network. */
    {"sock.alg", "62", "no socket of the kernel's ciphers", FILTER},
    {"sock.vsock", "63", "no socket to the hypervisor", FILTER},
    {"sock.packet", "64", "no packet socket", FILTER},
    {"sock.raw", "64", "no raw IP", FILTER},
    {"sock.xdp", "64", "no AF_XDP", FILTER},
    {"sock.netlink_xfrm", "65", "no netlink socket of IPsec", FILTER},
    {"sock.netlink_nf", "65", "no netlink socket of netfilter", FILTER},
    {"sock.netlink_misc", "66", "no other netlink but that of routes", FILTER},
    {"sock.exotic", "67", "no rarely used socket family", FILTER},
    {"sock.inet_protos", "68", "only TCP and UDP", FILTER},
    {"sock.abstract", "69", "abstract sockets of the host are out of reach", NETWORK},
    {"net.ifaces", "70", "there is no interface but lo", NETWORK},
    {"net.route_v4", "70", "there is no way out by IPv4", NETWORK},
    {"net.route_v6", "70", "there is no way out by IPv6", NETWORK},
    {"net.metadata", "71", "metadata services of clouds are out of reach", NETWORK},
    {"net.host_service", "72", "services of the host are out of reach", NETWORK},
    {"net.dns", "73", "the host's resolver is out of reach", NETWORK},
    {"net.peer_sandbox", "74", "services of other sandboxes are out of reach", NETWORK},
    {"net.foreign_listeners", "75", "sockets of others are not listed", NETWORK},
    {"net.so_mark", "75", "packets cannot be marked for the host's rules", IDENTITY},

    /* Descriptors, secrets, limits a process is born with. */
    {"fd.inherited", "76", "no descriptor is inherited", REPORT},
    {"fd.stdio", "76", "standard streams are pipes or nothing", REPORT},
    {"env.canary", "77", "the launcher's environment is not inherited", SECRETS},
    {"env.secret_names", "77", "no variable promises a secret", SECRETS},
    {"env.other_processes", "78", "nor is it read from another process", SECRETS},
    {"lim.core", "89", "there are no core dumps", LIMITS},
    {"lim.nofile", "89", "open files are bounded", LIMITS},
    {"lim.memlock_msgqueue", "89", "locked memory and queues are bounded", LIMITS},
    {"lim.shm", "89", "/dev/shm is bounded", LIMITS},
    {"lim.disk", "89", "the disk is bounded", LIMITS},
};
const size_t atoll_probe_checks_count = ATOLL_ARRAY_LEN(atoll_probe_checks);

const struct atoll_check *atoll_check_find(const struct atoll_check *checks, size_t count,
                                           const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(checks[i].id, id) == 0)
            return &checks[i];
    return NULL;
}
