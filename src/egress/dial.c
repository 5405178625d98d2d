#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/text.h"
#include "egress/address.h"
#include "egress/box.h"
#include "egress/dns.h"
#include "egress/egress.h"
#include "egress/host_addresses.h"
#include "egress/socks.h"

/* For one address, and for the answers of a proxy. */
#define CONNECT_MS 30000
#define SEVERAL_MS 10000 /* while there is another address to try */
#define PROXY_BYTES 1024
#define KEEPALIVE_S 60 /* a peer that has gone is found in some minutes */

struct atoll_dial {
    struct atoll_dial_request request; /* name: our copy */
    char *name;                        /* owned, or NULL */
    struct in6_addr address;           /* of request.address */
    struct in6_addr list[ATOLL_LOOKUP_MAX];
    size_t count, next; /* addresses to try */
    uint16_t port;      /* of those: the destination's or the proxy's */
    bool proxied;
    struct atoll_network_decision decision;
    bool decided;
    int fd;
    int error; /* the last one, -errno */
    struct atoll_watch watch;
    struct atoll_timer timer;
    struct atoll_lookup *lookup;
    struct atoll_socks socks;
    char *user, *password;    /* owned copies: the policy may be replaced meanwhile */
    struct atoll_buf in, out; /* of the proxy */
};

static void dial_free(struct atoll_dial *d)
{
    atoll_watch_close(&d->watch);
    atoll_timer_cancel(&d->timer);
    d->lookup = atoll_lookup_cancel(d->lookup);
    if (d->fd >= 0)
        (void)close(d->fd);
    atoll_buf_done(&d->in);
    atoll_buf_done(&d->out);
    if (d->password)
        explicit_bzero(d->password, strlen(d->password));
    free(d->password);
    free(d->user);
    free(d->name);
    free(d);
}

struct atoll_dial *atoll_dial_cancel(struct atoll_dial *d)
{
    if (d)
        dial_free(d);
    return NULL;
}

/* Calls done and frees the dial. */
static void finish(struct atoll_dial *d, int result)
{
    struct atoll_dial_request request = d->request;
    struct atoll_network_decision decision = d->decision;
    bool decided = d->decided;

    if (result >= 0)
        d->fd = ATOLL_NO_FD;
    dial_free(d);
    request.done(request.arg, result, decided ? &decision : NULL);
}

static struct atoll_loop *loop_of(const struct atoll_dial *d)
{
    return d->request.box->egress->loop;
}

/* The policy names the destination itself, or its proxy: only the operator's bound counts. */
static struct atoll_network_decision decide_by_bound(const struct atoll_box *box, const char *name,
                                                     const struct in6_addr *address, uint16_t port)
{
    static const struct atoll_network_policy everything = {.otherwise_allow = true};
    const struct atoll_network_query query = {name, address, port};

    return atoll_network_decide(&everything, box->bound, &query,
                                atoll_host_addresses_has(box->egress->host, address));
}

static bool may_connect(struct atoll_dial *d, const struct in6_addr *address)
{
    const struct atoll_box *box = d->request.box;

    if (d->proxied)
        d->decision = decide_by_bound(box, NULL, address, d->port);
    else if (d->request.by_policy)
        d->decision = decide_by_bound(box, d->name, address, d->port);
    else
        d->decision = atoll_box_decide(box, d->name, address, d->port);
    d->decided = true;
    return d->decision.allow;
}

static void try_next(struct atoll_dial *d);

/* SOCKS5 */

static void on_proxy(void *arg, uint32_t events);

static int flush(struct atoll_dial *d)
{
    while (atoll_buf_size(&d->out) > 0) {
        ssize_t n = send(d->fd, atoll_buf_head(&d->out), atoll_buf_size(&d->out), MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        atoll_buf_consume(&d->out, (size_t)n);
    }
    return 0;
}

/* Reads no byte beyond the proxy's answers: those belong to the server. Answers are short, so that a read
 * for each byte does not matter. */
static int converse(struct atoll_dial *d)
{
    int r = 0;

    while (r == 0) {
        uint8_t byte;
        ssize_t n = recv(d->fd, &byte, 1, 0);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0)
            return n < 0 ? -errno : -ECONNRESET;
        r = atoll_buf_append(&d->in, &byte, 1);
        if (r == 0)
            r = atoll_socks_feed(&d->socks, &d->in, &d->out);
    }
    return r < 0 || r == 1 ? r : flush(d);
}

static void on_proxy(void *arg, uint32_t events)
{
    struct atoll_dial *d = arg;
    int r = events & (EPOLLOUT) ? flush(d) : 0;

    if (r == 0)
        r = converse(d);
    if (r == 0)
        r = atoll_watch_set(&d->watch, EPOLLIN | (atoll_buf_size(&d->out) > 0 ? EPOLLOUT : 0));
    if (r != 0)
        finish(d, r == 1 ? d->fd : r);
}

/* Whether the proxy is told the name, which it resolves itself: not if the policy has rules for addresses,
 * unless one for the name has allowed it. */
static bool tells_name(const struct atoll_dial *d)
{
    const struct atoll_network_policy *policy = d->request.box->policy;
    struct atoll_network_decision decision;

    if (!d->request.address)
        return true;
    decision = atoll_box_decide(d->request.box, d->name, &d->address, d->request.port);
    if (decision.reason == ATOLL_NETWORK_BY_RULE && policy->rules[decision.rule].target.domain)
        return true;
    for (size_t i = 0; i < policy->rule_count; i++)
        if (!policy->rules[i].target.domain && !policy->rules[i].target.any)
            return false;
    return true;
}

static void greet_proxy(struct atoll_dial *d)
{
    int r;

    d->socks = (struct atoll_socks){.user = d->user,
                                    .password = d->password,
                                    .name = tells_name(d) ? d->name : NULL,
                                    .address = &d->address,
                                    .port = d->request.port};
    r = atoll_socks_begin(&d->socks, &d->out);
    if (r == 0)
        r = flush(d);
    if (r == 0)
        r = atoll_watch_open(&d->watch, loop_of(d), d->fd,
                             EPOLLIN | (atoll_buf_size(&d->out) > 0 ? EPOLLOUT : 0), on_proxy, d);
    if (r < 0)
        finish(d, r);
}

/* Connecting */

static void on_connected(void *arg, uint32_t events)
{
    struct atoll_dial *d = arg;
    socklen_t size = sizeof(int);
    int error = 0;

    (void)events;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    atoll_watch_close(&d->watch);
    if (error) {
        d->error = -error;
        try_next(d);
    } else if (d->proxied) {
        greet_proxy(d);
    } else {
        finish(d, d->fd);
    }
}

static void on_timeout(void *arg)
{
    struct atoll_dial *d = arg;

    d->error = -ETIMEDOUT;
    try_next(d);
}

static void set_options(int fd)
{
    const int one = 1, idle = KEEPALIVE_S;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
}

static int start_connect(struct atoll_dial *d, const struct in6_addr *address)
{
    struct sockaddr_storage sa;
    socklen_t size = atoll_address_socket(address, d->port, &sa);

    d->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (d->fd < 0)
        return -errno;
    set_options(d->fd);
    atoll_box_bound_buffers(d->request.box, d->fd);
    if (connect(d->fd, (struct sockaddr *)&sa, size) < 0 && errno != EINPROGRESS)
        return -errno;
    return atoll_watch_open(&d->watch, loop_of(d), d->fd, EPOLLOUT, on_connected, d);
}

/* Starts to connect to the next address that is allowed; false: no address is left. */
static bool connect_next(struct atoll_dial *d)
{
    while (d->next < d->count) {
        const struct in6_addr *address = &d->list[d->next++];
        int r;

        atoll_watch_close(&d->watch);
        if (d->fd >= 0)
            (void)close(ATOLL_TAKE_FD(d->fd));
        r = may_connect(d, address) ? start_connect(d, address) : -EACCES;
        if (r == 0) {
            atoll_timer_set(&d->timer, loop_of(d), d->next < d->count ? SEVERAL_MS : CONNECT_MS,
                            on_timeout, d);
            return true;
        }
        /* A denied address does not hide why another failed. */
        if (r != -EACCES || d->error == 0)
            d->error = r;
    }
    return false;
}

static void give_up(void *arg)
{
    struct atoll_dial *d = arg;

    finish(d, d->error ? d->error : -EHOSTUNREACH);
}

static void try_next(struct atoll_dial *d)
{
    if (!connect_next(d))
        give_up(d);
}

static void on_lookup(void *arg, const struct in6_addr *addresses, size_t count, int error)
{
    struct atoll_dial *d = arg;

    d->lookup = NULL;
    d->count = ATOLL_MIN(count, ATOLL_ARRAY_LEN(d->list));
    memcpy(d->list, addresses, d->count * sizeof(*addresses));
    d->error = count == 0 ? error : 0;
    try_next(d);
}

/* "HOST:PORT" or "[ADDRESS]:PORT". */
static bool split_proxy(const char *text, char *host, size_t cap, uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    size_t n;

    if (!colon || atoll_text_u64(colon + 1, 1, UINT16_MAX, &port) < 0)
        return false;
    n = (size_t)(colon - text);
    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        text++;
        n -= 2;
    }
    if (n == 0 || n >= cap)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    *ret_port = (uint16_t)port;
    return true;
}

/* Finds what to connect to; false: it cannot be looked up. */
static bool find_addresses(struct atoll_dial *d)
{
    const struct atoll_box *box = d->request.box;
    char host[ATOLL_EGRESS_NAME_MAX];
    const char *name = d->name;

    d->port = d->request.port;
    d->proxied = box->policy->proxy_address != NULL;
    if (d->proxied) {
        if (!split_proxy(box->policy->proxy_address, host, sizeof(host), &d->port))
            return false;
        name = host;
        d->user = box->policy->proxy_user ? strdup(box->policy->proxy_user) : NULL;
        d->password = box->policy->proxy_password ? strdup(box->policy->proxy_password) : NULL;
    } else if (d->request.address) {
        d->list[0] = d->address;
        d->count = 1;
    }
    if (d->count == 0 && atoll_address_parse(name, &d->list[0]))
        d->count = 1;
    if (d->count > 0) {
        if (!connect_next(d))
            atoll_timer_set(&d->timer, loop_of(d), 0, give_up, d);
        return true;
    }
    d->lookup = atoll_resolver_ask(box->egress->resolver, box->tenant, name, on_lookup, d);
    return d->lookup != NULL;
}

struct atoll_dial *atoll_dial_start(const struct atoll_dial_request *request)
{
    struct atoll_dial *d = calloc(1, sizeof(*d));

    if (!d)
        abort();
    d->request = *request;
    d->fd = ATOLL_NO_FD;
    d->name = request->name ? strdup(request->name) : NULL;
    if (request->address)
        d->address = *request->address;
    d->request.address = request->address ? &d->address : NULL;
    atoll_buf_init(&d->in, PROXY_BYTES);
    atoll_buf_init(&d->out, PROXY_BYTES);
    if ((d->name || request->address) && find_addresses(d))
        return d;
    dial_free(d);
    return NULL;
}
