#include "egress/host_addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include "base/log.h"
#include "egress/address.h"
#include "network/policy.h"

#define ADDRESSES_MAX 65536

struct atoll_host_addresses {
    int fd; /* rtnetlink, subscribed to changes */
    struct atoll_watch watch;
    struct in6_addr *list; /* owned, sorted */
    size_t count;
};

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct in6_addr));
}

static bool store(const struct sockaddr *sa, struct in6_addr *ret)
{
    const struct sockaddr_in *v4 = (const void *)sa;
    const struct sockaddr_in6 *v6 = (const void *)sa;

    if (sa && sa->sa_family == AF_INET6) {
        *ret = v6->sin6_addr;
        return true;
    }
    if (!sa || sa->sa_family != AF_INET)
        return false;
    atoll_address_from_v4(&v4->sin_addr, ret);
    return true;
}

/* Keeps the old list if the kernel does not answer. */
static int load(struct atoll_host_addresses *h)
{
    struct ifaddrs *all;
    struct in6_addr *list;
    size_t n = 0, count = 0;

    if (getifaddrs(&all) < 0)
        return -errno;
    for (const struct ifaddrs *i = all; i && n < ADDRESSES_MAX; i = i->ifa_next)
        n++;
    list = calloc(n + 1, sizeof(*list));
    if (!list)
        abort();
    for (const struct ifaddrs *i = all; i && count < n; i = i->ifa_next)
        count += store(i->ifa_addr, &list[count]);
    freeifaddrs(all);
    qsort(list, count, sizeof(*list), compare);
    free(h->list);
    h->list = list;
    h->count = count;
    return 0;
}

static void on_change(void *arg, uint32_t events)
{
    struct atoll_host_addresses *h = arg;
    char skipped[8192];

    (void)events;
    while (recv(h->fd, skipped, sizeof(skipped), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
        ;
    if (load(h) < 0)
        atoll_log(ATOLL_LOG_WARN, "cannot read the addresses of the host", "error", strerror(errno),
                  NULL);
}

int atoll_host_addresses_open(struct atoll_loop *loop, struct atoll_host_addresses **ret,
                              struct atoll_error *err)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK,
                                  .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    struct atoll_host_addresses *h = calloc(1, sizeof(*h));
    int r;

    if (!h)
        abort();
    h->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    r = h->fd < 0 || bind(h->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    if (r == 0)
        r = atoll_watch_open(&h->watch, loop, h->fd, EPOLLIN, on_change, h);
    if (r == 0)
        r = load(h);
    if (r < 0) {
        (void)atoll_host_addresses_close(h);
        return atoll_fail_errno(err, -r, "read the addresses of the host");
    }
    *ret = h;
    return 0;
}

struct atoll_host_addresses *atoll_host_addresses_close(struct atoll_host_addresses *h)
{
    if (!h)
        return NULL;
    atoll_watch_close(&h->watch);
    if (h->fd >= 0)
        (void)close(h->fd);
    free(h->list);
    free(h);
    return NULL;
}

static bool has(const struct atoll_host_addresses *h, const struct in6_addr *address)
{
    return bsearch(address, h->list, h->count, sizeof(*address), compare) != NULL;
}

bool atoll_host_addresses_has(const struct atoll_host_addresses *h, const struct in6_addr *address)
{
    struct in6_addr inner;

    return has(h, address) || (atoll_network_inner_address(address, &inner) && has(h, &inner));
}
