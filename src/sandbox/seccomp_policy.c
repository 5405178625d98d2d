#include "sandbox/seccomp_policy.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Allowed whatever the arguments. A name that libseccomp cannot resolve is left out: ENOSYS. */
const char *const atoll_seccomp_allowed[] = {
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat", "capget",
    "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep",
    "close", "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3",
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2",
    "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "execve", "execveat", "exit",
    "exit_group", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod",
    "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr",
    "flock", "fork", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate",
    "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake", "futimesat",
    "get_robust_list", "get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid",
    "geteuid", "getgid", "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid",
    "getppid", "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage",
    "getsid", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
    "getxattrat", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
    "ioprio_get", "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
    "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr", "listxattrat", "llistxattr",
    "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise", "map_shadow_stack", "membarrier",
    "memfd_create", "mincore", "mkdir", "mkdirat", "mlock", "mlock2", "mlockall", "mmap",
    "mprotect", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
    "mq_unlink", "mremap", "mseal", "msgctl", "msgget", "msgrcv", "msgsnd", "msync", "munlock",
    "munlockall", "munmap", "nanosleep", "newfstatat", "open", "openat", "openat2", "pause",
    "pidfd_open", "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect",
    "poll", "ppoll", "prctl", "pread64", "preadv", "preadv2", "prlimit64", "process_mrelease",
    "process_vm_readv", "process_vm_writev", "pselect6", "ptrace", "pwrite64", "pwritev",
    "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv", "recvfrom", "recvmmsg",
    "recvmsg", "removexattr", "rename", "renameat", "renameat2", "restart_syscall", "rmdir",
    "rseq", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
    "sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select", "semctl", "semget",
    "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto", "set_robust_list",
    "set_thread_area", "set_tid_address", "setfsgid", "setfsuid", "setgid", "setgroups",
    "setitimer", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setsockopt", "setuid", "setxattr", "shmat", "shmctl", "shmdt",
    "shmget", "shutdown", "sigaltstack", "signalfd", "signalfd4", "splice", "stat", "statfs",
    "statx", "symlink", "symlinkat", "sync_file_range", "syncfs", "sysinfo", "tee", "tgkill",
    "time", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
    "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask",
    "uname", "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4",
    "waitid", "write", "writev",
    NULL,
};

/* Known, and refused with EPERM as a kernel without the right would. */
const char *const atoll_seccomp_refused[] = {
    /* mounts and namespaces */
    "mount", "umount", "umount2", "pivot_root", "chroot", "setns", "unshare", "fsopen", "fsmount",
    "fsconfig", "fspick", "open_tree", "move_mount", "mount_setattr", "open_tree_attr",
    "name_to_handle_at", "open_by_handle_at", "statmount", "listmount",
    /* kernel machinery that has been a way out before */
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "add_key", "request_key", "keyctl", "init_module", "finit_module",
    "delete_module", "create_module", "kexec_load", "kexec_file_load", "memfd_secret",
    "fanotify_init", "fanotify_mark", "kcmp", "pidfd_getfd", "process_madvise", "lookup_dcookie",
    /* the host's state */
    "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "sethostname",
    "setdomainname", "settimeofday", "stime", "clock_settime", "clock_settime64", "adjtimex",
    "clock_adjtime", "clock_adjtime64", "syslog", "vhangup", "nfsservctl", "sysfs", "ustat",
    "_sysctl", "uselib",
    /* hardware and memory placement */
    "iopl", "ioperm", "modify_ldt", "vm86", "vm86old", "move_pages", "migrate_pages", "mbind",
    "set_mempolicy", "set_mempolicy_home_node", "get_mempolicy", "ioprio_set",
    NULL,
};

#define NEW_NAMESPACES                                                                              \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |   \
     CLONE_NEWNET)

#define ALL 0xffffffffu

/* Rows of one call stand together, the first that matches decides. clone3 is in no list and thus
 * ENOSYS: its flags are behind a pointer, and libc falls back to clone. */
const struct atoll_seccomp_row atoll_seccomp_rows[] = {
    {"clone", 0, {{0, NEW_NAMESPACES, 0}}},
    {"clone", EPERM, {{0}}},
    {"sync", ATOLL_SECCOMP_PRETEND, {{0}}}, /* would flush every disk of the host */
    /* Pushing input into a terminal, and the console. */
    {"ioctl", EPERM, {{1, ALL, TIOCSTI}}},
    {"ioctl", EPERM, {{1, ALL, TIOCLINUX}}},
    {"ioctl", EPERM, {{1, ALL, TIOCCONS}}},
    {"ioctl", 0, {{0}}},
    {"mknod", EPERM, {{1, S_IFMT, S_IFCHR}}},
    {"mknod", EPERM, {{1, S_IFMT, S_IFBLK}}},
    {"mknod", 0, {{0}}},
    {"mknodat", EPERM, {{2, S_IFMT, S_IFCHR}}},
    {"mknodat", EPERM, {{2, S_IFMT, S_IFBLK}}},
    {"mknodat", 0, {{0}}},
    /* Local sockets, TCP, UDP and asking for routes; refusals look like a kernel without the rest. */
    {"socket", 0, {{0, ALL, AF_UNIX}}},
    {"socket", 0, {{0, ALL, AF_INET}, {2, ALL, IPPROTO_IP}}},
    {"socket", 0, {{0, ALL, AF_INET}, {2, ALL, IPPROTO_TCP}}},
    {"socket", 0, {{0, ALL, AF_INET}, {2, ALL, IPPROTO_UDP}}},
    {"socket", 0, {{0, ALL, AF_INET6}, {2, ALL, IPPROTO_IP}}},
    {"socket", 0, {{0, ALL, AF_INET6}, {2, ALL, IPPROTO_TCP}}},
    {"socket", 0, {{0, ALL, AF_INET6}, {2, ALL, IPPROTO_UDP}}},
    {"socket", 0, {{0, ALL, AF_NETLINK}, {2, ALL, NETLINK_ROUTE}}},
    {"socket", EPROTONOSUPPORT, {{0, ALL, AF_INET}}},
    {"socket", EPROTONOSUPPORT, {{0, ALL, AF_INET6}}},
    {"socket", EPROTONOSUPPORT, {{0, ALL, AF_NETLINK}}},
    {"socket", EAFNOSUPPORT, {{0}}},
    {"socketpair", 0, {{0, ALL, AF_UNIX}}},
    {"socketpair", EAFNOSUPPORT, {{0}}},
    /* PER_LINUX and PER_LINUX32 with or without UNAME26, and the query. */
    {"personality", 0, {{0, ALL, 0x0}}},
    {"personality", 0, {{0, ALL, 0x8}}},
    {"personality", 0, {{0, ALL, 0x20000}}},
    {"personality", 0, {{0, ALL, 0x20008}}},
    {"personality", 0, {{0, ALL, 0xffffffff}}},
    {"personality", EPERM, {{0}}},
    {0},
};
