/*
 * What a sandbox with a network must not be able to do:
 *
 *     atoll-probe --dial ADDRESS PORT   connects, sends a byte and waits for one
 *     atoll-probe --walls               tries to change the network of its namespace
 *
 * Both print {"reached": N, "what": "…"}: the number of attempts that succeeded, and their names.
 * --walls changes what it can: outside it runs in a network namespace that is made for it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/verify/probe/probe.h"

#define WAIT_MS 2000
#define PORT 65530 /* of atoll-egress inside */
#define LOOPBACK 1 /* index of lo */

/* Sends one request and returns whether the kernel carried it out. */
static bool netlink(int protocol, const void *bytes, size_t n)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char more[512];
    } in;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool done = fd >= 0 &&
                sendto(fd, bytes, n, 0, (struct sockaddr *)&kernel, sizeof(kernel)) == (ssize_t)n &&
                poll(&p, 1, WAIT_MS) == 1 &&
                recv(fd, &in, sizeof(in), 0) >= (ssize_t)(sizeof(in.head) + sizeof(in.error)) &&
                in.head.nlmsg_type == NLMSG_ERROR && in.error.error == 0;

    if (fd >= 0)
        (void)close(fd);
    return done;
}

static bool add_address(void)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg address;
        struct nlattr local;
        unsigned char value[4];
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = RTM_NEWADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
        .address = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = LOOPBACK},
        .local = {.nla_len = 8, .nla_type = IFA_LOCAL},
        .value = {10, 9, 8, 7},
    };
    return netlink(NETLINK_ROUTE, &ask, sizeof(ask));
}

static bool add_route(void)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct nlattr to;
        unsigned char value[4];
        struct nlattr through;
        int device;
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = RTM_NEWROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL},
        .route = {.rtm_family = AF_INET,
                  .rtm_dst_len = 32,
                  .rtm_table = RT_TABLE_MAIN,
                  .rtm_protocol = RTPROT_STATIC,
                  .rtm_scope = RT_SCOPE_LINK,
                  .rtm_type = RTN_UNICAST},
        .to = {.nla_len = 8, .nla_type = RTA_DST},
        .value = {192, 0, 2, 1},
        .through = {.nla_len = 8, .nla_type = RTA_OIF},
        .device = LOOPBACK,
    };
    return netlink(NETLINK_ROUTE, &ask, sizeof(ask));
}

/* A table of rules: the transaction consists of its begin, the table and its end. */
static bool add_rules(void)
{
    struct part {
        struct nlmsghdr head;
        struct nfgenmsg family;
    };
    struct {
        struct part begin, table;
        struct nlattr name;
        char value[8];
        struct part end;
    } ask = {
        .begin = {{.nlmsg_len = sizeof(struct part),
                   .nlmsg_type = NFNL_MSG_BATCH_BEGIN,
                   .nlmsg_flags = NLM_F_REQUEST},
                  {.res_id = htons(NFNL_SUBSYS_NFTABLES)}},
        .table = {{.nlmsg_len = sizeof(struct part) + 12,
                   .nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
                  {.nfgen_family = 1}}, /* NFPROTO_INET */
        .name = {.nla_len = 12, .nla_type = NFTA_TABLE_NAME},
        .value = "a-probe",
        .end = {{.nlmsg_len = sizeof(struct part),
                 .nlmsg_type = NFNL_MSG_BATCH_END,
                 .nlmsg_flags = NLM_F_REQUEST},
                {.res_id = htons(NFNL_SUBSYS_NFTABLES)}},
    };
    return netlink(NETLINK_NETFILTER, &ask, sizeof(ask));
}

static bool take_port(int type)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0), on = 1;
    bool taken = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                 setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0 &&
                 bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;

    if (fd >= 0)
        (void)close(fd);
    return taken;
}

static bool take_tcp(void)
{
    return take_port(SOCK_STREAM);
}

static bool take_udp(void)
{
    return take_port(SOCK_DGRAM);
}

static bool set_down(void)
{
    struct ifreq lo = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool done = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;

    if (fd >= 0)
        (void)close(fd);
    return done;
}

static int try_walls(void)
{
    static const struct {
        const char *name;
        bool (*works)(void);
    } attempts[] = {{"address", add_address}, {"route", add_route},   {"rules", add_rules},
                    {"TCP port", take_tcp},   {"UDP port", take_udp}, {"lo down", set_down}};
    char what[128] = "";
    int reached = 0;

    for (size_t i = 0; i < PROBE_COUNT(attempts); i++) {
        if (!attempts[i].works())
            continue;
        if (reached++ > 0)
            (void)strcat(what, ", ");
        (void)strcat(what, attempts[i].name);
    }
    (void)printf("{\"reached\":%d,\"what\":\"%s\"}\n", reached, what);
    return 0;
}

static int dial(const char *address, const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)strtol(port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    bool reached = false;
    char byte;

    if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return 2;
    if ((connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS) &&
        poll(&p, 1, WAIT_MS) == 1 && send(fd, "x", 1, MSG_NOSIGNAL) == 1) {
        p.events = POLLIN;
        reached = poll(&p, 1, WAIT_MS) == 1 && recv(fd, &byte, 1, 0) == 1;
    }
    (void)printf("{\"reached\":%d,\"what\":\"%s\"}\n", reached, reached ? address : "");
    return 0;
}

int probe_network(int argc, char **argv)
{
    return argc > 3 && strcmp(argv[1], "--dial") == 0 ? dial(argv[2], argv[3]) : try_walls();
}
