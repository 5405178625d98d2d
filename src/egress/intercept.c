#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include "base/text.h"
#include "egress/intercept_internal.h"

/* As much as large servers accept: clients meet the server's limits, not ours. */
#define HEAD_BYTES ((size_t)64 * 1024)
#define TARGET_BYTES ((size_t)32 * 1024)
#define HEADERS 200
#define HTTPS_PORT 443
#define IDLE_MS ((int64_t)5 * 60 * 1000) /* of a client that keeps its connection */

/* Requests. */

void atoll_intercept_refuse(struct atoll_http_request *req, int status, const char *text)
{
    char body[ATOLL_ERROR_TEXT_MAX + 16];
    int n = snprintf(body, sizeof(body), "atoll: %s\n", text);

    atoll_http_respond(req, status, "text/plain; charset=utf-8", body,
                       ATOLL_MIN((size_t)ATOLL_MAX(n, 0), sizeof(body) - 1));
}

static void refuse_host(const struct atoll_intercept *i, struct atoll_http_request *req,
                        const char *host)
{
    char text[ATOLL_ERROR_TEXT_MAX];

    (void)snprintf(text, sizeof(text), "this connection is for %.150s, the request for %.150s",
                   i->name, host);
    atoll_intercept_refuse(req, 421, text);
}

static bool header_at(const void *arg, size_t i, const char **ret_name, const char **ret_value)
{
    return atoll_http_header_at(arg, i, ret_name, ret_value);
}

/* The fixed answer of a rule. */
static void answer(struct atoll_http_request *req, const struct atoll_network_transform *t)
{
    const char *type = t->body ? "text/plain; charset=utf-8" : NULL;

    for (size_t i = 0; i < t->answer_header_count; i++)
        if (strcasecmp(t->answer_headers[i].name, "content-type") == 0)
            type = t->answer_headers[i].value;
        else
            (void)!atoll_http_set_header(req, t->answer_headers[i].name,
                                         t->answer_headers[i].value);
    atoll_http_respond(req, t->status, type, t->body, t->body ? strlen(t->body) : 0);
}

static void on_request(void *arg, struct atoll_http_request *req)
{
    const struct atoll_network_transform *t;
    struct atoll_interceptor *shared = arg;
    struct atoll_intercept *i;
    const char *host;
    char tag[24];

    (void)snprintf(tag, sizeof(tag), "%" PRIu64, atoll_http_peer(req)->tag);
    i = atoll_map_get(&shared->by_tag, tag);
    if (!i) {
        atoll_http_abort(req); /* the interception was closed, its socket is about to be */
        return;
    }
    t = i->hooks->transform(i->arg, &(struct atoll_network_message){
                                        .method = atoll_http_method_name(atoll_http_method(req)),
                                        .target = atoll_http_target(req),
                                        .header_at = header_at,
                                        .arg = req,
                                    });
    if (!i->tls && i->port == HTTPS_PORT)
        /* A policy that allows only this port relies on TLS: no secret leaves without it. */
        atoll_intercept_refuse(req, 400, "port 443 is for TLS: use https://");
    else if (!atoll_intercept_is_meant(i, req, &host))
        refuse_host(i, req, host);
    else if (t && t->status != 0)
        answer(req, t);
    else
        atoll_exchange_start(i, req, t);
}

/* What all interceptions share. */

int atoll_interceptor_open(struct atoll_loop *loop, int state_fd, struct atoll_interceptor **ret,
                           struct atoll_error *err)
{
    const struct atoll_http_limits limits = {.header_bytes = HEAD_BYTES,
                                             .target_bytes = TARGET_BYTES,
                                             .header_count = HEADERS,
                                             .idle_ms = IDLE_MS,
                                             .any_target = true};
    struct atoll_interceptor *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return atoll_fail_errno(err, ENOMEM, "interceptor");
    s->loop = loop;
    atoll_map_init(&s->by_tag);
    r = atoll_tls_issuer_new(state_fd, &s->issuer, err);
    if (r == 0)
        r = atoll_tls_client_new(&(struct atoll_tls_trust){.http2 = true}, &s->any, err);
    if (r == 0)
        r = atoll_tls_client_new(&(struct atoll_tls_trust){.http2 = false}, &s->http1, err);
    if (r == 0)
        r = atoll_http_server_new(loop, &limits, on_request, s, &s->server, err);
    if (r < 0)
        (void)atoll_interceptor_close(s);
    else
        *ret = s;
    return r;
}

struct atoll_interceptor *atoll_interceptor_close(struct atoll_interceptor *s)
{
    if (!s)
        return NULL;
    s->server = atoll_http_server_free(s->server);
    s->issuer = atoll_tls_issuer_free(s->issuer);
    s->any = atoll_tls_free(s->any);
    s->http1 = atoll_tls_free(s->http1);
    atoll_map_done(&s->by_tag);
    free(s);
    return NULL;
}

/* One interception. */

/* Serves one end of a pair of sockets; *ret_fd is the other one. */
static int serve(struct atoll_intercept *i, uint64_t tag, int *ret_fd)
{
    struct atoll_interceptor *s = i->shared;
    struct atoll_tls_conn *tls = NULL;
    int pair[2], r = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    if (i->tls)
        r = atoll_tls_issuer_accept(s->issuer, i->name, pair[0], &tls);
    if (r < 0)
        (void)close(pair[0]);
    else
        r = atoll_http_server_adopt_as(s->server, pair[0], tls, tag, NULL);
    if (r < 0)
        (void)close(pair[1]);
    else
        *ret_fd = pair[1];
    return r;
}

int atoll_intercept_new(struct atoll_interceptor *shared, const struct atoll_intercept_site *site,
                        const struct atoll_intercept_hooks *hooks, void *arg,
                        struct atoll_intercept **ret, int *ret_fd)
{
    struct atoll_intercept *i = calloc(1, sizeof(*i));
    uint64_t tag = ++shared->tags;
    int r;

    if (!i)
        return -ENOMEM;
    i->shared = shared;
    i->hooks = hooks;
    i->arg = arg;
    i->port = site->port;
    i->tls = site->tls;
    atoll_list_init(&i->exchanges);
    atoll_list_init(&i->upstreams);
    (void)snprintf(i->tag, sizeof(i->tag), "%" PRIu64, tag);
    r = atoll_text_copy(i->name, sizeof(i->name), site->name);
    if (r == 0)
        r = atoll_map_put(&shared->by_tag, i->tag, i);
    if (r == 0)
        r = serve(i, tag, ret_fd);
    if (r < 0)
        (void)atoll_intercept_close(i);
    else
        *ret = i;
    return r;
}

struct atoll_intercept *atoll_intercept_close(struct atoll_intercept *i)
{
    if (!i)
        return NULL;
    if (atoll_map_get(&i->shared->by_tag, i->tag) == i)
        (void)atoll_map_remove(&i->shared->by_tag, i->tag);
    while (!atoll_list_empty(&i->exchanges))
        atoll_exchange_cancel(ATOLL_CONTAINER_OF(i->exchanges.next, struct atoll_exchange, node));
    while (!atoll_list_empty(&i->upstreams))
        atoll_upstream_free(ATOLL_CONTAINER_OF(i->upstreams.next, struct atoll_upstream, node));
    i->tunnel = atoll_http_tunnel_close(i->tunnel);
    free(i->owned);
    free(i);
    return NULL;
}
