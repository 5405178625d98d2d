/*
 * Rows 62-75: socket families, and what a socket can reach. To check for a route, a UDP socket is
 * connected: that looks up the route and sends no packet.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define HIGH_BITS 0xdeadbeef00000000L
#define CONNECT_MS 1500

struct family {
    const char *name;
    long domain, type, protocol;
};

static void all_unavailable(const struct family *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int fd = (int)syscall(SYS_socket, list[i].domain, list[i].type, list[i].protocol);

        if (fd >= 0)
            probe_found("%s", list[i].name);
        else if (!probe_refused(errno))
            probe_found("%s: %s", list[i].name, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    probe_conclude("no such socket");
}

#define UNAVAILABLE(...)                                   \
    do {                                                   \
        static const struct family list[] = {__VA_ARGS__}; \
        all_unavailable(list, PROBE_COUNT(list));          \
    } while (0)

static void sock_alg(void)
{
    UNAVAILABLE({"AF_ALG", 38, SOCK_SEQPACKET, 0},
                {"AF_ALG with high bits", 38 | HIGH_BITS, SOCK_SEQPACKET, 0});
}

static void sock_vsock(void)
{
    UNAVAILABLE({"AF_VSOCK", 40, SOCK_STREAM, 0},
                {"AF_VSOCK with high bits", 40 | HIGH_BITS, SOCK_STREAM, 0});
}

static void sock_packet(void)
{
    UNAVAILABLE({"AF_PACKET raw", 17, SOCK_RAW, 0}, {"AF_PACKET dgram", 17, SOCK_DGRAM, 0});
}

static void sock_raw(void)
{
    UNAVAILABLE({"raw ICMP", AF_INET, SOCK_RAW, IPPROTO_ICMP},
                {"raw IP", AF_INET, SOCK_RAW, IPPROTO_RAW},
                {"raw ICMPv6", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6});
}

static void sock_xdp(void)
{
    UNAVAILABLE({"AF_XDP", 44, SOCK_RAW, 0});
}

static void sock_netlink_xfrm(void)
{
    UNAVAILABLE({"NETLINK_XFRM", AF_NETLINK, SOCK_RAW, 6});
}

static void sock_netlink_nf(void)
{
    UNAVAILABLE({"NETLINK_NETFILTER", AF_NETLINK, SOCK_RAW, 12});
}

static void sock_netlink_misc(void)
{
    UNAVAILABLE({"NETLINK_AUDIT", AF_NETLINK, SOCK_RAW, 9},
                {"NETLINK_CONNECTOR", AF_NETLINK, SOCK_RAW, 11},
                {"NETLINK_KOBJECT_UEVENT", AF_NETLINK, SOCK_RAW, 15},
                {"NETLINK_GENERIC", AF_NETLINK, SOCK_RAW, 16},
                {"NETLINK_CRYPTO", AF_NETLINK, SOCK_RAW, 21});
}

static void sock_exotic(void)
{
    UNAVAILABLE({"AX25", 3, SOCK_DGRAM, 0}, {"IPX", 4, SOCK_DGRAM, 0},
                {"APPLETALK", 5, SOCK_DGRAM, 0}, {"NETROM", 6, SOCK_SEQPACKET, 0},
                {"X25", 9, SOCK_SEQPACKET, 0}, {"ROSE", 11, SOCK_SEQPACKET, 0},
                {"KEY", 15, SOCK_RAW, 2}, {"RDS", 21, SOCK_SEQPACKET, 0},
                {"PPPOX", 24, SOCK_STREAM, 0}, {"LLC", 26, SOCK_DGRAM, 0}, {"CAN", 29, SOCK_RAW, 1},
                {"TIPC", 30, SOCK_DGRAM, 0}, {"BLUETOOTH", 31, SOCK_RAW, 1},
                {"RXRPC", 33, SOCK_DGRAM, AF_INET}, {"PHONET", 35, SOCK_DGRAM, 0},
                {"IEEE802154", 36, SOCK_DGRAM, 0}, {"NFC", 39, SOCK_SEQPACKET, 0},
                {"KCM", 41, SOCK_DGRAM, 0}, {"QIPCRTR", 42, SOCK_DGRAM, 0},
                {"SMC", 43, SOCK_STREAM, 0}, {"MCTP", 45, SOCK_DGRAM, 0});
}

static void sock_inet_protos(void)
{
    UNAVAILABLE({"ICMP", AF_INET, SOCK_DGRAM, IPPROTO_ICMP},
                {"ICMPv6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6},
                {"SCTP", AF_INET, SOCK_STREAM, 132}, {"DCCP", AF_INET, 6, 33},
                {"UDPLITE", AF_INET, SOCK_DGRAM, 136}, {"L2TP", AF_INET, SOCK_DGRAM, 115},
                {"MPTCP", AF_INET, SOCK_STREAM, 262});
}

static void sock_abstract(void)
{
    const char *name = probe_need("abstract");
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = strnlen(name, sizeof(sa.sun_path) - 1);

    if (fd < 0)
        probe_skip("socket: %s", strerror(errno));
    memcpy(sa.sun_path + 1, name, len);
    if (connect(fd, (struct sockaddr *)&sa,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0)
        probe_fail("connected to the abstract socket of the host");
    probe_pass("connect: %s", strerror(errno));
}

/* Fills sa from text; the family follows from the notation. */
static socklen_t make_address(const char *text, long port, struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

    memset(sa, 0, sizeof(*sa));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) != 1)
        probe_skip("bad address %s", text);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return sizeof(*v6);
}

static bool has_route(const char *text)
{
    struct sockaddr_storage sa;
    socklen_t len = make_address(text, 9, &sa);
    int fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool routed = fd >= 0 && connect(fd, (struct sockaddr *)&sa, len) == 0;

    if (fd >= 0)
        close(fd);
    return routed;
}

static bool tcp_connects(const char *text, long port)
{
    struct sockaddr_storage sa;
    socklen_t len = make_address(text, port, &sa), size = sizeof(int);
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int err = 0;

    if (fd < 0)
        return false;
    if (connect(fd, (struct sockaddr *)&sa, len) != 0) {
        err = errno;
        if (err == EINPROGRESS && (poll(&p, 1, CONNECT_MS) != 1 ||
                                   getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) != 0))
            err = ETIMEDOUT;
    }
    close(fd);
    return err == 0;
}

static void none_routed(const char *const *addresses, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (has_route(addresses[i]))
            probe_found("%s", addresses[i]);
    probe_conclude("no route");
}

static void net_ifaces(void)
{
    char line[512], name[64];
    FILE *f = fopen("/proc/net/dev", "re");

    if (f == NULL)
        probe_skip("/proc/net/dev: %s", strerror(errno));
    while (fgets(line, sizeof(line), f) != NULL)
        if (strchr(line, ':') != NULL && sscanf(line, " %63[^:]", name) == 1 &&
            strcmp(name, "lo") != 0)
            probe_found("%s", name);
    fclose(f);
    probe_conclude("lo only");
}

static void net_route_v4(void)
{
    static const char *const addresses[] = {"198.51.100.1", "10.0.0.1", "172.16.0.1",
                                            "192.168.0.1"};
    none_routed(addresses, PROBE_COUNT(addresses));
}

static void net_route_v6(void)
{
    static const char *const addresses[] = {"2001:db8::1", "fd00::1"};
    none_routed(addresses, PROBE_COUNT(addresses));
}

static void net_metadata(void)
{
    static const char *const addresses[] = {"169.254.169.254", "169.254.170.2", "168.63.129.16",
                                            "100.100.100.200", "fd00:ec2::254"};
    none_routed(addresses, PROBE_COUNT(addresses));
}

static void net_host_service(void)
{
    long port = probe_need_long("port");
    const char *address = probe_arg("addr");

    if (tcp_connects("127.0.0.1", port))
        probe_found("127.0.0.1:%ld", port);
    if (address != NULL && tcp_connects(address, port))
        probe_found("%s:%ld", address, port);
    probe_conclude("no service of the host answers");
}

/* The harness answers queries on this port of the host's loopback, like a resolver. */
static void net_dns(void)
{
    static const unsigned char query[] = {0x12, 0x34, 1,   0,   0,   1,   0, 0, 0, 0, 0, 0,
                                          5,    'p',  'r', 'o', 'b', 'e', 0, 0, 1, 0, 1};
    struct sockaddr_storage sa;
    socklen_t len = make_address("127.0.0.1", probe_need_long("dns"), &sa);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    unsigned char answer[512];

    if (fd < 0)
        probe_pass("no socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&sa, len) == 0 &&
        send(fd, query, sizeof(query), MSG_NOSIGNAL) == (ssize_t)sizeof(query) &&
        poll(&p, 1, 500) == 1 && recv(fd, answer, sizeof(answer), 0) > 0)
        probe_fail("the resolver of the host answered");
    probe_pass("no answer");
}

static void net_peer_sandbox(void)
{
    long port = probe_need_long("peer");

    if (tcp_connects("127.0.0.1", port))
        probe_fail("the peer answers on port %ld", port);
    probe_pass("the peer does not answer");
}

static void net_foreign_listeners(void)
{
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    char line[512], state[8];

    for (size_t i = 0; i < PROBE_COUNT(files); i++) {
        FILE *f = fopen(files[i], "re");

        while (f != NULL && fgets(line, sizeof(line), f) != NULL)
            if (sscanf(line, "%*s %*s %*s %7s", state) == 1 && strcmp(state, "0A") == 0)
                probe_found("%s: %.40s", files[i], line);
        if (f != NULL)
            fclose(f);
    }
    probe_conclude("no process listens");
}

static void net_so_mark(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), mark = 7;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, 36 /* SO_MARK */, &mark, sizeof(mark)) == 0)
        probe_fail("SO_MARK is allowed");
    probe_pass("%s", strerror(errno));
}

static const struct probe_check checks[] = {
    {62, "sock.alg", sock_alg},
    {63, "sock.vsock", sock_vsock},
    {64, "sock.packet", sock_packet},
    {64, "sock.raw", sock_raw},
    {64, "sock.xdp", sock_xdp},
    {65, "sock.netlink_xfrm", sock_netlink_xfrm},
    {65, "sock.netlink_nf", sock_netlink_nf},
    {66, "sock.netlink_misc", sock_netlink_misc},
    {67, "sock.exotic", sock_exotic},
    {68, "sock.inet_protos", sock_inet_protos},
    {69, "sock.abstract", sock_abstract},
    {70, "net.ifaces", net_ifaces},
    {70, "net.route_v4", net_route_v4},
    {70, "net.route_v6", net_route_v6},
    {71, "net.metadata", net_metadata},
    {72, "net.host_service", net_host_service},
    {73, "net.dns", net_dns},
    {74, "net.peer_sandbox", net_peer_sandbox},
    {75, "net.foreign_listeners", net_foreign_listeners},
    {75, "net.so_mark", net_so_mark},
};

const struct probe_table probe_net = {checks, PROBE_COUNT(checks)};
