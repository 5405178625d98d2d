/*
 * Callbacks for the end of a connection (close hooks). They are called from the loop, because a
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
                                    struct atoll_http_close_hook *hook, void (*fn)(void *arg),
                                    void *arg)
{
    struct atoll_http_conn *c = req->conn;
    struct atoll_http2 *h =
        req->http2 ? ATOLL_CONTAINER_OF(c, struct atoll_http2_stream, conn)->session : NULL;

    *hook = (struct atoll_http_close_hook){.fn = fn, .arg = arg};
    atoll_list_push_back(h ? &h->close_hooks : &c->close_hooks, &hook->node);
    watch_peer(socket_of(req));
}

void atoll_http_close_hook_cancel(struct atoll_http_close_hook *hook)
{
    atoll_list_remove(&hook->node);
}

void atoll_http_close_hooks_move(struct atoll_list *from, struct atoll_list *to)
{
    atoll_list_init(to);
    ATOLL_LIST_FOREACH (from, node) {
        atoll_list_remove(node);
        atoll_list_push_back(to, node);
    }
}

void atoll_http_close_hooks_run(struct atoll_http_server *s)
{
    atoll_timer_cancel(&s->hook_timer);
    while (!atoll_list_empty(&s->close_hooks)) {
        struct atoll_http_close_hook *f =
            ATOLL_CONTAINER_OF(s->close_hooks.next, struct atoll_http_close_hook, node);
        atoll_list_remove(&f->node);
        f->fn(f->arg);
    }
}

static void run_hooks(void *arg)
{
    atoll_http_close_hooks_run(arg);
}

void atoll_http_close_hooks_release(struct atoll_http_server *s, struct atoll_list *from)
{
    if (atoll_list_empty(from))
        return;
    ATOLL_LIST_FOREACH (from, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&s->close_hooks, node);
    }
    atoll_timer_set(&s->hook_timer, s->loop, 0, run_hooks, s);
}
