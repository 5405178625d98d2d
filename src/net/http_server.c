/*
 * Server and connections. There is no timer per connection: while there are connections, one timer
 * sweeps over all of them. So a request costs no timer work, and an idle server never wakes up.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include "net/address.h"
#include "net/http_internal.h"
#include "net/tls.h"

/* Most TCP connections in total: limits.connections times this, whatever the shares of the sources are. */
#define MOST_TIMES 4

static void sweep(void *arg);

static void arm_sweep(struct atoll_http_server *s)
{
    int64_t period = ATOLL_MIN(s->limits.header_ms, s->limits.idle_ms) / 4;

    period = ATOLL_MIN(ATOLL_MAX(period, (int64_t)10), (int64_t)1000);
    if (!s->sweep.loop)
        atoll_timer_set(&s->sweep, s->loop, period, sweep, s);
}

/* Releases everything except the memory of the connection, which a running callback may still use. */
static void conn_drop(struct atoll_http_conn *c)
{
    c->dead = true;
    atoll_list_remove(&c->node);
    atoll_shares_drop(&c->server->connections, c->peer.source, 1);
    atoll_http_close_hooks_release(c->server, &c->close_hooks);
    c->stream = atoll_stream_free(c->stream);
    atoll_timer_cancel(&c->kick);
    atoll_buf_done(&c->head);
    atoll_buf_done(&c->body);
    atoll_buf_done(&c->extra);
    free(c->fields);
    if (c->depth == 0)
        free(c);
}

void atoll_http_conn_close(struct atoll_http_conn *c)
{
    if (!c->dead)
        conn_drop(c);
}

void atoll_http_conn_lost(struct atoll_http_conn *c)
{
    struct atoll_http_request *req = &c->req;

    c->depth++;
    if (c->phase == PHASE_SERVING) {
        c->phase = PHASE_CLOSING;
        if (req->on_close)
            req->on_close(req->close_arg, req);
    }
    atoll_http_conn_close(c);
    if (--c->depth == 0)
        free(c);
}

static size_t stream_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_http_conn *c = arg;

    if (c->phase == PHASE_HANDSHAKE) {
        if (atoll_tls_is_h2(c->tls)) {
            struct atoll_http2 *h = atoll_http2_take_over(c);
            return h ? atoll_http2_input(h, bytes, n) : n;
        }
        c->phase = PHASE_IDLE;
    }
    return atoll_http1_input(c, bytes, n);
}

static void stream_drain(void *arg)
{
    struct atoll_http_conn *c = arg;

    if (c->phase == PHASE_IDLE) {
        atoll_stream_resume(c->stream);
    } else if (c->phase == PHASE_SERVING && c->req.on_drain) {
        c->depth++;
        c->req.on_drain(c->req.drain_arg, &c->req);
        if (--c->depth == 0 && c->dead)
            free(c);
    }
}

/* A client that shuts down its sending side while it waits for an answer cannot be told from a client
 * that is gone, and is treated like one. */
static void stream_eof(void *arg)
{
    struct atoll_http_conn *c = arg;

    if (c->phase == PHASE_SERVING || atoll_stream_pending(c->stream) == 0) {
        atoll_http_conn_lost(c);
    } else {
        c->phase = PHASE_CLOSING;
        atoll_stream_close_after_flush(c->stream);
    }
}

static void stream_closed(void *arg, int error)
{
    (void)error;
    atoll_http_conn_lost(arg);
}

static const struct atoll_stream_callbacks stream_callbacks = {
    .on_input = stream_input,
    .on_drain = stream_drain,
    .on_eof = stream_eof,
    .on_close = stream_closed,
};

static void fill_peer(struct atoll_http_peer *peer, int fd, bool is_unix)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    struct ucred cred = {.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t cred_len = sizeof(cred);

    if (!is_unix) {
        addr.ss_family = AF_UNSPEC;
        (void)getpeername(fd, (struct sockaddr *)&addr, &len);
        atoll_address_format((struct sockaddr *)&addr, len, peer->address, sizeof(peer->address));
    } else {
        memcpy(peer->address, "unix", sizeof("unix"));
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len);
    }
    atoll_address_source(peer->address, peer->source);
    peer->is_unix = is_unix;
    peer->tag = 0;
    peer->uid = cred.uid;
    peer->gid = cred.gid;
    peer->pid = cred.pid;
}

/* Takes ownership of fd and tls, even on failure. tls may be NULL. */
static int conn_new(struct atoll_http_server *s, int fd, const struct atoll_http_peer *peer,
                    struct atoll_tls_conn *tls, struct atoll_http_conn **ret_conn,
                    struct atoll_error *err)
{
    struct atoll_stream_limits limits = {s->limits.pending_bytes, ATOLL_HTTP_HIGH_WATER};
    const struct atoll_http_limits *l = &s->limits;
    struct atoll_http_conn *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        (void)close(fd);
        if (tls)
            atoll_tls_ops.free(tls);
        return atoll_fail_errno(err, ENOMEM, "connection");
    }
    c->server = s;
    c->tls = tls;
    atoll_list_init(&c->close_hooks);
    c->wire = &atoll_http1_wire;
    c->phase = tls ? PHASE_HANDSHAKE : PHASE_IDLE;
    c->head_since_ms = atoll_loop_now_ms(s->loop);
    atoll_buf_init(&c->head, l->header_bytes + 2 * l->header_count + 4 * l->target_bytes + 16);
    atoll_buf_init(&c->extra, l->header_bytes);
    c->peer = *peer;
    c->peer.is_tls = tls;
    r = atoll_stream_new(s->loop, fd, tls ? &atoll_tls_ops : &atoll_stream_socket_ops, c->tls,
                         &limits, &stream_callbacks, c, &c->stream, err);
    if (r < 0) {
        if (c->tls)
            atoll_tls_ops.free(c->tls);
        free(c);
        return r;
    }
    atoll_list_push_back(&s->conns, &c->node);
    atoll_shares_add(&s->connections, c->peer.source, 1);
    arm_sweep(s);
    *ret_conn = c;
    return 0;
}

/* Remote clients can use any number of addresses, so their total is limited too. The unix socket is
 * exempt: its users are local operators, who must get in to help. */
static bool has_room(const struct atoll_http_server *s, const struct atoll_http_peer *peer)
{
    return atoll_shares_fits(&s->connections, peer->source, 1) &&
           (peer->is_unix || s->connections.used / MOST_TIMES < s->limits.connections);
}

static void accepted(void *arg, int fd, bool is_unix)
{
    const struct atoll_http_port *port = arg;
    struct atoll_http_server *s = port->server;
    struct atoll_tls_conn *tls = NULL;
    struct atoll_http_peer peer;
    struct atoll_http_conn *c;

    fill_peer(&peer, fd, is_unix);
    if (!has_room(s, &peer)) {
        /* The answer fits into an empty socket buffer. A client that misses it sees a closed
         * connection. */
        if (!port->tls)
            (void)!send(fd, atoll_http1_busy_answer, strlen(atoll_http1_busy_answer),
                        MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)close(fd);
        return;
    }
    /* Without memory the connection is closed; there is no caller to report it to. */
    if (port->tls && atoll_tls_accept(port->tls, fd, &tls) < 0)
        (void)close(fd);
    else
        (void)!conn_new(s, fd, &peer, tls, &c, NULL);
}

/* Timeouts. */

static bool is_expired(const struct atoll_http_conn *c, int64_t now)
{
    const struct atoll_http_limits *l = &c->server->limits;
    const struct atoll_http_request *req = &c->req;
    bool idle = now - atoll_stream_active_ms(c->stream) >= l->idle_ms;

    switch (c->phase) {
    case PHASE_HANDSHAKE:
        return idle || (!atoll_tls_is_ready(c->tls) && now - c->head_since_ms >= l->header_ms);
    case PHASE_IDLE:
        return idle && atoll_list_empty(&c->close_hooks);
    case PHASE_HEAD:
        return now - c->head_since_ms >= l->header_ms;
    case PHASE_SERVING:
        /* Expires only while we wait for the client, not for the handler. */
        if (atoll_stream_pending(c->stream) > 0)
            return idle;
        return idle && req->body_mode != BODY_UNREAD && !req->body_done && !req->body_paused;
    default:
        return idle;
    }
}

static void expire(struct atoll_http_conn *c)
{
    bool waits_for_client = c->phase == PHASE_HEAD || c->phase == PHASE_SERVING;

    if (waits_for_client && atoll_stream_pending(c->stream) == 0)
        atoll_http_conn_reject(c, 408, "the request took too long to arrive");
    else
        atoll_http_conn_lost(c);
}

static struct atoll_http_conn *find_expired(struct atoll_http_server *s)
{
    ATOLL_LIST_FOREACH (&s->conns, node) {
        struct atoll_http_conn *c = ATOLL_CONTAINER_OF(node, struct atoll_http_conn, node);
        if (is_expired(c, atoll_loop_now_ms(s->loop)))
            return c;
    }
    return NULL;
}

static void sweep(void *arg)
{
    struct atoll_http_server *s = arg;
    struct atoll_http_conn *c;

    /* Starts again after each one: an on_close may close other connections. */
    while ((c = find_expired(s)))
        expire(c);
    atoll_http2_sweep(s);
    if (!atoll_list_empty(&s->conns) || !atoll_list_empty(&s->sessions))
        arm_sweep(s);
}

/* Upgrades. */

struct atoll_stream *atoll_http_conn_upgrade(struct atoll_http_conn *c,
                                             struct atoll_http_upgrade *upgrade)
{
    struct atoll_stream *stream = c->stream;

    c->stream = NULL;
    upgrade->server = c->server;
    atoll_http_close_hooks_move(&c->close_hooks, &upgrade->close_hooks);
    atoll_list_push_back(&c->server->upgraded, &upgrade->node);
    memcpy(upgrade->source, c->peer.source, sizeof(upgrade->source));
    atoll_shares_add(&c->server->connections, upgrade->source, 1);
    if (c->corked)
        atoll_stream_uncork(stream);
    conn_drop(c);
    return stream;
}

void atoll_http_upgrade_done(struct atoll_http_upgrade *upgrade)
{
    if (upgrade->server) {
        atoll_shares_drop(&upgrade->server->connections, upgrade->source, 1);
        atoll_http_close_hooks_release(upgrade->server, &upgrade->close_hooks);
    }
    upgrade->server = NULL;
    atoll_list_remove(&upgrade->node);
}

/* The server. */

static void set_defaults(struct atoll_http_limits *l)
{
    l->header_bytes = l->header_bytes ?: (size_t)16 * 1024;
    l->header_count = l->header_count ?: 100;
    l->target_bytes = l->target_bytes ?: (size_t)8 * 1024;
    l->header_ms = l->header_ms ?: 10 * 1000;
    l->idle_ms = l->idle_ms ?: 60 * 1000;
    l->connections = l->connections ?: 1024;
    l->pending_bytes = l->pending_bytes ?: (size_t)16 * 1024 * 1024;
}

int atoll_http_server_new(struct atoll_loop *loop, const struct atoll_http_limits *limits,
                          void (*on_request)(void *arg, struct atoll_http_request *req), void *arg,
                          struct atoll_http_server **ret_server, struct atoll_error *err)
{
    struct atoll_http_server *s = calloc(1, sizeof(*s));

    if (!s)
        return atoll_fail_errno(err, ENOMEM, "http server");
    s->loop = loop;
    s->on_request = on_request;
    s->arg = arg;
    if (limits)
        s->limits = *limits;
    set_defaults(&s->limits);
    atoll_shares_init(&s->connections, s->limits.connections);
    atoll_list_init(&s->conns);
    atoll_list_init(&s->upgraded);
    atoll_list_init(&s->sessions);
    atoll_list_init(&s->close_hooks);
    *ret_server = s;
    return 0;
}

struct atoll_http_server *atoll_http_server_free(struct atoll_http_server *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->port_count; i++)
        s->ports[i].listener = atoll_listener_close(s->ports[i].listener);
    while (!atoll_list_empty(&s->conns))
        atoll_http_conn_lost(ATOLL_CONTAINER_OF(s->conns.next, struct atoll_http_conn, node));
    while (!atoll_list_empty(&s->upgraded))
        atoll_http_upgrade_done(
            ATOLL_CONTAINER_OF(s->upgraded.next, struct atoll_http_upgrade, node));
    atoll_http2_close_all(s);
    atoll_http_close_hooks_run(s);
    atoll_timer_cancel(&s->sweep);
    for (size_t i = 0; i < s->port_count; i++)
        s->ports[i].tls = atoll_tls_free(s->ports[i].tls);
    atoll_shares_done(&s->connections);
    free(s);
    return NULL;
}

/* The next free entry of the port table, or NULL. The caller increments the count once it listens. */
static struct atoll_http_port *next_port(struct atoll_http_server *s, struct atoll_error *err)
{
    struct atoll_http_port *port = &s->ports[s->port_count];

    if (s->port_count == HTTP_MAX_LISTENERS) {
        (void)atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOBUFS,
                         "a server listens on at most %d addresses", HTTP_MAX_LISTENERS);
        return NULL;
    }
    *port = (struct atoll_http_port){.server = s};
    return port;
}

int atoll_http_server_listen_unix(struct atoll_http_server *s, const char *path, mode_t mode,
                                  struct atoll_error *err)
{
    struct atoll_http_port *port = next_port(s, err);
    int r;

    if (!port)
        return -ENOBUFS;
    r = atoll_listener_open_unix(s->loop, path, mode, accepted, port, &port->listener, err);
    if (r == 0)
        s->port_count++;
    return r;
}

int atoll_http_server_listen_tcp(struct atoll_http_server *s, const char *host_port,
                                 uint16_t *ret_port, struct atoll_error *err)
{
    struct atoll_http_port *port = next_port(s, err);
    int r;

    if (!port)
        return -ENOBUFS;
    r = atoll_listener_open_tcp(s->loop, host_port, accepted, port, ret_port, &port->listener, err);
    if (r == 0)
        s->port_count++;
    return r;
}

int atoll_http_server_listen_tls(struct atoll_http_server *s, const char *host_port,
                                 const struct atoll_tls_config *config, uint16_t *ret_port,
                                 struct atoll_error *err)
{
    struct atoll_http_port *port = next_port(s, err);
    int r;

    if (!port)
        return -ENOBUFS;
    r = atoll_tls_new(config, &port->tls, err);
    if (r < 0)
        return r;
    r = atoll_listener_open_tcp(s->loop, host_port, accepted, port, ret_port, &port->listener, err);
    if (r == 0)
        s->port_count++;
    else
        port->tls = atoll_tls_free(port->tls);
    return r;
}

static bool is_unix_socket(int fd)
{
    int domain = AF_UNSPEC;
    socklen_t len = sizeof(domain);

    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    return domain == AF_UNIX;
}

int atoll_http_server_adopt_as(struct atoll_http_server *s, int fd, struct atoll_tls_conn *tls,
                               uint64_t tag, struct atoll_error *err)
{
    struct atoll_http_peer peer;
    struct atoll_http_conn *c;

    fill_peer(&peer, fd, is_unix_socket(fd));
    peer.tag = tag;
    return conn_new(s, fd, &peer, tls, &c, err);
}

int atoll_http_server_adopt(struct atoll_http_server *s, int fd, struct atoll_error *err)
{
    return atoll_http_server_adopt_as(s, fd, NULL, 0, err);
}

int atoll_http_server_adopt_h2(struct atoll_http_server *s, int fd, struct atoll_error *err)
{
    struct atoll_http_peer peer;
    struct atoll_http_conn *c;
    int r;

    fill_peer(&peer, fd, is_unix_socket(fd));
    r = conn_new(s, fd, &peer, NULL, &c, err);
    if (r == 0 && !atoll_http2_take_over(c))
        r = atoll_fail_errno(err, ENOMEM, "connection");
    return r;
}

size_t atoll_http_server_connections(const struct atoll_http_server *s)
{
    return s->connections.used;
}
