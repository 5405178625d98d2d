#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "net/url.h"

static int open_parent(const char *path, size_t len)
{
    ATOLL_AUTOFREE char *parent = strndup(path, ATOLL_MAX(len, (size_t)1));
    int fd;

    if (!parent)
        return -ENOMEM;
    fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int atoll_address_unix_open(struct atoll_address_unix *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    int n;

    *a = (struct atoll_address_unix){.addr.sun_family = AF_UNIX, .dir_fd = ATOLL_NO_FD};
    if (*path == '\0')
        return -EINVAL;
    if (strlen(path) < sizeof(a->addr.sun_path) || !slash) {
        int r = atoll_text_copy(a->addr.sun_path, sizeof(a->addr.sun_path), path);
        a->len = sizeof(a->addr);
        return r;
    }
    a->dir_fd = open_parent(path, (size_t)(slash - path));
    if (a->dir_fd < 0)
        return a->dir_fd;
    n = snprintf(a->addr.sun_path, sizeof(a->addr.sun_path), "/proc/self/fd/%d/%s", a->dir_fd,
                 slash + 1);
    if (n < 0 || (size_t)n >= sizeof(a->addr.sun_path)) {
        atoll_address_unix_close(a);
        return -ENAMETOOLONG;
    }
    a->len = sizeof(a->addr);
    return 0;
}

void atoll_address_unix_close(struct atoll_address_unix *a)
{
    if (a->dir_fd >= 0)
        (void)close(ATOLL_TAKE_FD(a->dir_fd));
}

int atoll_address_resolve(const char *host_port, bool passive, struct addrinfo **ret_list,
                          struct atoll_error *err)
{
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
    };
    char host[256], service[8];
    uint16_t port;
    int r;

    if (atoll_url_split_host(host_port, host, sizeof(host), &port) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.100s\" is not HOST:PORT; write for example 127.0.0.1:8000 or "
                          "[::1]:8000",
                          host_port);
    (void)snprintf(service, sizeof(service), "%u", (unsigned)port);
    r = getaddrinfo(host, service, &hints, ret_list);
    if (r != 0)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EHOSTUNREACH, "cannot resolve %.100s: %s",
                          host, gai_strerror(r));
    return 0;
}

void atoll_address_format(const struct sockaddr *addr, socklen_t len, char *out, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *in = (const void *)addr;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        (void)snprintf(out, cap, "%s:%u", host, (unsigned)ntohs(in->sin_port));
    } else if (addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *in6 = (const void *)addr;
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        (void)snprintf(out, cap, "[%s]:%u", host, (unsigned)ntohs(in6->sin6_port));
    } else {
        (void)snprintf(out, cap, "unix");
    }
}

void atoll_address_source(const char *address, char *out)
{
    const char *colon = strrchr(address, ':');
    bool v6 = address[0] == '[';
    size_t n = colon ? (size_t)(colon - address) : strlen(address);
    char host[ATOLL_ADDRESS_SOURCE_MAX];
    struct in6_addr in6;

    if (v6 && n >= 2) {
        address++;
        n -= 2;
    }
    (void)snprintf(host, sizeof(host), "%.*s", (int)ATOLL_MIN(n, sizeof(host) - 1), address);
    host[strcspn(host, "%")] = '\0'; /* the interface of a link-local address */
    if (v6 && inet_pton(AF_INET6, host, &in6) == 1) {
        if (!IN6_IS_ADDR_V4MAPPED(&in6))
            memset(in6.s6_addr + 8, 0, 8);
        if (inet_ntop(AF_INET6, &in6, out, ATOLL_ADDRESS_SOURCE_MAX))
            return;
    }
    (void)snprintf(out, ATOLL_ADDRESS_SOURCE_MAX, "%s", host);
}
