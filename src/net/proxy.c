/*
 * One exchange: a request of a client, a connection to the upstream, an answer. The client's side
 * is the HTTP server's own interface, so that this works for whatever it speaks; the upstream's
 * answer goes through a strict parser and is framed anew.
 *
 * An exchange ends in one place, finish(), whoever ends it: the answer was complete, the client
 * went away, the upstream failed. A connection that was kept may have been closed by the upstream
 * at the moment we used it; what can safely be asked twice (RFC 9110 section 9.2.2) is then asked
 * again on a new one.
 */
#include "net/proxy.h"

#include <errno.h>
#include <llhttp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"
#include "net/proxy_internal.h"

#define EXCHANGES_MAX 4096
#define DIALS_PER_KEY 4 /* the far end makes only so many connections at a time */
#define HEAD_MAX ((size_t)64 * 1024)        /* of a request for the upstream */
#define ANSWER_HEAD_MAX ((size_t)32 * 1024) /* of its answer */
#define ANSWER_MS (120 * 1000)

struct exchange {
    struct atoll_list node, wait;
    struct atoll_proxy *proxy;
    struct atoll_http_request *req; /* NULL once it is over */
    const struct atoll_proxy_hooks *hooks;
    void *arg;
    char key[ATOLL_PROXY_KEY_MAX];
    struct atoll_buf head;         /* what we ask; kept to ask again */
    struct dial *dial;             /* under way, or NULL */
    struct atoll_proxy_conn *conn; /* owned; NULL while dialling */
    struct atoll_proxy_outcome outcome;
    int64_t since_ms; /* when we began to wait for the answer */
    bool reused, upgrade;
    bool body_ended; /* all of the request's body has been sent on */

    llhttp_t parser;
    struct atoll_buf fields; /* the answer's headers: "name\0value\0" pairs */
    size_t head_bytes;       /* of the answer so far, while its head is not complete */
    bool answered;           /* the answer's first byte is here */
    bool begun;              /* the client has its head */
    bool informational, switching, complete, keep;
};

/* A connection being made. It outlives the exchange it is for, and even the proxy. */
struct dial {
    struct atoll_list node;
    struct atoll_proxy *proxy;  /* NULL once that is gone */
    struct exchange *exchange;  /* NULL once that is gone */
    char key[ATOLL_PROXY_KEY_MAX];
};

static void *alloc(size_t n)
{
    void *p = calloc(1, n);

    if (!p)
        abort();
    return p;
}

/* Ending. */

static void finish(struct exchange *x)
{
    x->conn = atoll_proxy_conn_free(x->conn);
    if (x->dial)
        x->dial->exchange = NULL;
    atoll_list_remove(&x->wait);
    atoll_list_remove(&x->node);
    x->proxy->active--;
    atoll_buf_done(&x->head);
    atoll_buf_done(&x->fields);
    x->hooks->done(x->arg, &x->outcome);
    free(x);
}

static void fail(struct exchange *x, const struct atoll_error *error)
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

static void fail_answer(struct exchange *x, const char *what)
{
    struct atoll_error error;

    (void)atoll_fail(&error, ATOLL_ERR_DATA_LOSS, EPROTO, "%s", what);
    fail(x, &error);
}

static void client_gone(void *arg, struct atoll_http_request *req)
{
    struct exchange *x = arg;

    (void)req;
    x->req = NULL;
    x->outcome.status = 499;
    finish(x);
}

static void give_back(struct atoll_proxy *proxy, const char *key, struct atoll_proxy_conn *conn);

static void complete(struct exchange *x)
{
    struct atoll_http_request *req = ATOLL_TAKE_PTR(x->req);

    if (x->keep && x->body_ended && !atoll_proxy_conn_broken(x->conn) &&
        atoll_proxy_conn_pending(x->conn) == 0)
        give_back(x->proxy, x->key, ATOLL_TAKE_PTR(x->conn));
    atoll_http_end(req);
    finish(x);
}

/* The answer: callbacks of the parser. They may write to the client, but never end the exchange. */

static int on_field(llhttp_t *parser, const char *at, size_t n)
{
    struct exchange *x = parser->data;
    return x->begun ? 0 : atoll_buf_append(&x->fields, at, n) < 0 ? HPE_USER : 0;
}

static int on_field_complete(llhttp_t *parser)
{
    return on_field(parser, "", 1);
}

static bool next_field(const struct exchange *x, size_t *at, const char **ret_name,
                       const char **ret_value)
{
    const char *text = (const char *)atoll_buf_head(&x->fields);

    if (*at >= atoll_buf_size(&x->fields))
        return false;
    *ret_name = text + *at;
    *ret_value = *ret_name + strlen(*ret_name) + 1;
    *at = (size_t)(*ret_value - text) + strlen(*ret_value) + 1;
    return true;
}

static const char *find_field(const struct exchange *x, const char *wanted)
{
    const char *name, *value;

    for (size_t at = 0; next_field(x, &at, &name, &value);)
        if (strcasecmp(name, wanted) == 0)
            return value;
    return NULL;
}

static bool is_for_us(const struct exchange *x, const char *name)
{
    const char *other, *value;

    if (atoll_proxy_is_hop(name) || strcasecmp(name, "content-type") == 0 ||
        strcasecmp(name, "date") == 0)
        return true;
    for (size_t at = 0; next_field(x, &at, &other, &value);)
        if (strcasecmp(other, "connection") == 0 && atoll_proxy_list_has(value, name))
            return true;
    return false;
}

/* False for a head that cannot be passed on. */
static bool copy_fields(struct exchange *x)
{
    const char *name, *value;

    /* A NUL in a value would make pairs of the wrong pieces; the parser lets none through. */
    for (size_t at = 0; next_field(x, &at, &name, &value);) {
        if (is_for_us(x, name) ||
            (x->hooks->response_header && !x->hooks->response_header(x->arg, name, &value)))
            continue;
        if (atoll_http_set_header(x->req, name, value) < 0)
            return false;
    }
    return true;
}

static int64_t answer_length(const struct exchange *x)
{
    if (x->parser.flags & F_CONTENT_LENGTH && x->parser.content_length <= INT64_MAX)
        return (int64_t)x->parser.content_length;
    return x->parser.status_code == 204 ? 0 : -1;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct exchange *x = parser->data;
    bool no_body = parser->status_code == 204 || parser->status_code == 304 ||
                   atoll_http_method(x->req) == ATOLL_HEAD;

    x->informational = parser->status_code < 200 && parser->status_code != 101;
    if (x->informational)
        return 1;
    if (parser->status_code == 101) {
        x->switching = true;
        return x->upgrade && find_field(x, "upgrade") ? HPE_PAUSED : HPE_USER;
    }
    if (parser->status_code > 599 ||
        (parser->flags & F_TRANSFER_ENCODING && !(parser->flags & F_CHUNKED)) || !copy_fields(x))
        return HPE_USER;
    x->begun = true;
    x->outcome.status = parser->status_code;
    atoll_http_begin(x->req, parser->status_code, find_field(x, "content-type"), answer_length(x));
    return no_body;
}

static int on_body(llhttp_t *parser, const char *at, size_t n)
{
    struct exchange *x = parser->data;

    x->outcome.out_bytes += n;
    /* A client that is gone is reported by on_close. */
    if (atoll_http_write(x->req, at, n) == -ENOBUFS)
        return HPE_USER;
    if (atoll_http_pending(x->req) > ATOLL_HTTP_HIGH_WATER)
        atoll_proxy_conn_pause(x->conn);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct exchange *x = parser->data;

    if (x->informational) {
        x->informational = false;
        x->head_bytes = 0;
        atoll_buf_clear(&x->fields);
        return 0;
    }
    x->complete = true;
    /* Some servers send a body after the answer to a HEAD all the same: that connection is spoilt. */
    x->keep = llhttp_should_keep_alive(parser) && atoll_http_method(x->req) != ATOLL_HEAD;
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_field,
    .on_header_value_complete = on_field_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void switch_protocols(struct exchange *x, const uint8_t *early, size_t n)
{
    const char *upgrade = find_field(x, "upgrade");
    struct atoll_http_request *req;

    if (!copy_fields(x)) {
        fail_answer(x, "the server inside sent a malformed answer");
        return;
    }
    req = ATOLL_TAKE_PTR(x->req);
    atoll_http_on_close(req, NULL, NULL);
    atoll_list_remove(&x->node);
    x->proxy->active--;
    atoll_proxy_tunnel(x->proxy, req, ATOLL_TAKE_PTR(x->conn), upgrade, early, n, x->hooks, x->arg);
    atoll_buf_done(&x->head);
    atoll_buf_done(&x->fields);
    free(x);
}

static void upstream_input(void *arg, const uint8_t *bytes, size_t n)
{
    struct exchange *x = arg;
    llhttp_errno_t e = llhttp_execute(&x->parser, (const char *)bytes, n);
    size_t used = e == HPE_OK ? n : (size_t)(llhttp_get_error_pos(&x->parser) - (char *)bytes);

    x->answered = true;
    x->head_bytes += x->begun ? 0 : n;
    if (e == HPE_PAUSED && x->switching) {
        switch_protocols(x, bytes + used, n - used);
    } else if (e == HPE_PAUSED && x->complete) {
        x->keep = x->keep && used == n;
        complete(x);
    } else if (e != HPE_OK) {
        fail_answer(x, "the server inside sent a malformed answer");
    } else if (x->head_bytes > ANSWER_HEAD_MAX) {
        fail_answer(x, "the server inside sent too large a head");
    }
}

/* Asking. */

static void dial(struct exchange *x);

static bool can_ask_again(const struct exchange *x)
{
    return x->reused && !x->answered && atoll_http_content_length(x->req) == 0 &&
           atoll_http_method(x->req) != ATOLL_POST && atoll_http_method(x->req) != ATOLL_PATCH;
}

static void upstream_closed(void *arg, int error)
{
    struct exchange *x = arg;

    if (can_ask_again(x)) {
        x->conn = atoll_proxy_conn_free(x->conn);
        dial(x);
        return;
    }
    if (error == 0 && x->begun)
        (void)llhttp_finish(&x->parser); /* an answer without a length ends here */
    if (x->complete)
        complete(x);
    else
        fail_answer(x, "the server inside closed the connection without a whole answer");
}

static void upstream_drained(void *arg)
{
    struct exchange *x = arg;

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
    struct exchange *x = arg;
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
    struct exchange *x = arg;
    struct iovec last = {(void *)"0\r\n\r\n", 5};

    x->body_ended = true;
    if (atoll_http_content_length(req) < 0)
        atoll_proxy_conn_write(x->conn, &last, 1);
}

static void client_drained(void *arg, struct atoll_http_request *req)
{
    struct exchange *x = arg;

    (void)req;
    if (x->conn)
        atoll_proxy_conn_resume(x->conn);
}

/* Takes the connection and asks. */
static void ask(struct exchange *x, struct atoll_proxy_conn *conn, bool reused)
{
    struct iovec iov = {(void *)atoll_buf_head(&x->head), atoll_buf_size(&x->head)};

    x->conn = conn;
    x->reused = reused;
    x->since_ms = atoll_loop_now_ms(x->proxy->config.loop);
    atoll_proxy_conn_own(conn, &upstream_events, x);
    llhttp_init(&x->parser, HTTP_RESPONSE, &parser_settings);
    x->parser.data = x;
    atoll_proxy_conn_write(conn, &iov, 1);
    if (atoll_http_content_length(x->req) == 0)
        x->body_ended = true;
    else
        atoll_http_body_stream(x->req, body_data, body_end, x);
}

static struct exchange *of_wait(struct atoll_list *node)
{
    return ATOLL_CONTAINER_OF(node, struct exchange, wait);
}

/* A connection nobody uses any more: for whoever waits for one like it, or for later. */
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

static struct exchange *next_to_dial(struct atoll_proxy *proxy)
{
    ATOLL_LIST_FOREACH (&proxy->waiting, node)
        if (may_dial(proxy, of_wait(node)->key))
            return of_wait(node);
    return NULL;
}

static void wake(void *arg)
{
    struct atoll_proxy *proxy = arg;
    struct exchange *x;

    while ((x = next_to_dial(proxy))) {
        atoll_list_remove(&x->wait);
        dial(x);
    }
}

static void dialled(void *ctx, int fd, const struct atoll_error *error)
{
    struct dial *d = ctx;
    struct exchange *x = d->exchange;
    struct atoll_proxy_conn *conn =
        error ? NULL
        : d->proxy ? atoll_proxy_conn_new(d->proxy->config.loop, fd) : (close(fd), NULL);
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

static void dial(struct exchange *x)
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
    /* The exchange may be over when this returns. */
    proxy->config.dial(proxy->config.arg, d->key, dialled, d);
}

static struct exchange *exchange_new(struct atoll_proxy *proxy, struct atoll_http_request *req,
                                     const struct atoll_proxy_request *request)
{
    struct exchange *x = alloc(sizeof(*x));

    x->proxy = proxy;
    x->req = req;
    x->hooks = request->hooks;
    x->arg = request->arg;
    x->since_ms = atoll_loop_now_ms(proxy->config.loop);
    (void)!atoll_text_copy(x->key, sizeof(x->key), request->key);
    atoll_buf_init(&x->head, HEAD_MAX);
    atoll_buf_init(&x->fields, ANSWER_HEAD_MAX);
    atoll_list_push_back(&proxy->exchanges, &x->node);
    proxy->active++;
    atoll_http_on_close(req, client_gone, x);
    atoll_http_on_drain(req, client_drained, x);
    atoll_proxy_arm(proxy);
    return x;
}

void atoll_proxy_forward(struct atoll_proxy *proxy, struct atoll_http_request *req,
                         const struct atoll_proxy_request *request)
{
    struct exchange *x = exchange_new(proxy, req, request);
    struct atoll_proxy_conn *kept;
    struct atoll_error error;

    if (proxy->active > EXCHANGES_MAX) {
        (void)atoll_fail(&error, ATOLL_ERR_RESOURCE_EXHAUSTED, EBUSY,
                         "too many requests are being passed on");
        fail(x, &error);
        return;
    }
    if (atoll_proxy_head_write(&x->head, req, request, &x->upgrade) < 0) {
        (void)atoll_fail(&error, ATOLL_ERR_INVALID_ARGUMENT, ENOBUFS, "the request is too large");
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

static struct exchange *find_late(struct atoll_proxy *proxy, int64_t now_ms)
{
    ATOLL_LIST_FOREACH (&proxy->exchanges, node) {
        struct exchange *x = ATOLL_CONTAINER_OF(node, struct exchange, node);
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
    struct exchange *x;

    (void)atoll_fail(&error, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT,
                     "the server inside did not answer in time");
    while ((x = find_late(proxy, now_ms)))
        fail(x, &error);
    atoll_proxy_pool_sweep(proxy, now_ms);
    atoll_proxy_tunnels_sweep(proxy, now_ms);
    if (proxy->active > 0 || proxy->idle_count > 0)
        atoll_proxy_arm(proxy);
}

struct atoll_proxy *atoll_proxy_new(const struct atoll_proxy_config *config)
{
    struct atoll_proxy *proxy = alloc(sizeof(*proxy));

    proxy->config = *config;
    proxy->config.answer_ms = config->answer_ms > 0 ? config->answer_ms : ANSWER_MS;
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
    free(proxy);
    return NULL;
}

size_t atoll_proxy_active(const struct atoll_proxy *proxy)
{
    return proxy->active;
}

size_t atoll_proxy_kept(const struct atoll_proxy *proxy)
{
    return proxy->idle_count;
}
