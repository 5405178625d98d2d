#include "net/http_tunnel.h"

#include <stdio.h>
#include "net/http_internal.h"

#define HALF_OPEN_MS (60 * 1000) /* after the client has ended, the server may send for so long */

struct atoll_http_tunnel {
    struct atoll_http_upgrade upgrade;
    struct atoll_stream *client, *server; /* owned; server is NULL once it has ended */
    struct atoll_timer half_open;
    void (*done)(void *arg);
    void *arg;
};

struct atoll_http_tunnel *atoll_http_tunnel_close(struct atoll_http_tunnel *t)
{
    if (!t)
        return NULL;
    t->client = atoll_stream_free(t->client);
    t->server = atoll_stream_free(t->server);
    atoll_timer_cancel(&t->half_open);
    atoll_http_upgrade_done(&t->upgrade);
    free(t);
    return NULL;
}

static void finish(void *arg)
{
    struct atoll_http_tunnel *t = arg;

    t->done(t->arg);
    (void)atoll_http_tunnel_close(t);
}

/* Writes to one side; the other one is paused while too much is queued. */
static void pass(struct atoll_stream *from, struct atoll_stream *to, const uint8_t *bytes, size_t n)
{
    struct iovec iov = {(void *)bytes, n};

    /* If the peer has disconnected, its on_close reports it. */
    (void)!atoll_stream_writev_whole(to, &iov, 1);
    if (atoll_stream_pending(to) > ATOLL_HTTP_HIGH_WATER)
        atoll_stream_pause(from);
}

/* The client's side. */

static size_t client_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_http_tunnel *t = arg;

    if (t->server)
        pass(t->client, t->server, bytes, n);
    return n;
}

static void client_drain(void *arg)
{
    struct atoll_http_tunnel *t = arg;

    if (t->server)
        atoll_stream_resume(t->server);
}

static void client_eof(void *arg)
{
    struct atoll_http_tunnel *t = arg;

    if (t->server)
        atoll_stream_shutdown(t->server);
    atoll_timer_set(&t->half_open, atoll_stream_loop(t->client), HALF_OPEN_MS, finish, t);
}

static void client_closed(void *arg, int error)
{
    (void)error;
    finish(arg);
}

static const struct atoll_stream_callbacks client_callbacks = {
    .on_input = client_input,
    .on_drain = client_drain,
    .on_eof = client_eof,
    .on_close = client_closed,
    .ends_in_order = true,
};

/* The server's side. */

static size_t server_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_http_tunnel *t = arg;

    pass(t->server, t->client, bytes, n);
    return n;
}

static void server_drain(void *arg)
{
    struct atoll_http_tunnel *t = arg;
    atoll_stream_resume(t->client);
}

static void server_eof(void *arg)
{
    struct atoll_http_tunnel *t = arg;

    t->server = atoll_stream_free(t->server);
    atoll_stream_close_after_flush(t->client);
}

static void server_closed(void *arg, int error)
{
    if (error < 0)
        finish(arg);
    else
        server_eof(arg);
}

static const struct atoll_stream_callbacks server_callbacks = {
    .on_input = server_input,
    .on_drain = server_drain,
    .on_eof = server_eof,
    .on_close = server_closed,
    .ends_in_order = true,
};

struct atoll_http_tunnel *atoll_http_tunnel_open(struct atoll_http_request *req,
                                                 const char *protocol, struct atoll_stream *server,
                                                 const uint8_t *early, size_t n,
                                                 void (*done)(void *arg), void *arg)
{
    struct atoll_http_tunnel *t = calloc(1, sizeof(*t));
    char fields[200];

    if (!t)
        abort();
    t->server = server;
    t->done = done;
    t->arg = arg;
    (void)snprintf(fields, sizeof(fields), "Upgrade: %.100s\r\n", protocol);
    /* If the client has disconnected, on_close reports it. */
    (void)!atoll_http_respond_upgrade(req, fields);
    t->client = atoll_http_conn_upgrade(req->conn, &t->upgrade);
    atoll_stream_set_owner(t->client, &client_callbacks, t);
    atoll_stream_resume(t->client);
    atoll_stream_set_owner(server, &server_callbacks, t);
    atoll_stream_resume(server);
    if (n > 0)
        pass(t->server, t->client, early, n);
    return t;
}
