/*
 * Connections to servers. An interception has its own ones: they are never shared between connections of
 * sandboxes. A server that speaks HTTP/2 gets one connection for all requests; one that speaks HTTP/1.1
 * gets several, for requests at the same time. What the server speaks is known after the first handshake,
 * and requests wait for that.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "egress/intercept_internal.h"
#include "net/stream.h"

#define UPSTREAMS_MAX 16 /* of one interception */
#define HANDSHAKE_MS (15 * 1000)
#define QUEUE_BYTES ((size_t)1024 * 1024)

static struct atoll_upstream *of_node(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_upstream, node);
}

/* Whether the exchange takes only a connection that was made for it. */
static bool needs_own(const struct atoll_exchange *x)
{
    return x->upgrade || x->fresh;
}

static uint64_t route_of(const struct atoll_intercept *i)
{
    return i->hooks->route ? i->hooks->route(i->arg) : 0;
}

/* Ending. */

void atoll_upstream_leave(struct atoll_upstream *up)
{
    if (--up->depth == 0 && up->freed)
        free(up);
}

void atoll_upstream_free(struct atoll_upstream *up)
{
    struct atoll_intercept *i = up->intercept;

    if (up->freed)
        return;
    up->freed = true;
    up->depth++;
    atoll_list_remove(&up->node);
    if (up->dial)
        i->hooks->cancel(i->arg, up->dial);
    atoll_watch_close(&up->watch);
    atoll_timer_cancel(&up->timer);
    if (up->wire)
        up->wire->free(up);
    if (up->stream)
        up->stream = atoll_stream_free(up->stream);
    else if (up->tls)
        atoll_tls_ops.free(up->tls);
    if (up->fd >= 0)
        (void)close(ATOLL_TAKE_FD(up->fd));
    if (up->dialled)
        i->hooks->release(i->arg);
    atoll_upstream_leave(up);
}

/* Whether the exchange waits for this connection to be made. */
static bool waits_for(const struct atoll_exchange *x, const struct atoll_upstream *up)
{
    if (x->up || x->read || strcmp(x->place.key, up->place.key) != 0)
        return false;
    return up->http1_only ? up->first == x : !needs_own(x);
}

/* Frees a connection that could not be made, and fails the exchanges that wait for it. */
static void give_up(struct atoll_upstream *up, const char *text)
{
    struct atoll_intercept *i = up->intercept;
    bool again = true;

    up->depth++;
    while (again) {
        again = false;
        ATOLL_LIST_FOREACH (&i->exchanges, node) {
            struct atoll_exchange *x = ATOLL_CONTAINER_OF(node, struct atoll_exchange, node);
            if (waits_for(x, up)) {
                atoll_exchange_fail(x, "%s", text);
                again = true;
                break;
            }
        }
    }
    atoll_upstream_free(up);
    atoll_upstream_leave(up);
}

/* Making one. */

int atoll_upstream_open_stream(struct atoll_upstream *up,
                               const struct atoll_stream_callbacks *callbacks)
{
    const struct atoll_stream_limits limits = {QUEUE_BYTES, ATOLL_HTTP_HIGH_WATER};
    struct atoll_interceptor *s = up->intercept->shared;

    return atoll_stream_new(s->loop, ATOLL_TAKE_FD(up->fd),
                            up->tls ? &atoll_tls_ops : &atoll_stream_socket_ops, up->tls, &limits,
                            callbacks, up, &up->stream, NULL);
}

static void connected(struct atoll_upstream *up)
{
    struct atoll_intercept *i = up->intercept;

    atoll_watch_close(&up->watch);
    atoll_timer_cancel(&up->timer);
    if (up->tls ? atoll_tls_is_h2(up->tls) : i->shared->plain_http2) {
        up->wire = &atoll_upstream_http2;
    } else {
        up->wire = &atoll_upstream_http1;
        i->http1 = i->http1 || !up->tls || !up->http1_only; /* it was not offered more */
    }
    if (up->wire->open(up) < 0)
        give_up(up, "out of memory for a connection");
    else
        atoll_upstream_wake(i);
}

static void refuse_handshake(struct atoll_upstream *up)
{
    const char *reason = atoll_tls_distrust(up->tls);
    char text[ATOLL_ERROR_TEXT_MAX];

    if (reason)
        (void)snprintf(text, sizeof(text), "the certificate of %.200s is not trusted: %s",
                       up->place.host, reason);
    else
        (void)snprintf(text, sizeof(text), "the TLS handshake with %.200s failed", up->place.host);
    give_up(up, text);
}

static void shake_hands(void *arg, uint32_t events)
{
    struct atoll_upstream *up = arg;
    int r = atoll_tls_handshake(up->tls);

    (void)events;
    if (r == 0)
        connected(up);
    else if (r != -EAGAIN ||
             atoll_watch_set(&up->watch, atoll_tls_ops.wants_out(up->tls) ? EPOLLOUT : EPOLLIN) < 0)
        refuse_handshake(up);
}

static void handshake_late(void *arg)
{
    struct atoll_upstream *up = arg;
    char text[ATOLL_ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof(text), "the TLS handshake with %.200s took too long",
                   up->place.host);
    give_up(up, text);
}

static void start_tls(struct atoll_upstream *up)
{
    struct atoll_interceptor *s = up->intercept->shared;

    if (atoll_tls_connect(up->http1_only ? s->http1 : s->any, up->fd, up->place.host, &up->tls) <
            0 ||
        atoll_watch_open(&up->watch, s->loop, up->fd, EPOLLOUT, shake_hands, up) < 0)
        give_up(up, "out of memory for a connection");
    else
        atoll_timer_set(&up->timer, s->loop, HANDSHAKE_MS, handshake_late, up);
}

static void dialled(void *ctx, int fd)
{
    struct atoll_upstream *up = ctx;
    char text[ATOLL_ERROR_TEXT_MAX];

    up->dial = NULL;
    if (fd < 0) {
        (void)snprintf(text, sizeof(text), "cannot connect to %.200s port %u: %s", up->place.host,
                       up->place.port,
                       fd == -EACCES ? "the network policy denies it" : strerror(-fd));
        give_up(up, text);
        return;
    }
    up->fd = fd;
    if (up->place.tls)
        start_tls(up);
    else
        connected(up);
}

/* May free the exchange. */
static void dial(struct atoll_exchange *x)
{
    struct atoll_intercept *i = x->intercept;
    struct atoll_upstream *up = calloc(1, sizeof(*up));
    const char *host = x->place.by_policy ? x->place.host : NULL;

    if (!up)
        abort(); /* a small fixed object: the worker is crash-only */
    up->intercept = i;
    up->place = x->place;
    up->route = route_of(i);
    up->http1_only = needs_own(x);
    up->first = x;
    up->fd = ATOLL_NO_FD;
    atoll_list_push_back(&i->upstreams, &up->node);
    up->dial = i->hooks->dial(i->arg, host, x->place.port, dialled, up);
    up->dialled = up->dial;
    if (!up->dial)
        give_up(up, "too many connections");
}

/* Choosing one. */

static void ask(struct atoll_upstream *up, struct atoll_exchange *x)
{
    x->up = up;
    x->reused = up->used;
    up->used = true;
    if (up->first == x)
        up->first = NULL;
    up->wire->ask(up, x);
}

/* Whether no exchange uses the connection, and no callback of its library is running. */
static bool is_idle(const struct atoll_upstream *up)
{
    if (!up->wire || up->busy || up->receiving)
        return false;
    ATOLL_LIST_FOREACH (&up->intercept->exchanges, node)
        if (ATOLL_CONTAINER_OF(node, struct atoll_exchange, node)->up == up)
            return false;
    return true;
}

/* Closes idle connections that were dialled by another route than the present one. */
static void drop_rerouted(struct atoll_intercept *i)
{
    uint64_t route = route_of(i);
    bool again = true;

    while (again) {
        again = false;
        ATOLL_LIST_FOREACH (&i->upstreams, node) {
            struct atoll_upstream *up = of_node(node);
            if (up->route != route && is_idle(up)) {
                atoll_upstream_free(up);
                again = true;
                break;
            }
        }
    }
}

/* A connection that takes the request now. */
static struct atoll_upstream *find_ready(struct atoll_exchange *x)
{
    uint64_t route = route_of(x->intercept);

    ATOLL_LIST_FOREACH (&x->intercept->upstreams, node) {
        struct atoll_upstream *up = of_node(node);
        bool fits = needs_own(x) ? up->first == x : !up->http1_only || !up->first;
        if (fits && up->wire && up->route == route && strcmp(up->place.key, x->place.key) == 0 &&
            up->wire->has_room(up))
            return up;
    }
    return NULL;
}

/* An idle connection of HTTP/1.1 that the exchange cannot use, or NULL. */
static struct atoll_upstream *find_spare(const struct atoll_exchange *x)
{
    ATOLL_LIST_FOREACH (&x->intercept->upstreams, node) {
        struct atoll_upstream *up = of_node(node);
        if (up->wire == &atoll_upstream_http1 && !up->first && is_idle(up) &&
            (needs_own(x) || strcmp(up->place.key, x->place.key) != 0))
            return up;
    }
    return NULL;
}

static size_t count_upstreams(const struct atoll_intercept *i)
{
    size_t n = 0;

    ATOLL_LIST_FOREACH (&i->upstreams, node)
        n++;
    return n;
}

static bool may_dial(const struct atoll_exchange *x)
{
    struct atoll_intercept *i = x->intercept;
    size_t pending = 0;

    ATOLL_LIST_FOREACH (&i->upstreams, node) {
        const struct atoll_upstream *up = of_node(node);
        if (!up->wire && waits_for(x, up))
            pending++;
        if (!up->wire && up->first == x)
            return false; /* its own is on the way */
    }
    return (pending == 0 || i->http1) && (count_upstreams(i) < UPSTREAMS_MAX || find_spare(x));
}

void atoll_upstream_find(struct atoll_exchange *x)
{
    struct atoll_upstream *up;

    drop_rerouted(x->intercept);
    up = find_ready(x);
    if (up) {
        ask(up, x);
        return;
    }
    if (!may_dial(x))
        return; /* atoll_upstream_wake() comes back to it */
    if (count_upstreams(x->intercept) >= UPSTREAMS_MAX)
        atoll_upstream_free(find_spare(x));
    dial(x);
}

static struct atoll_exchange *find_servable(struct atoll_intercept *i)
{
    ATOLL_LIST_FOREACH (&i->exchanges, node) {
        struct atoll_exchange *x = ATOLL_CONTAINER_OF(node, struct atoll_exchange, node);
        if (!x->up && !x->read && (find_ready(x) || may_dial(x)))
            return x;
    }
    return NULL;
}

void atoll_upstream_wake(struct atoll_intercept *i)
{
    struct atoll_exchange *x;

    drop_rerouted(i);
    while ((x = find_servable(i)))
        atoll_upstream_find(x);
}
