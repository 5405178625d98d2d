/*
 * The tunnel after an upgrade: relays bytes both ways and reads each side only as fast as the other one
 * takes them. When the upstream ends, the tunnel ends once the client has received everything. When the
 * client ends, that is forwarded as a half-close, and the upstream may send for a limited time.
 */
#include <stdio.h>
#include "net/http_internal.h"
#include "net/proxy_internal.h"

#define HALF_OPEN_MS (60 * 1000)

struct tunnel {
    struct atoll_http_upgrade upgrade;
    struct atoll_list node;
    struct atoll_proxy *proxy;
    char owner[ATOLL_SHARE_NAME_MAX];
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
    atoll_shares_drop(&t->proxy->active, t->owner, 1);
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

void atoll_proxy_tunnel(struct atoll_proxy *proxy, struct atoll_http_request *req,
                        struct atoll_proxy_conn *conn, const char *owner, const char *upgrade,
                        const uint8_t *early, size_t n, const struct atoll_proxy_hooks *hooks,
                        void *arg)
{
    struct tunnel *t = calloc(1, sizeof(*t));
    char fields[200];

    if (!t)
        abort();
    t->proxy = proxy;
    (void)snprintf(t->owner, sizeof(t->owner), "%s", owner);
    t->conn = conn;
    t->hooks = hooks;
    t->arg = arg;
    t->outcome.status = 101;
    (void)snprintf(fields, sizeof(fields), "Upgrade: %.100s\r\n", upgrade);
    /* If the client has disconnected, on_close reports it. */
    (void)!atoll_http_respond_upgrade(req, fields);
    t->client = atoll_http_conn_upgrade(req->conn, &t->upgrade);
    atoll_stream_set_owner(t->client, &client_callbacks, t);
    atoll_stream_resume(t->client);
    atoll_proxy_conn_own(conn, &upstream_events, t);
    atoll_list_push_back(&proxy->tunnels, &t->node);
    atoll_shares_add(&proxy->active, t->owner, 1);
    if (n > 0)
        upstream_input(t, early, n);
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
