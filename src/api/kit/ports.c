#include "api/kit/ports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "api/call.h"
#include "api/metrics.h"
#include "base/list.h"

#define RETRY_MS 60

struct atoll_ports {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    unsigned tries;
    struct atoll_proxy *proxy;  /* owned */
    struct atoll_list dialings; /* of struct dialing */
};

/* A connection attempt with retries. */
struct dialing {
    struct atoll_list node; /* in ports->dialings */
    struct atoll_ports *ports;
    struct atoll_engine *engine;
    struct atoll_timer again;
    bool asking; /* a callback of the engine is pending */
    unsigned tries;
    char id[ATOLL_ID_LEN + 1];
    uint16_t port;
    atoll_proxy_dialed_fn *done; /* NULL: canceled, and ports is freed */
    void *ctx;
};

static void dial_once(void *arg);

static void dialed(void *arg, int fd, const struct atoll_error *error)
{
    struct dialing *d = arg;

    d->asking = false;
    if (!d->done) {
        if (!error)
            atoll_engine_discard(d->engine, d->id, fd);
        free(d);
        return;
    }
    if (error && error->kind == ATOLL_ERR_UNAVAILABLE && ++d->tries < d->ports->tries) {
        atoll_timer_set(&d->again, d->ports->loop, (int64_t)RETRY_MS * d->tries, dial_once, d);
        return;
    }
    d->done(d->ctx, fd, error);
    atoll_list_remove(&d->node);
    free(d);
}

static void dial_once(void *arg)
{
    struct dialing *d = arg;

    d->asking = true;
    atoll_engine_connect(d->engine, d->id, d->port, dialed, d);
}

/* key: "<port>-<id>". */
static void dial(void *arg, const char *key, atoll_proxy_dialed_fn *done, void *ctx)
{
    struct atoll_ports *ports = arg;
    struct dialing *d = atoll_api_alloc(sizeof(*d));

    d->ports = ports;
    d->engine = ports->engine;
    d->port = (uint16_t)strtoul(key, NULL, 10);
    (void)snprintf(d->id, sizeof(d->id), "%s", strchr(key, '-') + 1);
    d->done = done;
    d->ctx = ctx;
    atoll_list_push_back(&ports->dialings, &d->node);
    dial_once(d);
}

static void discard(void *arg, const char *key, int fd)
{
    struct atoll_ports *ports = arg;

    atoll_engine_discard(ports->engine, strchr(key, '-') + 1, fd);
}

static void use(void *arg, const char *key, int by)
{
    struct atoll_ports *ports = arg;

    atoll_engine_use(ports->engine, strchr(key, '-') + 1, by);
}

struct atoll_ports *atoll_ports_new(struct atoll_loop *loop, struct atoll_engine *engine,
                                    unsigned tries)
{
    struct atoll_ports *ports = atoll_api_alloc(sizeof(*ports));
    const struct atoll_proxy_config config = {
        .loop = loop, .dial = dial, .discard = discard, .use = use, .arg = ports};

    ports->loop = loop;
    ports->engine = engine;
    ports->tries = tries;
    atoll_list_init(&ports->dialings);
    ports->proxy = atoll_proxy_new(&config);
    return ports;
}

struct atoll_ports *atoll_ports_free(struct atoll_ports *ports)
{
    struct atoll_error error;

    if (!ports)
        return NULL;
    (void)atoll_fail(&error, ATOLL_ERR_UNAVAILABLE, ESHUTDOWN, "the daemon is shutting down");
    ATOLL_LIST_FOREACH (&ports->dialings, node) {
        struct dialing *d = ATOLL_CONTAINER_OF(node, struct dialing, node);
        atoll_proxy_dialed_fn *done = ATOLL_TAKE_PTR(d->done);
        atoll_list_remove(&d->node);
        atoll_timer_cancel(&d->again);
        done(d->ctx, ATOLL_NO_FD, &error);
        if (!d->asking)
            free(d); /* else dialed() frees it */
    }
    ports->proxy = atoll_proxy_free(ports->proxy);
    free(ports);
    return NULL;
}

void atoll_ports_forward(struct atoll_ports *ports, struct atoll_http_request *req,
                         const struct atoll_port_request *request)
{
    char key[ATOLL_PROXY_KEY_MAX];
    const struct atoll_proxy_request forwarded = {
        .key = key,
        .owner = atoll_api_owner_of(ports->engine, request->sandbox_id),
        .target = request->target,
        .host = request->host,
        .scheme = atoll_http_peer(req)->is_tls ? "https" : "http",
        .extra = request->extra,
        .hooks = request->hooks,
        .arg = request->arg,
    };

    (void)snprintf(key, sizeof(key), "%u-%s", request->port, request->sandbox_id);
    atoll_proxy_forward(ports->proxy, req, &forwarded);
}

struct relay {
    void (*done)(void *arg);
    void *arg;
};

static void relay_done(void *arg, const struct atoll_proxy_outcome *outcome)
{
    struct relay *relay = arg;

    atoll_ports_measure(outcome);
    relay->done(relay->arg);
    free(relay);
}

void atoll_ports_relay(struct atoll_ports *ports, const char *sandbox_id, uint16_t port, int fd,
                       void (*done)(void *arg), void *arg)
{
    static const struct atoll_proxy_hooks hooks = {.done = relay_done};
    struct relay *relay = atoll_api_alloc(sizeof(*relay));
    char key[ATOLL_PROXY_KEY_MAX];

    *relay = (struct relay){done, arg};
    (void)snprintf(key, sizeof(key), "%u-%s", port, sandbox_id);
    atoll_proxy_relay(ports->proxy, fd, key, atoll_api_owner_of(ports->engine, sandbox_id), &hooks,
                      relay);
}

static void joined_done(void *arg ATOLL_UNUSED, const struct atoll_proxy_outcome *outcome)
{
    atoll_ports_measure(outcome);
}

int atoll_ports_join(struct atoll_ports *ports, struct atoll_http_request *req,
                     const char *protocol, const char *sandbox_id, uint16_t port, int fd)
{
    static const struct atoll_proxy_hooks hooks = {.done = joined_done};
    char key[ATOLL_PROXY_KEY_MAX];

    (void)snprintf(key, sizeof(key), "%u-%s", port, sandbox_id);
    return atoll_proxy_join(ports->proxy, req, protocol, fd, key,
                            atoll_api_owner_of(ports->engine, sandbox_id), &hooks, NULL);
}

void atoll_ports_measure(const struct atoll_proxy_outcome *outcome)
{
    atoll_metric_add(ATOLL_METRIC_PREVIEW_REQUESTS,
                     ATOLL_LABELS(atoll_api_status_text(outcome->status)), 1);
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("preview", "in"), (double)outcome->in_bytes);
    atoll_metric_add(ATOLL_METRIC_BYTES, ATOLL_LABELS("preview", "out"),
                     (double)outcome->out_bytes);
}

size_t atoll_ports_active(const struct atoll_ports *ports)
{
    return atoll_proxy_active(ports->proxy);
}
