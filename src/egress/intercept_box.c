/*
 * The interception of a connection of a sandbox: policy, secrets and dials are those of its box.
 */
#include <errno.h>
#include "egress/intercept_internal.h"

struct binding {
    struct atoll_box *box;
    struct in6_addr address;
    bool has_address;
    bool proxied;     /* a connection was dialled through a proxy of the tenant; never reset */
    const char *name; /* of the interception */
};

/* A connection to a server that is being made. */
struct call {
    struct atoll_dial *dial;
    void (*done)(void *ctx, int fd);
    void *ctx;
};

static const struct atoll_network_transform *transform(void *arg,
                                                       const struct atoll_network_message *message)
{
    const struct binding *b = arg;
    return atoll_network_transform_of(b->box->policy, b->name, message);
}

static const char *secret(void *arg, const char *name)
{
    const struct binding *b = arg;
    return atoll_box_secret(b->box, name);
}

static void dialled(void *arg, int fd, const struct atoll_network_decision *decision)
{
    struct call *c = arg;

    (void)decision;
    c->done(c->ctx, fd);
    free(c);
}

static void *dial(void *arg, const char *host, uint16_t port, void (*done)(void *ctx, int fd),
                  void *ctx)
{
    struct binding *b = arg;
    struct atoll_shares *shares = &b->box->egress->shares;
    struct call *c;
    struct atoll_dial_request request = {
        .box = b->box,
        .name = host ? host : b->name,
        .address = !host && b->has_address ? &b->address : NULL,
        .port = port,
        .by_policy = host,
        .done = dialled,
    };

    /* One connection of a client leads to several: each is of the tenant's share. */
    if (!atoll_shares_fits(shares, b->box->tenant, 1) || !(c = calloc(1, sizeof(*c))))
        return NULL;
    c->done = done;
    c->ctx = ctx;
    request.arg = c;
    b->proxied = b->proxied || b->box->policy->proxy_address;
    c->dial = atoll_dial_start(&request);
    if (!c->dial) {
        free(c);
        return NULL;
    }
    atoll_shares_add(shares, b->box->tenant, 1);
    return c;
}

static void release(void *arg)
{
    struct binding *b = arg;

    atoll_shares_drop(&b->box->egress->shares, b->box->tenant, 1);
}

static void cancel(void *arg, void *handle)
{
    struct call *c = handle;

    (void)arg;
    (void)atoll_dial_cancel(c->dial);
    free(c);
}

/* What a tenant's proxy answers is not shared with others. The policy may lose its proxy while connections
 * through it are open, so an interception that has used one stays without the cache. */
static struct atoll_egress_cache *cache(void *arg, const char **ret_tenant)
{
    const struct binding *b = arg;

    *ret_tenant = b->box->tenant;
    return b->has_address && !b->proxied && !b->box->policy->proxy_address ? b->box->egress->cache
                                                                           : NULL;
}

static uint64_t route(void *arg)
{
    const struct binding *b = arg;
    return b->box->proxies;
}

static const struct atoll_intercept_hooks hooks = {transform, secret, dial, cancel,
                                                   release,   cache,  route};

struct atoll_intercept *atoll_intercept_start(const struct atoll_intercept_config *config,
                                              int *ret_fd)
{
    const struct atoll_intercept_site site = {config->tls, config->name, config->port};
    struct binding *b = calloc(1, sizeof(*b));
    struct atoll_intercept *i;

    if (!b)
        return NULL;
    b->box = config->box;
    b->has_address = config->address;
    if (config->address)
        b->address = *config->address;
    if (atoll_intercept_new(config->box->egress->interceptor, &site, &hooks, b, &i, ret_fd) < 0) {
        free(b);
        return NULL;
    }
    b->name = i->name;
    i->owned = b;
    return i;
}
