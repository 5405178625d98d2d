#include "egress/host_lookup.h"

#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>

#define ANY_PORT 443 /* for a look at the routes; nothing is sent */

static int error_of(int code)
{
    switch (code) {
    case EAI_NONAME:
        return -ENOENT;
    case EAI_NODATA:
    case EAI_ADDRFAMILY:
        return -ENODATA;
    case EAI_AGAIN:
        return -EAGAIN;
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return errno ? -errno : -EIO;
    default:
        return -EIO;
    }
}

/* Whether the host has a route to the address: without one every connection fails. */
static bool has_route(const struct addrinfo *info)
{
    ATOLL_AUTOCLOSE int fd = socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && connect(fd, info->ai_addr, info->ai_addrlen) == 0;
}

static bool address_of(const struct addrinfo *info, struct in6_addr *ret)
{
    if (info->ai_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)info->ai_addr;
        *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(ret->s6_addr + 12, &in->sin_addr, 4);
        return true;
    }
    if (info->ai_family != AF_INET6)
        return false;
    *ret = ((const struct sockaddr_in6 *)(const void *)info->ai_addr)->sin6_addr;
    return !IN6_IS_ADDR_V4MAPPED(ret);
}

static size_t collect(const struct addrinfo *list, bool routed_only, struct in6_addr *ret,
                      size_t cap)
{
    size_t count = 0;

    for (const struct addrinfo *info = list; info && count < cap; info = info->ai_next)
        if (address_of(info, &ret[count]) && (!routed_only || has_route(info)))
            count++;
    return count;
}

/* This thread's resolver state, as /etc/resolv.conf is now, without its search list. */
static void forget_search_list(void)
{
    (void)res_init();
    _res.options &= ~(unsigned long)(RES_DEFNAMES | RES_DNSRCH);
}

int atoll_host_lookup(const char *name, struct in6_addr *ret, size_t cap)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    size_t count;
    int r;

    forget_search_list();
    errno = 0;
    r = getaddrinfo(name, ATOLL_STRINGIFY(ANY_PORT), &hints, &list);
    if (r != 0)
        return error_of(r);
    count = collect(list, true, ret, cap);
    if (count == 0)
        count = collect(list, false, ret, cap);
    freeaddrinfo(list);
    return count > 0 ? (int)count : -ENODATA;
}
