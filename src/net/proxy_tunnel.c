/*
 * The tunnel after an upgrade, or of a client that speaks no HTTP: relays bytes both ways and reads each
 * side only as fast as the other one takes them. When the upstream ends, the tunnel ends once the client has received everything. When the
 * client ends, that is forwarded as a half-close, and the upstream may send for a limited time.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include "base/memory.h"
#include "net/http_internal.h"
#include "net/proxy_internal.h"

#define HALF_OPEN_MS (60 * 1000)

struct tunnel {
    struct atoll_http_upgrade upgrade;
    struct atoll_list node;
    struct atoll_proxy *proxy;
    char key[ATOLL_PROXY_KEY_MAX], owner[ATOLL_SHARE_NAME_MAX];
    struct atoll_stream *client;   /* owned */
    struct atoll_proxy_conn *conn; /* owned; NULL once the upstream has ended */
    const struct atoll_proxy_hooks *hooks;
    void *arg;
    struct atoll_proxy_outcome outcome;
    int64_t half_open_ms; /* when the client ended; 0: it has not */
};

static void tunnel_free(struct tunnel *t)
{
    t->conn = atoll_proxy_conn_free(t->conn);
    t->client = atoll_stream_free(t->client);
    atoll_http_upgrade_done(&t->upgrade);
    atoll_list_remove(&t->node);
    atoll_proxy_use(t->proxy, t->key, t->owner, -1);
    t->hooks->done(t->arg, &t->outcome);
    free(t);
}

/* The client's side. */

static size_t client_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct tunnel *t = arg;
    struct iovec iov = {(void *)bytes, n};

    t->outcome.in_bytes += n;
    if (t->conn) {
        atoll_proxy_conn_write(t->conn, &iov, 1);
        if (atoll_proxy_conn_pending(t->conn) > PROXY_HIGH_WATER)
            atoll_stream_pause(t->client);
    }
    return n;
}

static void client_drain(void *arg)
{
    struct tunnel *t = arg;

    if (t->conn)
        atoll_proxy_conn_resume(t->conn);
}

static void client_eof(void *arg)
{
    struct tunnel *t = arg;

    t->half_open_ms = atoll_loop_now_ms(t->proxy->config.loop);
    if (t->conn)
        atoll_proxy_conn_shutdown(t->conn);
}

static void client_closed(void *arg, int error)
{
    (void)error;
    tunnel_free(arg);
}

static const struct atoll_stream_callbacks client_callbacks = {
    .on_input = client_input,
    .on_drain = client_drain,
    .on_eof = client_eof,
    .on_close = client_closed,
    .ends_in_order = true,
};

/* The upstream's side. */

static void upstream_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct tunnel *t = arg;

    t->outcome.out_bytes += n;
    /* If the client has disconnected, on_close reports it. */
    (void)!atoll_stream_write(t->client, bytes, n);
    if (atoll_stream_pending(t->client) > ATOLL_HTTP_HIGH_WATER)
        atoll_proxy_conn_pause(t->conn);
}

static void upstream_drain(void *arg)
{
    struct tunnel *t = arg;
    atoll_stream_resume(t->client);
}

static void upstream_closed(void *arg, int error)
{
    struct tunnel *t = arg;

    (void)error;
    t->conn = atoll_proxy_conn_free(t->conn);
    atoll_stream_close_after_flush(t->client);
}

static const struct atoll_proxy_conn_events upstream_events = {
    .input = upstream_input,
    .drain = upstream_drain,
    .closed = upstream_closed,
};

static struct tunnel *tunnel_new(struct atoll_proxy *proxy, struct atoll_proxy_conn *conn,
                                 const char *key, const char *owner,
                                 const struct atoll_proxy_hooks *hooks, void *arg)
{
    struct tunnel *t = atoll_alloc(sizeof(*t));

    t->proxy = proxy;
    (void)snprintf(t->key, sizeof(t->key), "%s", key);
    (void)snprintf(t->owner, sizeof(t->owner), "%s", owner);
    t->conn = conn;
    t->hooks = hooks;
    t->arg = arg;
    t->outcome.status = 101;
    atoll_list_push_back(&proxy->tunnels, &t->node);
    atoll_proxy_use(proxy, t->key, t->owner, 1);
    return t;
}

void atoll_proxy_tunnel(struct atoll_proxy *proxy, struct atoll_http_request *req,
                        struct atoll_proxy_conn *conn, const char *key, const char *owner,
                        const char *upgrade, const uint8_t *early, size_t n,
                        const struct atoll_proxy_hooks *hooks, void *arg)
{
    struct tunnel *t = tunnel_new(proxy, conn, key, owner, hooks, arg);
    char fields[200];

    (void)snprintf(fields, sizeof(fields), "Upgrade: %.100s\r\n", upgrade);
    /* If the client has disconnected, on_close reports it. */
    (void)!atoll_http_respond_upgrade(req, fields);
    t->client = atoll_http_conn_upgrade(req->conn, &t->upgrade);
    atoll_stream_set_owner(t->client, &client_callbacks, t);
    atoll_stream_resume(t->client);
    atoll_proxy_conn_own(conn, &upstream_events, t);
    if (n > 0)
        upstream_input(t, early, n);
}

/* A client that waits for its connection to the upstream. */
struct caller {
    struct atoll_proxy *proxy;
    int fd; /* owned */
    char key[ATOLL_PROXY_KEY_MAX], owner[ATOLL_SHARE_NAME_MAX];
    const struct atoll_proxy_hooks *hooks;
    void *arg;
};

static void turn_away(struct caller *c, int status)
{
    const struct atoll_proxy_outcome outcome = {.status = status};

    (void)close(ATOLL_TAKE_FD(c->fd));
    c->hooks->done(c->arg, &outcome);
    free(c);
}

static void connect_caller(struct caller *c, struct atoll_proxy_conn *conn)
{
    static const struct atoll_stream_limits limits = {SIZE_MAX / 2, ATOLL_HTTP_HIGH_WATER};
    struct tunnel *t = tunnel_new(c->proxy, conn, c->key, c->owner, c->hooks, c->arg);
    struct atoll_error err;

    if (atoll_stream_new(c->proxy->config.loop, ATOLL_TAKE_FD(c->fd), &atoll_stream_socket_ops,
                         NULL, &limits, &client_callbacks, t, &t->client, &err) < 0) {
        tunnel_free(t);
    } else {
        atoll_proxy_conn_own(conn, &upstream_events, t);
        atoll_proxy_arm(c->proxy);
    }
    free(c);
}

static void caller_dialed(void *ctx, int fd, const struct atoll_error *error)
{
    struct caller *c = ctx;
    struct atoll_proxy_conn *conn =
        error ? NULL : atoll_proxy_conn_new(&c->proxy->config, c->key, fd);

    if (conn)
        connect_caller(c, conn);
    else
        turn_away(c, 502);
}

void atoll_proxy_relay(struct atoll_proxy *proxy, int fd, const char *key, const char *owner,
                       const struct atoll_proxy_hooks *hooks, void *arg)
{
    struct caller *c = atoll_alloc(sizeof(*c));

    *c = (struct caller){.proxy = proxy, .fd = fd, .hooks = hooks, .arg = arg};
    (void)snprintf(c->key, sizeof(c->key), "%s", key);
    (void)snprintf(c->owner, sizeof(c->owner), "%s", owner);
    if (atoll_shares_fits(&proxy->active, owner, 1))
        proxy->config.dial(proxy->config.arg, c->key, caller_dialed, c);
    else
        turn_away(c, 503);
}

int atoll_proxy_join(struct atoll_proxy *proxy, struct atoll_http_request *req, const char *upgrade,
                     int fd, const char *key, const char *owner,
                     const struct atoll_proxy_hooks *hooks, void *arg)
{
    struct atoll_proxy_conn *conn = atoll_proxy_conn_new(&proxy->config, key, fd);

    if (!conn || !atoll_shares_fits(&proxy->active, owner, 1)) {
        (void)atoll_proxy_conn_free(conn);
        return -EAGAIN;
    }
    atoll_proxy_tunnel(proxy, req, conn, key, owner, upgrade, NULL, 0, hooks, arg);
    atoll_proxy_arm(proxy);
    return 0;
}

void atoll_proxy_tunnels_sweep(struct atoll_proxy *proxy, int64_t now_ms)
{
    ATOLL_LIST_FOREACH (&proxy->tunnels, node) {
        struct tunnel *t = ATOLL_CONTAINER_OF(node, struct tunnel, node);
        if (t->half_open_ms > 0 && now_ms - t->half_open_ms >= HALF_OPEN_MS)
            tunnel_free(t);
    }
}

void atoll_proxy_tunnels_done(struct atoll_proxy *proxy)
{
    while (!atoll_list_empty(&proxy->tunnels))
        tunnel_free(ATOLL_CONTAINER_OF(proxy->tunnels.next, struct tunnel, node));
}
