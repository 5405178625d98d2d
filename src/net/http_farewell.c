/*
 * Callbacks for the end of a connection ("farewells"). They are called from the loop, because a
 * connection may be closed inside a call that a handler makes.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include "net/http2_internal.h"

/* A TCP peer that does not answer counts as gone after a minute. The listener enables keepalive. */
#define KEEPALIVE_IDLE_S 30
#define KEEPALIVE_EVERY_S 10
#define KEEPALIVE_TRIES 3

/* Fails on a unix socket, which does not need it. */
static void watch_peer(int fd)
{
    const int idle = KEEPALIVE_IDLE_S, every = KEEPALIVE_EVERY_S, tries = KEEPALIVE_TRIES;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
}

static int socket_of(const struct atoll_http_request *req)
{
    struct atoll_http_conn *c = req->conn;

    return atoll_stream_fd(
        req->http2 ? ATOLL_CONTAINER_OF(c, struct atoll_http2_stream, conn)->session->stream
                   : c->stream);
}

bool atoll_http_is_hung_up(const struct atoll_http_request *req)
{
    struct pollfd p = {.fd = socket_of(req), .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

void atoll_http_on_connection_close(struct atoll_http_request *req,
                                    struct atoll_http_farewell *farewell, void (*fn)(void *arg),
                                    void *arg)
{
    struct atoll_http_conn *c = req->conn;
    struct atoll_http2 *h =
        req->http2 ? ATOLL_CONTAINER_OF(c, struct atoll_http2_stream, conn)->session : NULL;

    *farewell = (struct atoll_http_farewell){.fn = fn, .arg = arg};
    atoll_list_push_back(h ? &h->farewells : &c->farewells, &farewell->node);
    watch_peer(socket_of(req));
}

void atoll_http_farewell_cancel(struct atoll_http_farewell *farewell)
{
    atoll_list_remove(&farewell->node);
}

void atoll_http_farewells_move(struct atoll_list *from, struct atoll_list *to)
{
    atoll_list_init(to);
    ATOLL_LIST_FOREACH (from, node) {
        atoll_list_remove(node);
        atoll_list_push_back(to, node);
    }
}

void atoll_http_farewells_say(struct atoll_http_server *s)
{
    atoll_timer_cancel(&s->parting);
    while (!atoll_list_empty(&s->farewells)) {
        struct atoll_http_farewell *f =
            ATOLL_CONTAINER_OF(s->farewells.next, struct atoll_http_farewell, node);
        atoll_list_remove(&f->node);
        f->fn(f->arg);
    }
}

static void parting(void *arg)
{
    atoll_http_farewells_say(arg);
}

void atoll_http_farewells_release(struct atoll_http_server *s, struct atoll_list *from)
{
    if (atoll_list_empty(from))
        return;
    ATOLL_LIST_FOREACH (from, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&s->farewells, node);
    }
    atoll_timer_set(&s->parting, s->loop, 0, parting, s);
}
