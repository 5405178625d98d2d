/*
 * A forwarded port: a channel of type "direct-tcpip" (RFC 4254 section 7.2) to a server in the sandbox, by
 * the API's tunnel to a port. Each side is read only as fast as the other one takes the bytes.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/fd.h"
#include "ssh/ssh.h"
#include "sys/unix_socket.h"

#define HEAD_MAX 8192
#define ANSWER_MS 30000

/* Bytes on their way, of one direction. */
struct piece {
    uint8_t bytes[ATOLL_SSH_PIECE];
    size_t at, end;
};

struct forward {
    struct atoll_ssh_channel base;
    int fd;               /* owned */
    struct piece in, out; /* of the client, for the client */
    bool client_ended, server_ended;
};

/* Opening. */

static int ask(const struct atoll_ssh_link *link, int fd, unsigned port)
{
    char head[512];
    int n = snprintf(head, sizeof(head),
                     "GET /api/sandboxes/%s/ports/%u/tunnel HTTP/1.1\r\n"
                     "Host: localhost\r\n"
                     "Authorization: Bearer %s\r\n"
                     "Connection: Upgrade\r\n"
                     "Upgrade: tcp\r\n\r\n",
                     link->sandbox_id, port, link->token);
    int r =
        n < 0 || (size_t)n >= sizeof(head) ? -EMSGSIZE : atoll_fd_write_all(fd, head, (size_t)n);

    explicit_bzero(head, sizeof(head));
    return r;
}

/* Reads the head of the answer, and no byte more: the next one is the server's. */
static int read_head(int fd, char *head, size_t cap)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int64_t end = atoll_clock_ms() + ANSWER_MS;
    size_t n = 0;

    while (n < cap - 1) {
        int64_t left = end - atoll_clock_ms();

        if (left <= 0 || poll(&ready, 1, (int)left) <= 0)
            return -ETIMEDOUT;
        if (recv(fd, head + n, 1, 0) != 1)
            return -EPIPE;
        head[++n] = '\0';
        if (n >= 4 && strcmp(head + n - 4, "\r\n\r\n") == 0)
            return 0;
    }
    return -EMSGSIZE;
}

static int connect_port(const struct atoll_ssh_link *link, unsigned port)
{
    ATOLL_AUTOCLOSE int fd = atoll_unix_connect(".", ATOLL_SSH_API_SOCKET);
    char head[HEAD_MAX];
    int r;

    if (fd < 0)
        return fd;
    r = ask(link, fd, port);
    if (r >= 0)
        r = read_head(fd, head, sizeof(head));
    if (r >= 0 && strncmp(head, "HTTP/1.1 101 ", 13) != 0)
        r = -ECONNREFUSED;
    if (r >= 0)
        r = atoll_fd_set_nonblock(fd, true);
    return r < 0 ? r : ATOLL_TAKE_FD(fd);
}

/* Moving bytes. */

/* False: the connection to the server is broken. */
static bool write_server(struct forward *f)
{
    while (f->in.at < f->in.end) {
        ssize_t n = send(f->fd, f->in.bytes + f->in.at, f->in.end - f->in.at, MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        f->in.at += (size_t)n;
    }
    f->in.at = f->in.end = 0;
    return true;
}

static bool pump_in(struct forward *f)
{
    while (!f->client_ended) {
        int n;

        if (!write_server(f))
            return false;
        if (f->in.end > 0)
            return true; /* the server takes no more now */
        n = atoll_ssh_read(&f->base, f->in.bytes, sizeof(f->in.bytes));
        if (n == 0)
            return true;
        if (n > 0)
            f->in.end = (size_t)n;
        else
            f->client_ended = true;
    }
    (void)shutdown(f->fd, SHUT_WR);
    return true;
}

/* False: the client takes no more now. */
static bool write_client(struct forward *f)
{
    while (f->out.at < f->out.end) {
        size_t room = ATOLL_MIN(f->out.end - f->out.at, atoll_ssh_room(&f->base));
        int n = room == 0
                    ? 0
                    : ssh_channel_write(f->base.channel, f->out.bytes + f->out.at, (uint32_t)room);

        if (n <= 0)
            return false;
        f->out.at += (size_t)n;
    }
    f->out.at = f->out.end = 0;
    return true;
}

static void pump_out(struct forward *f)
{
    while (write_client(f) && !f->server_ended) {
        ssize_t n = recv(f->fd, f->out.bytes, sizeof(f->out.bytes), 0);

        if (n > 0)
            f->out.end = (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            f->server_ended = true;
        else
            return;
    }
}

static bool pump(struct atoll_ssh_channel *c)
{
    struct forward *f = ATOLL_CONTAINER_OF(c, struct forward, base);
    bool works = pump_in(f);
    short events = 0;

    pump_out(f);
    if (!works || (f->server_ended && f->out.end == 0)) {
        (void)ssh_channel_send_eof(c->channel);
        return false;
    }
    if (f->out.end == 0 && !f->server_ended)
        events |= POLLIN;
    if (f->in.end > 0)
        events |= POLLOUT;
    atoll_ssh_watch(c, f->fd, events);
    return true;
}

static bool is_ready(const struct atoll_ssh_channel *c)
{
    const struct forward *f = ATOLL_CONTAINER_OF(c, struct forward, base);

    return (f->out.end > 0 && atoll_ssh_room(c) > 0) ||
           (f->in.end == 0 && !f->client_ended && (c->unread > 0 || c->ended));
}

static void free_forward(struct atoll_ssh_channel *c)
{
    struct forward *f = ATOLL_CONTAINER_OF(c, struct forward, base);

    atoll_ssh_watch(c, ATOLL_NO_FD, 0);
    (void)close(f->fd);
    free(f);
}

/* The sandbox itself, by the names that clients use for it. */
static bool is_local(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "::1", "0.0.0.0"};

    for (size_t i = 0; host && i < ATOLL_ARRAY_LEN(names); i++)
        if (strcmp(host, names[i]) == 0)
            return true;
    return false;
}

struct atoll_ssh_channel *atoll_ssh_forward_new(struct atoll_ssh_link *link, ssh_message message)
{
    int port = ssh_message_channel_request_open_destination_port(message);
    struct forward *f;

    if (!is_local(ssh_message_channel_request_open_destination(message)) || port < 1 ||
        port > 65535)
        return NULL;
    f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->fd = connect_port(link, (unsigned)port);
    if (f->fd >= 0)
        f->base.channel = ssh_message_channel_request_open_reply_accept(message);
    if (!f->base.channel) {
        if (f->fd >= 0)
            (void)close(f->fd);
        free(f);
        return NULL;
    }
    f->base = (struct atoll_ssh_channel){.link = link,
                                         .channel = f->base.channel,
                                         .pump = pump,
                                         .is_ready = is_ready,
                                         .free = free_forward,
                                         .fd = ATOLL_NO_FD};
    atoll_ssh_listen(&f->base);
    return &f->base;
}
