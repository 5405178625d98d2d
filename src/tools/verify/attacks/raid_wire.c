/*
 * Connections and raw bytes, to the daemon and to listeners of our own. See raid.h.
 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "net/address.h"
#include "tools/verify/attacks/raid.h"

static int connect_tcp(const char *host_port)
{
    const struct timeval limit = {.tv_sec = ATOLL_RAID_WAIT_MS / 1000};
    struct addrinfo *list = NULL;
    struct atoll_error err;
    int fd = -ECONNREFUSED;

    if (atoll_address_resolve(host_port, false, &list, &err) < 0)
        return -EHOSTUNREACH;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            fd = -errno;
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            int errnum = errno;
            (void)close(fd);
            fd = -errnum;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static int connect_unix(const char *path)
{
    const struct timeval limit = {.tv_sec = ATOLL_RAID_WAIT_MS / 1000};
    struct atoll_address_unix address;
    int r = atoll_address_unix_open(&address, path), fd;

    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(fd, (const struct sockaddr *)&address.addr, address.len) < 0) {
            int errnum = errno;
            (void)close(fd);
            fd = -errnum;
        }
    } else {
        fd = -errno;
    }
    atoll_address_unix_close(&address);
    return fd;
}

int atoll_raid_connect(const struct atoll_raid *raid, bool tcp)
{
    const char *where = atoll_client_address(raid->v->client);
    char own[64];

    if (tcp) {
        (void)snprintf(own, sizeof(own), "127.0.0.1:%u", (unsigned)raid->tcp_port);
        return raid->tcp_port ? connect_tcp(own) : -ENOTCONN;
    }
    if (strncmp(where, "https://", 8) == 0)
        return -EPROTONOSUPPORT;
    if (strncmp(where, "http://", 7) == 0) {
        char host[512];
        (void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(where + 7, "/"), where + 7);
        return connect_tcp(host);
    }
    return connect_unix(strncmp(where, "unix:", 5) == 0 ? where + 5 : where);
}

const char *atoll_raid_credentials(const struct atoll_raid *raid, char *out, size_t cap)
{
    const char *own = atoll_link_authorization(raid->v->client);

    (void)snprintf(out, cap, *own ? "Authorization: %s\r\n" : "%s", own);
    return out;
}

int atoll_raid_raw(const struct atoll_raid *raid, bool tcp, const void *bytes, size_t n,
                   int silence_ms, struct atoll_buf *answer, bool *ret_closed)
{
    ATOLL_AUTOCLOSE int fd = atoll_raid_connect(raid, tcp);
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    size_t sent = 0;
    int status = 0;

    *ret_closed = false;
    if (fd < 0)
        return fd;
    /* The server may answer and close before it has read everything: then read its answer. */
    while (sent < n) {
        ssize_t k = send(fd, (const char *)bytes + sent, n - sent, MSG_NOSIGNAL);
        if (k <= 0)
            break;
        sent += (size_t)k;
    }
    while (poll(&poll_fd, 1, silence_ms) > 0) {
        char piece[4096];
        ssize_t k = recv(fd, piece, sizeof(piece), 0);
        if (k <= 0 || atoll_buf_append(answer, piece, (size_t)k) < 0) {
            *ret_closed = k <= 0;
            break;
        }
    }
    if (sscanf(atoll_buf_str(answer), "HTTP/1.%*1d %3d", &status) != 1)
        return 0;
    return status;
}

int atoll_raid_listen(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    ATOLL_AUTOCLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 16) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return -errno;
    *ret_port = ntohs(address.sin_port);
    return ATOLL_TAKE_FD(fd);
}

bool atoll_raid_was_called(int listener, int ms)
{
    struct pollfd poll_fd = {.fd = listener, .events = POLLIN};
    bool called = false;

    while (poll(&poll_fd, 1, called ? 0 : ms) > 0) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            break;
        (void)close(fd);
        called = true;
    }
    return called;
}

int atoll_raid_dial(uint16_t port, int read_ms)
{
    const struct timeval limit = {.tv_sec = read_ms / 1000, .tv_usec = read_ms % 1000 * 1000};
    char where[64];
    int fd;

    (void)snprintf(where, sizeof(where), "127.0.0.1:%u", (unsigned)port);
    fd = connect_tcp(where);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}
