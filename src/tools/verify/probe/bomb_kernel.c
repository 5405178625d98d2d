/*
 * Kernel memory that a program causes without pages of its own: data in sockets and queues, and objects
 * behind descriptors. Each must be charged to the sandbox, or hit a limit. Pipes, unix streams, System V
 * memory and names of files are in bomb.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pty.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/verify/probe/bomb.h"
#include "tools/verify/probe/probe.h"

#define BUFFER_BYTES (8 << 20) /* requested; the kernel reduces it to its maximum */
#define DATAGRAM_BYTES 8192

static void ask_for_room(int fd)
{
    int bytes = BUFFER_BYTES;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

long probe_socket_bytes;

/* By the kernel's own account, overhead included. */
static void count_memory(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof(info);

    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0)
        probe_socket_bytes += (long)info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_WMEM_QUEUED];
}

/* A socket of ours on loopback, and its address. */
static int open_local(int type, struct sockaddr_in *ret)
{
    socklen_t len = sizeof(*ret);
    int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (fd < 0)
        return -1;
    ask_for_room(fd);
    if (bind(fd, (struct sockaddr *)ret, len) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &len) < 0)
        return -1;
    return fd;
}

/* A connection that the other end does not read. */
static int step_tcp(long n)
{
    static struct sockaddr_in address;
    static int listener = -1;
    int fd, other, err;

    if (n == 0) {
        listener = open_local(SOCK_STREAM, &address);
        if (listener < 0 || listen(listener, 4096) < 0)
            return errno;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    ask_for_room(fd);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        (other = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return errno;
    err = probe_fill(fd);
    count_memory(fd);
    count_memory(other);
    return err;
}

/* A socket that receives datagrams until it drops them. */
static int step_udp(long n)
{
    static char datagram[DATAGRAM_BYTES];
    struct sockaddr_in address;
    static int sender = -1;
    int fd = open_local(SOCK_DGRAM, &address);

    if (n == 0)
        sender = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || sender < 0)
        return errno;
    for (int i = 0; i < 64; i++)
        if (sendto(sender, datagram, sizeof(datagram), 0, (struct sockaddr *)&address,
                   sizeof(address)) < 0 &&
            errno != EAGAIN && errno != ENOBUFS)
            return errno;
    count_memory(fd);
    return 0;
}

static int step_unix_datagrams(long n)
{
    int fds[2];

    (void)n;
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        return errno;
    ask_for_room(fds[0]);
    return probe_fill(fds[0]);
}

/* Descriptors in flight in a socket, where RLIMIT_NOFILE does not count them. */
static int step_passed(long n)
{
    static int fds[2];
    struct iovec byte = {.iov_base = "x", .iov_len = 1};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), 0, SOL_SOCKET, SCM_RIGHTS}};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control.space)};
    int passed = eventfd(0, EFD_CLOEXEC);
    int err = 0;

    if (passed < 0 || (n % 100 == 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) != 0))
        return errno;
    memcpy(CMSG_DATA(&control.head), &passed, sizeof(passed));
    if (sendmsg(fds[0], &message, MSG_DONTWAIT) < 0 && errno != EAGAIN)
        err = errno;
    close(passed);
    return err;
}

/* The kernel's answers wait in the socket. */
static int step_netlink(long n)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg body;
    } ask = {.head = {sizeof(ask), RTM_GETLINK, NLM_F_REQUEST, 1, 0}, .body = {.ifi_index = 1}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    (void)n;
    if (fd < 0)
        return errno;
    ask_for_room(fd);
    for (int i = 0; i < 400; i++)
        if (send(fd, &ask, sizeof(ask), MSG_DONTWAIT) < 0)
            break;
    count_memory(fd);
    return 0;
}

static int step_epoll(long n)
{
    static int watched = -1;
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    if (n == 0)
        watched = eventfd(0, EFD_CLOEXEC);
    fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, watched, &event) < 0 ? errno : 0;
}

static int step_timer(long n)
{
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    timer_t timer;

    (void)n;
    return timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ? errno : 0;
}

static int step_sysv_message(long n)
{
    static struct {
        long type;
        char text[DATAGRAM_BYTES];
    } message = {.type = 1};
    static int queue = -1;

    if (n == 0)
        queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    if (queue >= 0 && msgsnd(queue, &message, sizeof(message.text), IPC_NOWAIT) == 0)
        return 0;
    if (errno != EAGAIN)
        return errno;
    queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    return queue < 0 ? errno : 0;
}

static int step_semaphores(long n)
{
    (void)n;
    return semget(IPC_PRIVATE, 500, IPC_CREAT | 0600) < 0 ? errno : 0;
}

/* A message queue that is full. */
static int step_messages(long n)
{
    static char text[DATAGRAM_BYTES];
    struct mq_attr attr = {.mq_maxmsg = 10, .mq_msgsize = sizeof(text)};
    char name[48];
    mqd_t queue;

    snprintf(name, sizeof(name), "/bomb-%ld-%ld", (long)getpid(), n);
    queue = mq_open(name, O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600, &attr);
    if (queue == (mqd_t)-1)
        return errno;
    mq_unlink(name);
    while (mq_send(queue, text, sizeof(text), 0) == 0)
        continue;
    return errno == EAGAIN ? 0 : errno;
}

/* A terminal whose two directions are full. */
static int step_terminal(long n)
{
    struct termios raw;
    int master, slave;

    (void)n;
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
        return errno;
    if (tcgetattr(slave, &raw) == 0) {
        cfmakeraw(&raw);
        tcsetattr(slave, TCSANOW, &raw);
    }
    fcntl(master, F_SETFL, O_NONBLOCK);
    fcntl(slave, F_SETFL, O_NONBLOCK);
    (void)!probe_fill(master);
    (void)!probe_fill(slave);
    return 0;
}

/* One page in every 2 MiB: many page tables for little memory. */
static int step_page_table(long n)
{
    static char *reserve;
    static long mapped;
    const long span = 2L << 20;

    if (n % 512 == 0) {
        reserve = mmap(NULL, (size_t)(512 * span), PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        mapped = 0;
    }
    if (reserve == MAP_FAILED)
        return errno;
    (void)*(volatile char *)(reserve + mapped++ * span); /* the zero page */
    return 0;
}

static int step_attribute(long n)
{
    static char value[4096];
    char file[32], name[32];
    int fd;

    snprintf(file, sizeof(file), "bomb.attr.%ld", n / 16);
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    snprintf(name, sizeof(name), "user.bomb%ld", n % 16);
    if (fsetxattr(fd, name, value, sizeof(value), 0) < 0) {
        int err = errno;
        close(fd);
        return err;
    }
    close(fd);
    return 0;
}

static int step_directory(long n)
{
    char name[256];

    snprintf(name, sizeof(name), "bomb.dir.%0180ld", n);
    return mkdir(name, 0700) < 0 ? errno : 0;
}

/* The kernel searches the locks of a file linearly, so each file gets only some. */
static int step_lock(long n)
{
    static int fd = -1;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * n, .l_len = 1};
    char name[32];

    if (n % 500 == 0) {
        snprintf(name, sizeof(name), "bomb.locks.%ld", n / 500);
        fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    return fd < 0 || fcntl(fd, F_SETLK, &lock) < 0 ? errno : 0;
}

/* Events that wait in an inotify instance. */
static int step_event(long n)
{
    static int instance = -1;
    char from[32], to[32];

    if (n % 8000 == 0) {
        instance = inotify_init1(IN_CLOEXEC);
        if (instance < 0 || inotify_add_watch(instance, ".", IN_MOVE) < 0)
            return errno;
    }
    snprintf(from, sizeof(from), "bomb.event.%ld", n);
    snprintf(to, sizeof(to), "bomb.event.%ld", n + 1);
    if (n == 0)
        close(open(from, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return rename(from, to) < 0 ? errno : 0;
}

static const struct probe_bomb_kind kinds[] = {
    {"tcp", step_tcp},
    {"udp", step_udp},
    {"unixdgram", step_unix_datagrams},
    {"passed", step_passed},
    {"netlink", step_netlink},
    {"epoll", step_epoll},
    {"timers", step_timer},
    {"sysvmsg", step_sysv_message},
    {"sysvsem", step_semaphores},
    {"messages", step_messages},
    {"terminals", step_terminal},
    {"pagetables", step_page_table},
    {"attributes", step_attribute},
    {"directories", step_directory},
    {"locks", step_lock},
    {"events", step_event},
};
const struct probe_bomb_table probe_bombs_kernel = {kinds, PROBE_COUNT(kinds)};
