#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "net/address.h"
#include "net/http_client_internal.h"
#include "net/url.h"

#define CONNECT_MS (10 * 1000)

int atoll_http_client_wait(int fd, short events, int timeout_ms, struct atoll_error *err)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t until = atoll_clock_ms() + timeout_ms;
    int r, left = timeout_ms;

    while ((r = poll(&p, 1, left)) < 0 && errno == EINTR)
        if (timeout_ms >= 0)
            left = (int)ATOLL_MAX(until - atoll_clock_ms(), (int64_t)0);
    if (r < 0)
        return atoll_fail_errno(err, errno, "poll");
    if (r == 0)
        return atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                          "the server did not answer within %d ms", timeout_ms);
    return p.revents;
}

int atoll_http_client_lost(const struct atoll_http_client *client, int errnum,
                           struct atoll_error *err)
{
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum,
                      "lost the connection to atolld at %.200s: %s; its log says why",
                      client->where,
                      errnum == EPIPE ? "it closed the connection" : strerror(errnum));
}

static int unreachable(const struct atoll_http_client *client, int errnum, struct atoll_error *err)
{
    const char *advice = errnum == EACCES || errnum == EPERM
                             ? "no permission for that socket; run as the user who started atolld, "
                               "or set ATOLL_URL and ATOLL_API_KEY"
                             : "is it running? start it with `atolld`";
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, errnum, "cannot reach atolld at %.200s (%s): %s",
                      client->where, strerror(errnum), advice);
}

/* Connects a new non-blocking socket; returns it or -errno. */
static int open_socket(int family, const struct sockaddr *addr, socklen_t len)
{
    ATOLL_AUTOCLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1, pending = 0;
    socklen_t pending_len = sizeof(pending);

    if (fd < 0)
        return -errno;
    if (family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(fd, addr, len) < 0) {
        if (errno != EINPROGRESS)
            return -errno;
        if (atoll_http_client_wait(fd, POLLOUT, CONNECT_MS, NULL) < 0)
            return -ETIMEDOUT;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &pending, &pending_len) < 0)
            return -errno;
        if (pending != 0)
            return -pending;
    }
    return ATOLL_TAKE_FD(fd);
}

/* connect() fails with EAGAIN if the server's backlog is full: retries for a short time. */
static int connect_unix(const char *path)
{
    struct atoll_address_unix a;
    int64_t until = atoll_clock_ms() + CONNECT_MS;
    int r = atoll_address_unix_open(&a, path);

    if (r < 0)
        return r;
    while ((r = open_socket(AF_UNIX, (const struct sockaddr *)&a.addr, a.len)) == -EAGAIN &&
           atoll_clock_ms() < until)
        (void)poll(NULL, 0, 5);
    atoll_address_unix_close(&a);
    return r;
}

static int connect_tcp(const char *host_port, struct atoll_error *err)
{
    struct addrinfo *list;
    int r = atoll_address_resolve(host_port, false, &list, err);

    if (r < 0)
        return r;
    r = -EHOSTUNREACH;
    for (const struct addrinfo *ai = list; ai && r < 0; ai = ai->ai_next)
        r = open_socket(ai->ai_family, ai->ai_addr, ai->ai_addrlen);
    freeaddrinfo(list);
    return r;
}

/* Whether a kept connection is unusable: the server has closed it, or sent bytes without a request. */
static bool is_stale(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

/* Connections. */

ssize_t atoll_http_line_recv(struct atoll_http_line *line, void *buf, size_t n)
{
    ssize_t r;

    if (line->tls)
        return atoll_tls_ops.recv(line->tls, line->fd, buf, n);
    do
        r = recv(line->fd, buf, n, 0);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

ssize_t atoll_http_line_sendv(struct atoll_http_line *line, const struct iovec *iov, int count)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
    ssize_t r;

    if (line->tls)
        return atoll_tls_ops.sendv(line->tls, line->fd, iov, count);
    do
        r = sendmsg(line->fd, &msg, MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

short atoll_http_line_events(const struct atoll_http_line *line)
{
    bool wants_out = line->tls && atoll_tls_ops.wants_out(line->tls);
    return (short)(POLLIN | (wants_out ? POLLOUT : 0));
}

void atoll_http_line_close(struct atoll_http_line *line)
{
    if (line->tls)
        atoll_tls_ops.free(ATOLL_TAKE_PTR(line->tls));
    if (line->fd >= 0)
        (void)close(ATOLL_TAKE_FD(line->fd));
}

void atoll_http_client_disconnect(struct atoll_http_client *client)
{
    atoll_http_line_close(&client->line);
}

/* TLS. */

static int no_handshake(const struct atoll_http_client *client, int r, struct atoll_error *err)
{
    const char *distrust = atoll_tls_distrust(client->line.tls);

    if (distrust)
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EKEYREJECTED,
                          "the certificate of %.200s is not trusted (%s): set ATOLL_CA_FILE to the "
                          "certificate to trust",
                          client->where, distrust);
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -r,
                      "the server at %.200s does not speak TLS, or refuses ours: try http://",
                      client->where);
}

static int shake_hands(struct atoll_http_client *client, struct atoll_error *err)
{
    struct atoll_http_line *line = &client->line;
    int r;

    while ((r = atoll_tls_handshake(line->tls)) == -EAGAIN) {
        bool out = atoll_tls_ops.wants_out(line->tls);
        r = atoll_http_client_wait(line->fd, out ? POLLOUT : POLLIN, CONNECT_MS, err);
        if (r < 0)
            return r;
    }
    return r < 0 ? no_handshake(client, r, err) : 0;
}

static int start_tls(struct atoll_http_client *client, struct atoll_error *err)
{
    const struct atoll_tls_trust trust = {.ca_file = client->ca_file, .insecure = client->insecure};
    char host[256];
    uint16_t port;
    int r = 0;

    if (!client->tls)
        r = atoll_tls_client_new(&trust, &client->tls, err);
    if (r < 0)
        return r;
    r = atoll_url_split_host(client->host_port, host, sizeof(host), &port);
    if (r == 0)
        r = atoll_tls_connect(client->tls, client->line.fd, host, &client->line.tls);
    if (r < 0)
        return atoll_fail_errno(err, -r, "TLS");
    return shake_hands(client, err);
}

int atoll_http_client_connect(struct atoll_http_client *client, struct atoll_error *err)
{
    struct atoll_error resolve = {.kind = ATOLL_ERR_NONE};
    int r;

    if (client->line.fd >= 0 && !is_stale(client->line.fd))
        return 0;
    atoll_http_client_disconnect(client);
    r = client->unix_path ? connect_unix(client->unix_path)
                          : connect_tcp(client->host_port, &resolve);
    if (r < 0 && resolve.kind != ATOLL_ERR_NONE) {
        if (err)
            *err = resolve;
        return r;
    }
    if (r < 0)
        return unreachable(client, -r, err);
    client->line.fd = r;
    return client->is_tls ? start_tls(client, err) : 0;
}
