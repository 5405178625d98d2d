/*
 * One exchange: a request of a client, a connection to the upstream, an answer. The client's side uses
 * the interface of our HTTP server, so it works with every HTTP version; the upstream's answer is parsed
 * strictly and framed anew.
 *
 * An exchange always ends in finish(): the answer was complete, the client disconnected, or the upstream
 * failed. The upstream may close a kept connection just when we use it; an idempotent request (RFC 9110
 * section 9.2.2) is then sent again on a new connection.
 */
#include "net/proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "net/proxy_internal.h"

#define EXCHANGES_MAX 4096
#define DIALS_PER_KEY 4              /* concurrent connection attempts to one upstream */
#define HEAD_MAX ((size_t)64 * 1024) /* of a request for the upstream */
#define ANSWER_MS (120 * 1000)

/* A connection attempt. It may outlive its exchange and the proxy. */
struct dial {
    struct atoll_list node;
    struct atoll_proxy *proxy;             /* NULL once freed */
    struct atoll_proxy_exchange *exchange; /* NULL once it has ended */
    char key[ATOLL_PROXY_KEY_MAX];
};

static void *alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}

void atoll_proxy_use(struct atoll_proxy *proxy, const char *key, const char *owner, int by)
{
    if (by > 0)
        atoll_shares_add(&proxy->active, owner, 1);
    else
        atoll_shares_drop(&proxy->active, owner, 1);
    if (proxy->config.use)
        proxy->config.use(proxy->config.arg, key, by);
}

/* Ending. */

static void finish(struct atoll_proxy_exchange *x)
{
    x->conn = atoll_proxy_conn_free(x->conn);
    if (x->dial)
        x->dial->exchange = NULL;
    atoll_list_remove(&x->wait);
    atoll_list_remove(&x->node);
    atoll_proxy_use(x->proxy, x->key, x->owner, -1);
    atoll_buf_done(&x->head);
    atoll_http1_answer_done(&x->answer);
    x->hooks->done(x->arg, &x->outcome);
    free(x);
}

static void fail(struct atoll_proxy_exchange *x, const struct atoll_error *error)
{
    struct atoll_http_request *req = ATOLL_TAKE_PTR(x->req);

    if (x->begun) {
        atoll_http_abort(req);
    } else {
        atoll_http_on_close(req, NULL, NULL);
        atoll_http_on_drain(req, NULL, NULL);
        x->outcome.status = x->hooks->failed(x->arg, req, error);
    }
    finish(x);
}

static void fail_answer(struct atoll_proxy_exchange *x, const char *what)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EPROTO, "%s", what);
    fail(x, &error);
}

static void client_gone(void *arg, struct atoll_http_request *req)
{
    struct atoll_proxy_exchange *x = arg;

    (void)req;
    x->req = NULL;
    x->outcome.status = 499;
    finish(x);
}

static void give_back(struct atoll_proxy *proxy, const char *key, struct atoll_proxy_conn *conn);

static void complete(struct atoll_proxy_exchange *x)
{
    struct atoll_http_request *req = ATOLL_TAKE_PTR(x->req);

    if (x->answer.keep && x->body_ended && !atoll_proxy_conn_broken(x->conn) &&
        atoll_proxy_conn_pending(x->conn) == 0)
        give_back(x->proxy, x->key, ATOLL_TAKE_PTR(x->conn));
    atoll_http_end(req);
    finish(x);
}

/* The answer. */

static void switch_protocols(struct atoll_proxy_exchange *x, const uint8_t *early, size_t n)
{
    const char *upgrade = atoll_http1_answer_field(&x->answer, "upgrade");
    struct atoll_http_request *req;

    if (!atoll_proxy_answer_copy(x)) {
        fail_answer(x, "the server inside sent a malformed answer");
        return;
    }
    req = ATOLL_TAKE_PTR(x->req);
    atoll_http_on_close(req, NULL, NULL);
    atoll_list_remove(&x->node);
    atoll_proxy_use(x->proxy, x->key, x->owner, -1);
    atoll_proxy_tunnel(x->proxy, req, ATOLL_TAKE_PTR(x->conn), x->key, x->owner, upgrade, early, n,
                       x->hooks, x->arg);
    atoll_buf_done(&x->head);
    atoll_http1_answer_done(&x->answer);
    free(x);
}

static void upstream_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct atoll_proxy_exchange *x = arg;
    size_t used;

    switch (atoll_http1_answer_feed(&x->answer, bytes, n, &used)) {
    case ATOLL_HTTP1_MORE:
        break;
    case ATOLL_HTTP1_SWITCHED:
        switch_protocols(x, bytes + used, n - used);
        break;
    case ATOLL_HTTP1_COMPLETE:
        x->answer.keep = x->answer.keep && used == n;
        complete(x);
        break;
    case ATOLL_HTTP1_MALFORMED:
        fail_answer(x, "the server inside sent a malformed answer");
        break;
    case ATOLL_HTTP1_TOO_LARGE:
        fail_answer(x, "the server inside sent too large a head");
        break;
    }
}

/* Asking. */

static void dial(struct atoll_proxy_exchange *x);

static bool can_ask_again(const struct atoll_proxy_exchange *x)
{
    return x->reused && !x->answer.answered && atoll_http_content_length(x->req) == 0 &&
           atoll_http_method(x->req) != ATOLL_POST && atoll_http_method(x->req) != ATOLL_PATCH;
}

static void upstream_closed(void *arg, int error)
{
    struct atoll_proxy_exchange *x = arg;

    if (can_ask_again(x)) {
        x->conn = atoll_proxy_conn_free(x->conn);
        dial(x);
        return;
    }
    if (error == 0 && atoll_http1_answer_end(&x->answer))
        complete(x);
    else
        fail_answer(x, "the server inside closed the connection before its answer was complete");
}

static void upstream_drained(void *arg)
{
    struct atoll_proxy_exchange *x = arg;

    if (x->req)
        atoll_http_body_resume(x->req);
}

static const struct atoll_proxy_conn_events upstream_events = {
    .input = upstream_input,
    .drain = upstream_drained,
    .closed = upstream_closed,
};

static void body_data(void *arg, struct atoll_http_request *req, const uint8_t *bytes, size_t n)
{
    struct atoll_proxy_exchange *x = arg;
    struct iovec iov[3] = {{NULL, 0}, {(void *)bytes, n}, {(void *)"\r\n", 2}};
    char size[24];

    x->outcome.in_bytes += n;
    x->since_ms = atoll_loop_now_ms(x->proxy->config.loop);
    if (atoll_http_content_length(req) < 0) {
        iov[0] = (struct iovec){size, (size_t)snprintf(size, sizeof(size), "%zx\r\n", n)};
        atoll_proxy_conn_write(x->conn, iov, 3);
    } else {
        atoll_proxy_conn_write(x->conn, iov + 1, 1);
    }
    if (atoll_proxy_conn_pending(x->conn) > PROXY_HIGH_WATER)
        atoll_http_body_pause(req);
}

static void body_end(void *arg, struct atoll_http_request *req)
{
    struct atoll_proxy_exchange *x = arg;
    struct iovec last = {(void *)"0\r\n\r\n", 5};

    x->body_ended = true;
    if (atoll_http_content_length(req) < 0)
        atoll_proxy_conn_write(x->conn, &last, 1);
}

static void client_drained(void *arg, struct atoll_http_request *req)
{
    struct atoll_proxy_exchange *x = arg;

    (void)req;
    if (x->conn)
        atoll_proxy_conn_resume(x->conn);
}

/* Takes ownership of the connection and sends the request. */
static void ask(struct atoll_proxy_exchange *x, struct atoll_proxy_conn *conn, bool reused)
{
    struct iovec iov = {(void *)atoll_buf_head(&x->head), atoll_buf_size(&x->head)};

    x->conn = conn;
    x->reused = reused;
    x->since_ms = atoll_loop_now_ms(x->proxy->config.loop);
    atoll_proxy_conn_own(conn, &upstream_events, x);
    atoll_proxy_conn_resume(conn); /* the previous exchange may have paused it */
    atoll_proxy_answer_start(x);
    atoll_proxy_conn_write(conn, &iov, 1);
    if (atoll_http_content_length(x->req) == 0)
        x->body_ended = true;
    else
        atoll_http_body_stream(x->req, body_data, body_end, x);
}

static struct atoll_proxy_exchange *of_wait(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct atoll_proxy_exchange, wait);
}

/* Passes a connection that is free again to an exchange that waits for one, or to the pool. */
static void give_back(struct atoll_proxy *proxy, const char *key, struct atoll_proxy_conn *conn)
{
    ATOLL_LIST_FOREACH (&proxy->waiting, node)
        if (strcmp(of_wait(node)->key, key) == 0) {
            atoll_list_remove(node);
            ask(of_wait(node), conn, true);
            return;
        }
    atoll_proxy_pool_put(proxy, key, conn);
}

static bool may_dial(const struct atoll_proxy *proxy, const char *key)
{
    size_t n = 0;

    ATOLL_LIST_FOREACH (&proxy->dials, node)
        n += strcmp(ATOLL_CONTAINER_OF(node, struct dial, node)->key, key) == 0;
    return n < DIALS_PER_KEY;
}

static struct atoll_proxy_exchange *next_to_dial(struct atoll_proxy *proxy)
{
    ATOLL_LIST_FOREACH (&proxy->waiting, node)
        if (may_dial(proxy, of_wait(node)->key))
            return of_wait(node);
    return NULL;
}

static void wake(void *arg)
{
    struct atoll_proxy *proxy = arg;
    struct atoll_proxy_exchange *x;

    while ((x = next_to_dial(proxy))) {
        atoll_list_remove(&x->wait);
        dial(x);
    }
}

static void dialled(void *ctx, int fd, const struct atoll_error *error)
{
    struct dial *d = ctx;
    struct atoll_proxy_exchange *x = d->exchange;
    struct atoll_proxy_conn *conn = error      ? NULL
                                    : d->proxy ? atoll_proxy_conn_new(&d->proxy->config, d->key, fd)
                                               : (close(fd), NULL); /* the proxy was freed */
    struct atoll_error own;

    if (!error && !conn) {
        (void)atoll_fail(&own, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM, "too many connections");
        error = &own;
    }
    if (x)
        x->dial = NULL;
    if (x && error)
        fail(x, error);
    else if (x)
        ask(x, conn, false);
    else if (conn)
        give_back(d->proxy, d->key, conn);
    atoll_list_remove(&d->node);
    if (d->proxy && !atoll_list_empty(&d->proxy->waiting))
        atoll_timer_set(&d->proxy->wake, d->proxy->config.loop, 0, wake, d->proxy);
    free(d);
}

static void dial(struct atoll_proxy_exchange *x)
{
    struct atoll_proxy *proxy = x->proxy;
    struct dial *d;

    if (!may_dial(proxy, x->key)) {
        atoll_list_push_back(&proxy->waiting, &x->wait);
        return;
    }
    d = alloc(sizeof(*d));
    d->proxy = proxy;
    d->exchange = x;
    memcpy(d->key, x->key, sizeof(d->key));
    x->dial = d;
    atoll_list_push_back(&proxy->dials, &d->node);
    /* The exchange may have ended when this returns. */
    proxy->config.dial(proxy->config.arg, d->key, dialled, d);
}

static struct atoll_proxy_exchange *exchange_new(struct atoll_proxy *proxy,
                                                 struct atoll_http_request *req,
                                                 const struct atoll_proxy_request *request)
{
    struct atoll_proxy_exchange *x = alloc(sizeof(*x));

    x->proxy = proxy;
    x->req = req;
    x->hooks = request->hooks;
    x->arg = request->arg;
    x->since_ms = atoll_loop_now_ms(proxy->config.loop);
    (void)!atoll_text_copy(x->key, sizeof(x->key), request->key);
    (void)!atoll_text_copy(x->owner, sizeof(x->owner), request->owner);
    atoll_buf_init(&x->head, HEAD_MAX);
    atoll_list_push_back(&proxy->exchanges, &x->node);
    atoll_proxy_use(proxy, x->key, x->owner, 1);
    atoll_http_on_close(req, client_gone, x);
    atoll_http_on_drain(req, client_drained, x);
    atoll_proxy_arm(proxy);
    return x;
}

void atoll_proxy_forward(struct atoll_proxy *proxy, struct atoll_http_request *req,
                         const struct atoll_proxy_request *request)
{
    bool fits = atoll_shares_fits(&proxy->active, request->owner, 1);
    struct atoll_proxy_exchange *x = exchange_new(proxy, req, request);
    struct atoll_proxy_conn *kept;
    struct atoll_error error;
    int r;

    if (!fits) {
        (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                         "too many requests are being forwarded");
        fail(x, &error);
        return;
    }
    r = atoll_proxy_head_write(&x->head, req, request, &x->upgrade);
    if (r < 0) {
        if (r == -ENOMEM)
            (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, ENOMEM,
                             "no memory for the request");
        else
            (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, -r, "the request is too large");
        fail(x, &error);
        return;
    }
    kept = atoll_proxy_pool_take(proxy, x->key);
    if (kept)
        ask(x, kept, true);
    else
        dial(x);
}

/* The proxy. */

static void sweep(void *arg);

void atoll_proxy_arm(struct atoll_proxy *proxy)
{
    if (!proxy->sweep.loop)
        atoll_timer_set(&proxy->sweep, proxy->config.loop, PROXY_SWEEP_MS, sweep, proxy);
}

static struct atoll_proxy_exchange *find_late(struct atoll_proxy *proxy, int64_t now_ms)
{
    ATOLL_LIST_FOREACH (&proxy->exchanges, node) {
        struct atoll_proxy_exchange *x =
            ATOLL_CONTAINER_OF(node, struct atoll_proxy_exchange, node);
        if (!x->begun && now_ms - x->since_ms >= proxy->config.answer_ms)
            return x;
    }
    return NULL;
}

static void sweep(void *arg)
{
    struct atoll_proxy *proxy = arg;
    int64_t now_ms = atoll_loop_now_ms(proxy->config.loop);
    struct atoll_error error;
    struct atoll_proxy_exchange *x;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the server inside did not answer in time");
    while ((x = find_late(proxy, now_ms)))
        fail(x, &error);
    atoll_proxy_pool_sweep(proxy, now_ms);
    atoll_proxy_tunnels_sweep(proxy, now_ms);
    if (proxy->active.used > 0 || proxy->idle_count > 0)
        atoll_proxy_arm(proxy);
}

struct atoll_proxy *atoll_proxy_new(const struct atoll_proxy_config *config)
{
    struct atoll_proxy *proxy = alloc(sizeof(*proxy));

    proxy->config = *config;
    proxy->config.answer_ms = config->answer_ms > 0 ? config->answer_ms : ANSWER_MS;
    atoll_shares_init(&proxy->active, EXCHANGES_MAX);
    atoll_list_init(&proxy->idle);
    atoll_list_init(&proxy->exchanges);
    atoll_list_init(&proxy->dials);
    atoll_list_init(&proxy->waiting);
    atoll_list_init(&proxy->tunnels);
    return proxy;
}

struct atoll_proxy *atoll_proxy_free(struct atoll_proxy *proxy)
{
    if (!proxy)
        return NULL;
    ATOLL_LIST_FOREACH (&proxy->dials, node) {
        struct dial *d = ATOLL_CONTAINER_OF(node, struct dial, node);
        atoll_list_remove(&d->node);
        d->proxy = NULL;
    }
    atoll_proxy_tunnels_done(proxy);
    atoll_proxy_pool_done(proxy);
    atoll_timer_cancel(&proxy->sweep);
    atoll_timer_cancel(&proxy->wake);
    atoll_shares_done(&proxy->active);
    free(proxy);
    return NULL;
}

size_t atoll_proxy_active(const struct atoll_proxy *proxy)
{
    return proxy->active.used;
}

size_t atoll_proxy_kept(const struct atoll_proxy *proxy)
{
    return proxy->idle_count;
}
