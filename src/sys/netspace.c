#include "sys/netspace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "base/fd.h"
#include "sys/netlink.h"
#include "sys/nft.h"

#define LOOPBACK_INDEX 1 /* lo is the first device of every network namespace */
#define BACKLOG 1024

static void put_address(struct atoll_netlink *nl, uint8_t family, const void *address, size_t len)
{
    struct ifaddrmsg h = {.ifa_family = family,
                          .ifa_prefixlen = (uint8_t)(8 * len),
                          .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
                          .ifa_index = LOOPBACK_INDEX};

    atoll_netlink_begin(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &h, sizeof(h));
    atoll_netlink_put(nl, IFA_LOCAL, address, len);
    atoll_netlink_put(nl, IFA_ADDRESS, address, len);
}

/* Makes every address local; connections to them come from `source`. */
static void put_route(struct atoll_netlink *nl, uint8_t family, const void *source, size_t len)
{
    struct rtmsg h = {.rtm_family = family,
                      .rtm_table = RT_TABLE_LOCAL,
                      .rtm_protocol = RTPROT_STATIC,
                      .rtm_scope = RT_SCOPE_HOST,
                      .rtm_type = RTN_LOCAL};
    const uint32_t device = LOOPBACK_INDEX;

    atoll_netlink_begin(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &h, sizeof(h));
    atoll_netlink_put(nl, RTA_OIF, &device, sizeof(device));
    atoll_netlink_put(nl, RTA_PREFSRC, source, len);
}

static int add_addresses(void)
{
    struct atoll_netlink batch, *nl = &batch;
    struct in6_addr own6;
    struct in_addr own4;

    if (inet_pton(AF_INET, ATOLL_NETSPACE_ADDRESS4, &own4) != 1 ||
        inet_pton(AF_INET6, ATOLL_NETSPACE_ADDRESS6, &own6) != 1)
        return -EINVAL;
    atoll_netlink_init(nl);
    put_address(nl, AF_INET, &own4, sizeof(own4));
    put_address(nl, AF_INET6, &own6, sizeof(own6));
    put_route(nl, AF_INET, &own4, sizeof(own4));
    put_route(nl, AF_INET6, &own6, sizeof(own6));
    return atoll_netlink_send(nl, NETLINK_ROUTE, nl->sequence);
}

/* Accepts IPv4 and IPv6, on every address. */
static int open_socket(int type)
{
    const int off = 0, on = 1;
    const struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                                     .sin6_port = htons(ATOLL_NETSPACE_PORT)};
    ATOLL_AUTOCLOSE int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0 ||
        setsockopt(fd, SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof(on)) < 0 ||
        (type == SOCK_DGRAM && setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) < 0) ||
        bind(fd, (const struct sockaddr *)&any, sizeof(any)) < 0 ||
        (type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
        return -errno;
    return ATOLL_TAKE_FD(fd);
}

int atoll_netspace_open(struct atoll_netspace *ret)
{
    ATOLL_AUTOCLOSE int tcp = open_socket(SOCK_STREAM);
    ATOLL_AUTOCLOSE int udp = open_socket(SOCK_DGRAM);
    int r = tcp < 0 ? tcp : udp < 0 ? udp : 0;

    if (r == 0)
        r = add_addresses();
    if (r == 0)
        r = atoll_nft_add_rules();
    if (r < 0)
        return r;
    *ret = (struct atoll_netspace){ATOLL_TAKE_FD(tcp), ATOLL_TAKE_FD(udp)};
    return 0;
}
