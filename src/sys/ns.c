#include "sys/ns.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/fd.h"
#include "sys/caps.h"

#define KEYCTL_JOIN_SESSION_KEYRING_OP 1

static int result(long r)
{
    return r < 0 ? -errno : (int)r;
}

pid_t atoll_sys_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = flags | (ret_pidfd ? CLONE_PIDFD : 0),
        .exit_signal = SIGCHLD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
    };
    long pid;

    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup_fd;
    }
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid < 0)
        return -errno;
    if (pid > 0 && ret_pidfd)
        *ret_pidfd = pidfd;
    return (pid_t)pid;
}

int atoll_sys_charge_to(uid_t uid)
{
    /* When the effective uid leaves 0, the kernel clears the effective capabilities. The permitted
     * ones stay because the real uid is still 0. */
    if (syscall(SYS_setresuid, -1, uid, -1) < 0)
        return -errno;
    return atoll_caps_raise();
}

pid_t atoll_sys_clone_for(uid_t owner, uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    pid_t pid;
    int r;

    if (owner == 0)
        return atoll_sys_clone(flags, cgroup_fd, ret_pidfd);
    r = atoll_sys_charge_to(owner);
    pid = r < 0 ? r : atoll_sys_clone(flags, cgroup_fd, ret_pidfd);
    /* In a new user namespace the child has no mapped uid yet and cannot change it. */
    if (pid == 0 && flags & CLONE_NEWUSER)
        return 0;
    /* Cannot fail because the real uid is 0; continuing with the wrong uid would be worse than an
     * abort. */
    if (atoll_sys_charge_to(0) < 0)
        abort();
    return pid;
}

int atoll_sys_pidfd_kill(int pidfd, int signo)
{
    return result(syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0));
}

int atoll_sys_pidfd_open(pid_t pid)
{
    return result(syscall(SYS_pidfd_open, pid, 0));
}

static int write_proc(pid_t pid, const char *file, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return atoll_fd_write_file(AT_FDCWD, path, text);
}

static int write_maps(pid_t pid, uint32_t inside, uint32_t outside_uid, uint32_t outside_gid,
                      uint32_t count, const char *more)
{
    char text[80];
    int r;

    (void)snprintf(text, sizeof(text), "%u %u %u\n%s", inside, outside_gid, count, more);
    r = write_proc(pid, "gid_map", text);
    (void)snprintf(text, sizeof(text), "%u %u %u\n%s", inside, outside_uid, count, more);
    return r < 0 ? r : write_proc(pid, "uid_map", text);
}

int atoll_sys_write_id_map(pid_t pid, uint32_t inside, uint32_t outside_uid, uint32_t outside_gid,
                           uint32_t count, bool deny_setgroups)
{
    int r = deny_setgroups ? write_proc(pid, "setgroups", "deny") : 0;

    return r < 0 ? r : write_maps(pid, inside, outside_uid, outside_gid, count, "");
}

void atoll_sys_leave_descriptors(int keep_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (keep_fd > STDERR_FILENO + 1)
        (void)syscall(SYS_close_range, STDERR_FILENO + 1, keep_fd - 1, 0);
    (void)syscall(SYS_close_range, ATOLL_MAX(keep_fd, STDERR_FILENO) + 1, ~0U, 0);
}

int atoll_sys_make_userns(uid_t owner, uint32_t inside, uint32_t outside, uint32_t count,
                          bool with_root)
{
    int hold[2];
    char path[64];
    pid_t pid;
    int r;

    if (pipe2(hold, O_CLOEXEC) < 0)
        return -errno;
    pid = atoll_sys_clone_for(owner, CLONE_NEWUSER, -1, NULL);
    if (pid == 0) {
        /* The child waits until the parent has opened the namespace and closes the pipe. */
        char byte;
        atoll_sys_leave_descriptors(hold[0]);
        (void)!read(hold[0], &byte, 1);
        _exit(0);
    }
    if (pid < 0) {
        r = pid;
    } else {
        r = write_maps(pid, inside, outside, outside, count, with_root ? "0 0 1\n" : "");
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        if (r == 0)
            r = result(open(path, O_RDONLY | O_CLOEXEC));
    }
    (void)close(hold[0]);
    (void)close(hold[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* In the child: its pid as /proc has it, which is not that of our pid namespace. */
static void tell_pid(int fd)
{
    char text[24];
    ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    (void)!write(fd, text, strlen(text));
}

static int map_told(int fd, const char *uid_map, const char *gid_map)
{
    char text[24], path[64];
    ssize_t n = read(fd, text, sizeof(text) - 1);
    pid_t pid;
    int r;

    text[n > 0 ? n : 0] = '\0';
    pid = (pid_t)strtol(text, NULL, 10);
    if (pid <= 0)
        return -ESRCH;
    r = write_proc(pid, "gid_map", gid_map);
    if (r == 0)
        r = write_proc(pid, "uid_map", uid_map);
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    return r < 0 ? r : result(open(path, O_RDONLY | O_CLOEXEC));
}

int atoll_sys_make_owner_map(uid_t owner, uint32_t uid, uint32_t gid, uint32_t outside_uid,
                             uint32_t outside_gid)
{
    int both[2];
    char uids[48], gids[48];
    pid_t pid;
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) < 0)
        return -errno;
    pid = atoll_sys_clone_for(owner, CLONE_NEWUSER, -1, NULL);
    if (pid == 0) {
        char byte;
        atoll_sys_leave_descriptors(both[0]);
        tell_pid(both[0]);
        (void)!read(both[0], &byte, 1); /* until the parent has closed its end */
        _exit(0);
    }
    (void)close(both[0]);
    (void)snprintf(uids, sizeof(uids), "%u %u 1\n", uid, outside_uid);
    (void)snprintf(gids, sizeof(gids), "%u %u 1\n", gid, outside_gid);
    r = pid < 0 ? pid : map_told(both[1], uids, gids);
    (void)close(both[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

int atoll_sys_make_netns(uid_t owner)
{
    ATOLL_AUTOCLOSE int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int r = own < 0 ? -errno : atoll_sys_charge_to(owner);

    if (r < 0)
        return r;
    r = result(unshare(CLONE_NEWNET));
    /* Cannot fail because the real uid is 0; see atoll_sys_clone_for. */
    if (atoll_sys_charge_to(0) < 0)
        abort();
    if (r < 0)
        return r;
    r = atoll_sys_network_up();
    if (r == 0)
        r = result(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    if (setns(own, CLONE_NEWNET) < 0)
        abort(); /* must not go on in the network of a sandbox */
    return r;
}

int atoll_sys_pivot_root(int new_root_fd)
{
    /* pivot_root(".", ".") stacks the old root on the new one; detaching it uncovers the new. */
    if (fchdir(new_root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

int atoll_sys_new_clock(void)
{
    ATOLL_AUTOCLOSE int ns = ATOLL_NO_FD;
    struct timespec monotonic, boot;
    char offsets[96];
    int r;

    if (unshare(CLONE_NEWTIME) < 0)
        return errno == EINVAL ? 0 : -errno;
    if (clock_gettime(CLOCK_MONOTONIC, &monotonic) < 0 || clock_gettime(CLOCK_BOOTTIME, &boot) < 0)
        return -errno;
    /* Leaves one second: the kernel refuses offsets that make a clock negative. */
    (void)snprintf(offsets, sizeof(offsets), "monotonic %lld 0\nboottime %lld 0\n",
                   1 - (long long)monotonic.tv_sec, 1 - (long long)boot.tv_sec);
    r = atoll_fd_write_file(AT_FDCWD, "/proc/self/timens_offsets", offsets);
    if (r < 0)
        return r;
    /* unshare() sets the namespace of future children only; this process must enter it with
     * setns(). */
    ns = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    return ns < 0 || setns(ns, CLONE_NEWTIME) < 0 ? -errno : 0;
}

int atoll_sys_new_session_keyring(void)
{
    long r = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING_OP, NULL);
    /* A kernel without keyrings has nothing to leak. */
    return r < 0 && errno != ENOSYS ? -errno : 0;
}

int atoll_sys_network_up(void)
{
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq req = {.ifr_name = "lo"};

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &req) < 0)
        return -errno;
    if (req.ifr_flags & IFF_UP)
        return 0;
    /* Root inside has no capability over this namespace, so the limit would apply to it, too. */
    (void)!atoll_fd_write_file(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    req.ifr_flags |= IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}

static int close_span(int first, int last)
{
    return first > last ? 0 : result(syscall(SYS_close_range, first, last, 0));
}

int atoll_sys_close_except(int first, const int *keep, size_t nkeep)
{
    for (size_t i = 0; i < nkeep; i++) {
        int r;
        if (keep[i] < first)
            continue;
        r = close_span(first, keep[i] - 1);
        if (r < 0)
            return r;
        first = keep[i] + 1;
    }
    return close_span(first, INT_MAX);
}
