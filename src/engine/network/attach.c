#include <errno.h>
#include <string.h>
#include "base/log.h"
#include "base/switches.h"
#include "engine/engine_internal.h"
#include "engine/network/network.h"
#include "sys/netspace.h"

/*
 * The life of sandboxes in atoll-egress. A sandbox with a network has an attachment while it runs or is
 * paused. An attachment that atoll-egress must hear of is in the queue, from which a few at a time are
 * asked for: its sockets at the provider, then PUT; or POLICY if atoll-egress has the sockets.
 * After HELLO all attachments are queued, and SYNCED follows the last of them.
 */

#define ASKING_MAX 8 /* each has two descriptors in flight */
#define PATIENCE_MS 5000

/* A request in progress. Holds the id: the sandbox may end meanwhile. */
struct putting {
    struct atoll_networks *network;
    char id[ATOLL_ID_LEN + 1];
    uint64_t serial;
    unsigned round; /* value of the network's when it was sent */
};

bool atoll_network_serves(const struct atoll_sandbox *s)
{
    return s->spec.network != ATOLL_NETWORK_NONE && s->provider->ops->caps(s->provider)->sockets;
}

bool atoll_engine_is_network_port(struct atoll_engine *engine, const char *id, unsigned port)
{
    const struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, id);

    return port == ATOLL_NETSPACE_PORT && s && atoll_network_serves(s);
}

static void enqueue(struct atoll_networks *n, struct atoll_attachment *a)
{
    if (a->asking)
        a->stale = true;
    else if (!a->queued)
        atoll_list_push_back(&n->queue, &a->node);
    a->queued = !a->asking;
}

/* NULL: the sandbox does not need it any more. Ends the request. */
static struct atoll_attachment *end_putting(struct putting *p)
{
    struct atoll_sandbox *s = atoll_map_get(&p->network->engine->sandboxes, p->id);
    struct atoll_attachment *a = s ? s->attachment : NULL;

    if (a && a->serial != p->serial)
        a = NULL;
    if (a)
        a->asking = false;
    p->network->asking--;
    free(p);
    return a;
}

static void pump(struct atoll_networks *n);

static void finish(struct atoll_networks *n, struct atoll_attachment *a,
                   const struct atoll_error *error)
{
    if (error && atoll_list_empty(&a->waiters))
        atoll_log(ATOLL_LOG_WARN, "sandbox has no network", "sandbox", a->sandbox->spec.id, "error",
                  error->text, NULL);
    if (a->stale) {
        a->stale = false;
        enqueue(n, a);
        return;
    }
    atoll_timer_cancel(&a->patience);
    atoll_waiters_tell(&a->waiters, error); /* may free the attachment */
}

/* The connection ended before the answer: it is queued again after HELLO. */
static bool is_loss(const struct atoll_error *error)
{
    return error && error->kind == ATOLL_ERR_UNAVAILABLE && error->errnum == EPIPE;
}

static void on_put(void *arg, const struct atoll_reply *answer)
{
    struct putting *p = arg;
    struct atoll_networks *n = p->network;
    bool is_old = p->round != n->round;
    struct atoll_attachment *a = end_putting(p);
    const struct atoll_error *error = answer->error;
    struct atoll_error silent;

    if (error && error->kind == ATOLL_ERR_DEADLINE_EXCEEDED) {
        (void)atoll_fail(&silent, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT,
                         "the network is not available: %s", error->text);
        error = &silent;
    }
    if (a && (is_old || (error && error->kind == ATOLL_ERR_NOT_FOUND && a->put))) {
        a->put = false; /* it was sent before HELLO, or forgotten there: the sockets are needed */
        enqueue(n, a);
    } else if (a && !is_loss(error)) {
        a->put = !error;
        finish(n, a, error);
    }
    pump(n);
}

static struct atoll_bytes text_bytes(const char *text)
{
    return (struct atoll_bytes){(const uint8_t *)text, strlen(text)};
}

/* Without descriptors: atoll-egress has its sockets. */
static int send_put(struct atoll_networks *n, const struct atoll_attachment *a, struct putting *p,
                    const int *fds, size_t nfds, struct atoll_error *err)
{
    const struct atoll_sandbox *s = a->sandbox;
    const struct atoll_em_put msg = {
        .id = s->spec.id,
        .tenant = s->spec.tenant,
        .name = s->options.name ? s->options.name : "",
        .policy = text_bytes(atoll_network_policy_of(s)),
        .bound = text_bytes(atoll_network_bound_of(s)),
    };
    int r = atoll_fault("engine.put_network");

    p->round = n->round;
    if (r != 0)
        return atoll_fail_errno(err, r, "a fault of the test");
    atoll_network_send_secrets(n, s->spec.tenant, atoll_network_policy_of(s));
    return atoll_rpc_ask_with(n->rpc, nfds > 0 ? ATOLL_EGRESS_PUT : ATOLL_EGRESS_POLICY,
                              &atoll_em_put_desc, &msg, fds, nfds, on_put, p, err);
}

static void on_sockets(void *arg, int tcp_fd, int dns_fd, const struct atoll_error *error)
{
    struct putting *p = arg;
    struct atoll_networks *n = p->network;
    const struct atoll_sandbox *s = atoll_map_get(&n->engine->sandboxes, p->id);
    struct atoll_attachment *a = s ? s->attachment : NULL;
    const int fds[] = {tcp_fd, dns_fd};
    struct atoll_error err;

    if (!error && a && a->serial == p->serial && n->greeted) {
        if (send_put(n, a, p, fds, ATOLL_ARRAY_LEN(fds), &err) == 0)
            p = NULL; /* on_put() ends it */
        else
            error = &err;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    if (!p)
        return;
    a = end_putting(p);
    if (a && error)
        finish(n, a, error);
    pump(n);
}

static void begin(struct atoll_networks *n, struct atoll_attachment *a)
{
    struct atoll_sandbox *s = a->sandbox;
    struct putting *p = calloc(1, sizeof(*p));
    struct atoll_error err;

    if (!p)
        abort(); /* a small fixed object: the daemon is crash-only */
    *p = (struct putting){.network = n, .serial = a->serial};
    memcpy(p->id, s->spec.id, sizeof(p->id));
    a->asking = true;
    n->asking++;
    if (!a->put) {
        s->provider->ops->sockets(s->provider, &s->spec, on_sockets, p);
    } else if (send_put(n, a, p, NULL, 0, &err) < 0) {
        (void)end_putting(p);
        finish(n, a, &err);
    }
}

static void ignore(void *arg, const struct atoll_reply *answer)
{
    (void)arg;
    (void)answer;
}

static void pump(struct atoll_networks *n)
{
    struct atoll_error err;

    if (n->pumping || !n->greeted || !n->recovered)
        return;
    n->pumping = true;
    while (n->asking < ASKING_MAX && !atoll_list_empty(&n->queue)) {
        struct atoll_attachment *a =
            ATOLL_CONTAINER_OF(n->queue.next, struct atoll_attachment, node);

        atoll_list_remove(&a->node);
        a->queued = false;
        begin(n, a);
    }
    n->pumping = false;
    if (n->syncing && n->asking == 0 && atoll_list_empty(&n->queue)) {
        n->syncing = false;
        (void)!atoll_rpc_ask(n->rpc, ATOLL_EGRESS_SYNCED, NULL, NULL, ignore, NULL, &err);
    }
}

/* All of them. */

void atoll_network_sync(struct atoll_networks *n)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    n->syncing = true;
    n->round++;
    while ((s = atoll_map_next(&n->engine->sandboxes, &pos)) != NULL) {
        if (!s->attachment)
            continue;
        s->attachment->put = false;
        if (!s->attachment->asking)
            enqueue(n, s->attachment);
    }
    pump(n);
}

void atoll_network_lost(struct atoll_networks *n)
{
    struct atoll_sandbox *s;
    size_t pos = 0;

    while ((s = atoll_map_next(&n->engine->sandboxes, &pos)) != NULL) {
        struct atoll_attachment *a = s->attachment;

        if (!a)
            continue;
        a->put = false;
        a->rx_before += a->rx_now;
        a->tx_before += a->tx_now;
        a->rx_now = a->tx_now = 0;
    }
}

void atoll_network_recovered(struct atoll_networks *n)
{
    n->recovered = true;
    atoll_network_sweep_journals(n);
    pump(n);
}

/* One of them. */

static void on_impatient(void *arg)
{
    struct atoll_attachment *a = arg;
    const char *problem = atoll_network_problem(a->sandbox->engine->network);
    struct atoll_error err;

    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ETIMEDOUT, "the network is not available: %s",
                     problem ? problem : "atoll-egress has not answered in time");
    atoll_waiters_tell(&a->waiters, &err);
}

static struct atoll_attachment *attachment_new(struct atoll_sandbox *s)
{
    struct atoll_attachment *a = calloc(1, sizeof(*a));

    if (!a)
        abort(); /* a small fixed object: the daemon is crash-only */
    a->sandbox = s;
    a->serial = ++s->engine->network->serial;
    atoll_list_init(&a->waiters);
    atoll_connection_log_init(&a->log);
    return a;
}

struct atoll_attachment *atoll_attachment_free(struct atoll_attachment *a)
{
    if (!a)
        return NULL;
    atoll_list_remove(&a->node);
    atoll_timer_cancel(&a->patience);
    atoll_waiters_drop(&a->waiters);
    atoll_connection_log_done(&a->log);
    free(a);
    return NULL;
}

void atoll_network_attach(struct atoll_sandbox *s, atoll_done_fn *done, void *arg)
{
    struct atoll_networks *n = s->engine->network;
    struct atoll_error err;

    if (!atoll_network_serves(s)) {
        if (done)
            done(arg, NULL);
        return;
    }
    if (!n->program) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, ENOSYS, "the network is not available: %s",
                         atoll_network_problem(n));
        if (done)
            done(arg, &err);
        return;
    }
    if (!s->attachment)
        s->attachment = attachment_new(s);
    if (done) {
        atoll_waiters_add(&s->attachment->waiters, done, arg);
        atoll_timer_set(&s->attachment->patience, s->engine->loop, PATIENCE_MS, on_impatient,
                        s->attachment);
    }
    enqueue(n, s->attachment);
    pump(n);
}

/* Figures. */

struct counting {
    struct atoll_networks *network;
    char id[ATOLL_ID_LEN + 1];
    uint64_t serial;
    atoll_network_bytes_fn *fn;
    void *arg;
};

/* Without an answer, what is known. */
static void on_counted(void *arg, const struct atoll_reply *answer)
{
    struct counting *c = arg;
    const struct atoll_sandbox *s = atoll_map_get(&c->network->engine->sandboxes, c->id);
    struct atoll_attachment *a = s ? s->attachment : NULL;
    uint64_t rx = 0, tx = 0;
    struct atoll_em_stats stats;
    struct atoll_error err;

    if (a && a->serial == c->serial) {
        if (!answer->error && atoll_msg_decode(&atoll_em_stats_desc, answer->frame->payload,
                                               answer->frame->len, &stats, &err) == 0) {
            a->rx_now = stats.rx_bytes;
            a->tx_now = stats.tx_bytes;
        }
        rx = a->rx_before + a->rx_now;
        tx = a->tx_before + a->tx_now;
    }
    c->fn(c->arg, rx, tx);
    free(c);
}

bool atoll_network_count(struct atoll_sandbox *s, atoll_network_bytes_fn *fn, void *arg)
{
    struct atoll_networks *n = s->engine->network;
    const struct atoll_em_ref ref = {s->spec.id};
    struct counting *c;
    struct atoll_error err;

    if (!s->attachment || !s->attachment->put || !n->greeted)
        return false;
    c = calloc(1, sizeof(*c));
    if (!c)
        abort(); /* a small fixed object: the daemon is crash-only */
    *c = (struct counting){.network = n, .serial = s->attachment->serial, .fn = fn, .arg = arg};
    memcpy(c->id, s->spec.id, sizeof(c->id));
    if (atoll_rpc_ask(n->rpc, ATOLL_EGRESS_STATS, &atoll_em_ref_desc, &ref, on_counted, c, &err) ==
        0)
        return true;
    free(c);
    return false;
}

void atoll_network_detach(struct atoll_sandbox *s)
{
    struct atoll_attachment *a = ATOLL_TAKE_PTR(s->attachment);
    struct atoll_networks *n = s->engine->network;
    const struct atoll_em_ref ref = {s->spec.id};
    struct atoll_list waiters;
    struct atoll_error err;

    if (!a)
        return;
    /* If it is not connected, it forgets the sandbox at the next SYNCED. */
    if (n->greeted)
        (void)!atoll_rpc_ask(n->rpc, ATOLL_EGRESS_DROP, &atoll_em_ref_desc, &ref, ignore, NULL,
                             &err);
    atoll_list_init(&waiters);
    ATOLL_LIST_FOREACH (&a->waiters, node) {
        atoll_list_remove(node);
        atoll_list_push_back(&waiters, node);
    }
    (void)atoll_attachment_free(a);
    (void)atoll_fail(&err, ATOLL_ERR_ABORTED, ECANCELED, "sandbox %s is ending", s->spec.id);
    atoll_waiters_tell(&waiters, &err);
}
