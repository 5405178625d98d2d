/*
 * The first bytes of a client: they are looked at, and stay in the socket.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include "egress/connection_internal.h"

/* A client that has sent nothing for this time may wait for the server to speak first. */
#define SILENT_MS 100
/* For the rest of a ClientHello or of the head of a request, once its first bytes came. */
#define REST_MS 5000

static bool has_finished(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
           info.tcpi_state != TCP_ESTABLISHED;
}

static void on_slow(void *arg)
{
    atoll_connection_deny(arg, "the name did not come in time", NULL);
}

/* Waits for more bytes than have been seen: SO_RCVLOWAT keeps the loop from reporting those again. */
static void expect_more(struct atoll_connection_state *c, int fd, size_t seen)
{
    int wanted = (int)seen + 1;

    if (c->seen == 0 && seen > 0)
        atoll_timer_set(&c->timer, c->box->egress->loop, REST_MS, on_slow, c);
    c->seen = seen;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
    if (c->relay)
        atoll_relay_expect(c->relay);
}

static int client_of(const struct atoll_connection_state *c)
{
    return c->relay ? atoll_relay_client(c->relay) : c->client_fd;
}

static void understood(struct atoll_connection_state *c, const struct atoll_sniff *sniff)
{
    const int one = 1;

    c->sniffing = false;
    c->kind = sniff->kind;
    atoll_timer_cancel(&c->timer);
    (void)setsockopt(client_of(c), SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
    if (!c->relay)
        atoll_watch_close(&c->watch);
    if (sniff->kind == ATOLL_SNIFF_BAD)
        atoll_connection_deny(c, "the request has no single name", NULL);
    else if (*sniff->name)
        atoll_connection_by_name(c, sniff->name);
    else if (c->relay)
        atoll_relay_release(c->relay); /* the remembered names have decided */
    else if (!c->dial)
        atoll_connection_by_memory(c);
}

static void look(struct atoll_connection_state *c)
{
    static uint8_t bytes[ATOLL_SNIFF_MAX];
    int fd = client_of(c);
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    struct atoll_sniff sniff = {.kind = ATOLL_SNIFF_OTHER};

    if (n < 0 && errno != EAGAIN) {
        atoll_connection_finish(c, ATOLL_EGRESS_RESET, errno);
        return;
    }
    if (n < 0) {
        expect_more(c, fd, 0);
        return;
    }
    if (n > 0)
        atoll_sniff(bytes, (size_t)n, &sniff);
    if (sniff.kind == ATOLL_SNIFF_MORE && has_finished(fd))
        sniff.kind = ATOLL_SNIFF_BAD;
    if (sniff.kind == ATOLL_SNIFF_MORE)
        expect_more(c, fd, (size_t)n);
    else
        understood(c, &sniff);
}

void atoll_connection_held_input(void *arg)
{
    struct atoll_connection_state *c = arg;

    if (c->sniffing)
        look(c);
}

static void on_input(void *arg, uint32_t events)
{
    struct atoll_connection_state *c = arg;

    (void)events;
    look(c);
}

static void on_silent(void *arg)
{
    atoll_connection_by_memory(arg);
}

void atoll_connection_sniff(struct atoll_connection_state *c)
{
    c->sniffing = true;
    if (atoll_watch_open(&c->watch, c->box->egress->loop, c->client_fd, EPOLLIN, on_input, c) < 0)
        atoll_connection_finish(c, ATOLL_EGRESS_RESET, ENOMEM);
    else
        atoll_timer_set(&c->timer, c->box->egress->loop, SILENT_MS, on_silent, c);
}
