/*
 * Bounds the netlink sockets of the sandbox. What waits in them is charged to no cgroup, and
 * neither a sysctl of the namespace nor an rlimit bounds it (docs/adr/0018): a process could hold
 * gigabytes of the kernel's memory in answers that it does not read.
 *
 * A filter forwards socket(AF_NETLINK, ...) of every process to the agent, which makes the socket
 * and puts it into the caller, or refuses it. The filter applies to the agent as well; it lets a
 * call pass that has a random key in the two arguments that socket() does not use.
 *
 * Open sockets are counted with an epoll instance: the kernel removes a socket from it with its
 * last descriptor, and a netlink socket is always writable, so each one in it is an event.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "agent/agent_internal.h"
#include "base/fd.h"
#include "base/switches.h"

#define SOCKETS_MIN 8
#define SOCKETS_MAX 64
#define MEMORY_SHARE 4              /* one part of so many may wait in netlink sockets */
#define BUFFER_DEFAULT (4ull << 20) /* net.core.rmem_max, if the namespace does not show it */

/* Of Linux 5.14 and 5.19; older headers lack them. */
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1u << 1)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1u << 5)
#endif

struct atoll_agent_netlink {
    int listener; /* of the filter */
    int sockets;  /* epoll instance with every socket that is open */
    unsigned max;
    uint64_t key[2];
    struct atoll_watch watch;
};

#define LOAD(field, half)              \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
             (uint32_t)(offsetof(struct seccomp_data, field) + (half) * sizeof(uint32_t)))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skip)

/* Returns the filter's listener, or -errno. Calls other than socket() are allowed whatever their
 * arguments are, so the kernel does not run the filter for them (Linux 5.11). */
static int install(const uint64_t *key)
{
    struct sock_filter code[] = {
        LOAD(nr, 0),
        UNLESS(SYS_socket, 10),
        LOAD(args[0], 0),
        UNLESS(AF_NETLINK, 8),
        LOAD(args[3], 0),
        UNLESS(key[0], 7),
        LOAD(args[3], 1),
        UNLESS(key[0] >> 32, 5),
        LOAD(args[4], 0),
        UNLESS(key[1], 3),
        LOAD(args[4], 1),
        UNLESS(key[1] >> 32, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    const struct sock_fprog program = {.len = ATOLL_ARRAY_LEN(code), .filter = code};
    /* Without the second flag signals interrupt the call; it is then made again. */
    const unsigned flags[] = {SECCOMP_FILTER_FLAG_NEW_LISTENER |
                                  SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                              SECCOMP_FILTER_FLAG_NEW_LISTENER};
    long fd = -1;

    for (size_t i = 0; fd < 0 && i < ATOLL_ARRAY_LEN(flags); i++)
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags[i], &program);
    return fd < 0 ? -errno : (int)fd;
}

/* So many that their buffers, filled, are MEMORY_SHARE of the memory limit. */
static unsigned count_allowed(const struct atoll_agent *a)
{
    ATOLL_AUTOCLOSE int fd = openat(a->proc_fd, "sys/net/core/rmem_max", O_RDONLY | O_CLOEXEC);
    char text[24] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    uint64_t buffer = n > 0 ? strtoull(text, NULL, 10) : BUFFER_DEFAULT, count;

    /* The kernel doubles what a program asks for. */
    count = a->config.memory_limit_bytes / MEMORY_SHARE / ATOLL_MAX(2 * buffer, 1ull);
    return (unsigned)ATOLL_MIN(ATOLL_MAX(count, (uint64_t)SOCKETS_MIN), (uint64_t)SOCKETS_MAX);
}

/* Makes a socket that is counted until its last descriptor is closed; -errno. */
static int make_socket(const struct atoll_agent_netlink *n, const struct seccomp_data *call)
{
    struct epoll_event events[SOCKETS_MAX], writable = {.events = EPOLLOUT};
    long fd;

    if (epoll_wait(n->sockets, events, (int)n->max, 0) >= (int)n->max)
        return -ENOBUFS;
    fd = syscall(SYS_socket, call->args[0], call->args[1] | SOCK_CLOEXEC, call->args[2], n->key[0],
                 n->key[1]);
    if (fd >= 0 && epoll_ctl(n->sockets, EPOLL_CTL_ADD, (int)fd, &writable) < 0) {
        int errnum = errno;
        (void)close((int)fd);
        return -errnum;
    }
    return fd < 0 ? -errno : (int)fd;
}

static void call_ready(void *arg, uint32_t events)
{
    struct atoll_agent_netlink *n = arg;
    struct seccomp_notif call = {0};
    struct seccomp_notif_resp answer = {0};
    struct seccomp_notif_addfd addfd = {.flags = SECCOMP_ADDFD_FLAG_SEND};
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;

    (void)events;
    if (ioctl(n->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
        return; /* the caller has ended */
    fd = make_socket(n, &call.data);
    addfd.id = answer.id = call.id;
    addfd.srcfd = (uint32_t)fd;
    addfd.newfd_flags = call.data.args[1] & SOCK_CLOEXEC ? O_CLOEXEC : 0;
    if (fd >= 0 && ioctl(n->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &addfd) >= 0)
        return;
    if (fd >= 0 && errno == EINVAL) /* before Linux 5.14: the caller makes its own, not counted */
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else
        answer.error = fd < 0 ? fd : -errno;
    (void)ioctl(n->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

void atoll_agent_netlink_open(struct atoll_agent *a)
{
    struct atoll_agent_netlink *n;

    if (atoll_weakened("netlink") || prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER)
        return;
    n = calloc(1, sizeof(*n));
    if (!n)
        return;
    n->max = count_allowed(a);
    n->sockets = epoll_create1(EPOLL_CLOEXEC);
    n->listener = ATOLL_NO_FD;
    if (n->sockets >= 0 && getrandom(n->key, sizeof(n->key), 0) == sizeof(n->key))
        n->listener = install(n->key);
    /* From here on the socket calls of the sandbox wait for the agent. */
    if (n->listener < 0 ||
        atoll_watch_open(&n->watch, a->loop, n->listener, EPOLLIN, call_ready, n) < 0) {
        if (n->sockets >= 0)
            (void)close(n->sockets);
        if (n->listener >= 0)
            (void)close(n->listener);
        free(n);
        return;
    }
    a->netlink = n;
}

void atoll_agent_netlink_close(struct atoll_agent *a)
{
    struct atoll_agent_netlink *n = a->netlink;

    if (!n)
        return;
    atoll_watch_close(&n->watch);
    (void)close(n->listener);
    (void)close(n->sockets);
    free(n);
    a->netlink = NULL;
}
