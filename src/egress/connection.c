#include "egress/connection.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "egress/address.h"
#include "egress/box.h"
#include "egress/dns.h"
#include "egress/intercept.h"
#include "egress/peers.h"
#include "egress/relay.h"
#include "egress/sniff.h"

/* A client that has sent nothing for this time may wait for the server to speak first. */
#define SILENT_MS 100
/* For the rest of a ClientHello or of the head of a request, once its first bytes came. */
#define REST_MS 5000
#define DNS_PORT 53
#define NOT_OWNED "name does not belong to address"
#define NAMES_MAX 16 /* remembered names of one address that are asked about */

/*
 * A connection is decided by the name that its first bytes have, if the policy needs one. Of a client
 * that waits for the server, the names remembered for the address decide; its first bytes are held back
 * until they have been looked at, too.
 */
struct connection {
    struct atoll_list node; /* in box->connections */
    struct atoll_box *box;
    uint64_t number;
    int64_t started_unix_ms;
    struct in6_addr address;
    uint16_t port;
    bool sniffing;              /* the first bytes of the client have not been understood yet */
    bool to_peer;               /* a sandbox of the same network */
    bool opened;                /* OPENED was reported */
    bool named;                 /* the name was in the first bytes, not remembered */
    bool owned;                 /* the address was found to be one of that name's */
    enum atoll_sniff_kind kind; /* of the first bytes */
    size_t seen;                /* bytes looked at so far */
    char *name;                 /* owned; NULL: unknown */
    char *rule;                 /* owned; what decided */
    int client_fd;              /* owned unless the relay or the DNS stream has it */
    struct atoll_watch watch;   /* of client_fd, while nothing else has it */
    struct atoll_timer timer;
    struct atoll_lookup *lookup;
    struct atoll_dial *dial;
    struct atoll_peer_dial *peer_dial;
    struct atoll_relay *relay;
    struct atoll_intercept *intercept; /* then the relay's server */
    struct atoll_dns_stream *dns;
};

/* Life and events */

/* text may be the field's own. */
static void set_text(char **field, const char *text)
{
    char *old = *field;

    *field = text ? strdup(text) : NULL;
    free(old);
}

static void report(struct connection *c, enum atoll_egress_end end, int errnum, const char *hint)
{
    char address[ATOLL_ADDRESS_TEXT_MAX];
    struct atoll_em_connection event = {
        .number = c->number,
        .end = (uint8_t)end,
        .started_unix_ms = c->started_unix_ms,
        .ended_unix_ms = end == ATOLL_EGRESS_OPENED ? 0 : atoll_clock_unix_ms(),
        .name = c->name,
        .address = atoll_address_print(&c->address, address),
        .port = c->port,
        .rule = c->rule,
        .hint = hint,
        .errnum = errnum,
    };

    if (c->relay)
        atoll_relay_bytes(c->relay, &event.rx_bytes, &event.tx_bytes);
    atoll_box_report(c->box, &event);
}

/* reset: the peers get a reset instead of an orderly end. */
static void connection_free(struct connection *c, bool reset)
{
    struct atoll_box *box = c->box;

    atoll_list_remove(&c->node);
    atoll_watch_close(&c->watch);
    atoll_timer_cancel(&c->timer);
    c->lookup = atoll_lookup_cancel(c->lookup);
    c->dial = atoll_dial_cancel(c->dial);
    c->peer_dial = atoll_peer_dial_cancel(c->peer_dial);
    c->relay = atoll_relay_free(c->relay, reset);
    c->intercept = atoll_intercept_close(c->intercept);
    c->dns = atoll_dns_stream_close(c->dns);
    if (reset)
        atoll_abort_socket(c->client_fd);
    else if (c->client_fd >= 0)
        (void)close(c->client_fd);
    atoll_shares_drop(&box->egress->shares, box->tenant, 1);
    box->stats.open--;
    free(c->name);
    free(c->rule);
    free(c);
}

static void finish(struct connection *c, enum atoll_egress_end end, int errnum)
{
    report(c, end, errnum, "");
    connection_free(c, end != ATOLL_EGRESS_CLOSED);
}

/* An HTTP client is told why; the request has been looked at, but not read. */
static void answer_forbidden(struct connection *c)
{
    char text[1024], skipped[4096];
    int n, body = snprintf(NULL, 0, "denied by the network policy of the sandbox: %s\n", c->rule);

    n = snprintf(text, sizeof(text),
                 "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: "
                 "%d\r\nConnection: close\r\n\r\ndenied by the network policy of the sandbox: %s\n",
                 body, c->rule);
    for (int i = 0; i < 8 && recv(c->client_fd, skipped, sizeof(skipped), 0) > 0; i++)
        ;
    if (n > 0 && (size_t)n < sizeof(text))
        (void)!send(c->client_fd, text, (size_t)n, MSG_NOSIGNAL);
}

/* hint: the entry of a policy that would allow it; NULL: none would. */
static void deny(struct connection *c, const char *rule, const char *hint)
{
    bool answers = c->kind == ATOLL_SNIFF_HTTP && c->client_fd >= 0;

    set_text(&c->rule, rule);
    c->box->stats.denied++;
    if (answers)
        answer_forbidden(c);
    report(c, ATOLL_EGRESS_DENIED, 0, hint);
    connection_free(c, !answers);
}

/* The entry "name:port" or "address:port". */
static const char *entry_of(const struct connection *c, char *out, size_t cap)
{
    char address[ATOLL_ADDRESS_TEXT_MAX];

    if (c->name)
        (void)snprintf(out, cap, "%s:%u", c->name, (unsigned)c->port);
    else
        (void)snprintf(out, cap,
                       strchr(atoll_address_print(&c->address, address), ':') ? "[%s]:%u" : "%s:%u",
                       address, (unsigned)c->port);
    return out;
}

static void deny_by(struct connection *c, const struct atoll_network_decision *decision)
{
    bool by_policy =
        decision->reason == ATOLL_NETWORK_BY_RULE || decision->reason == ATOLL_NETWORK_BY_DEFAULT;
    char rule[ATOLL_EGRESS_RULE_MAX], entry[ATOLL_EGRESS_RULE_MAX];

    atoll_box_print_rule(c->box, decision, rule);
    deny(c, rule, by_policy ? entry_of(c, entry, sizeof(entry)) : NULL);
}

/* Relaying */

static void on_relay_end(void *arg, int error)
{
    struct connection *c = arg;

    finish(c, error == 0 ? ATOLL_EGRESS_CLOSED : ATOLL_EGRESS_RESET, -error);
}

static void on_held_input(void *arg);

/* server_fd is taken. */
static void relay(struct connection *c, int server_fd)
{
    const struct atoll_relay_config config = {.box = c->box,
                                              .client_fd = ATOLL_TAKE_FD(c->client_fd),
                                              .server_fd = server_fd,
                                              .copy = c->to_peer,
                                              .hold = c->sniffing || c->lookup,
                                              .on_held_input = on_held_input,
                                              .on_end = on_relay_end,
                                              .arg = c};
    int r;

    atoll_watch_close(&c->watch);
    r = atoll_relay_new(&config, &c->relay);
    if (r < 0) {
        finish(c, ATOLL_EGRESS_RESET, -r);
        return;
    }
    if (!c->opened)
        report(c, ATOLL_EGRESS_OPENED, 0, "");
    c->opened = true;
}

static void on_dialed(void *arg, int fd, const struct atoll_network_decision *decision)
{
    struct connection *c = arg;

    c->dial = NULL;
    if (fd == -EACCES && decision && !decision->allow)
        deny_by(c, decision);
    else if (fd < 0)
        finish(c, ATOLL_EGRESS_UNREACHABLE, -fd);
    else
        relay(c, fd);
}

static void dial(struct connection *c)
{
    const struct atoll_dial_request request = {.box = c->box,
                                               .name = c->name,
                                               .address = &c->address,
                                               .port = c->port,
                                               .done = on_dialed,
                                               .arg = c};

    if (!c->sniffing)
        atoll_watch_close(&c->watch); /* the relay reads what comes meanwhile */
    c->dial = atoll_dial_start(&request);
    if (!c->dial)
        finish(c, ATOLL_EGRESS_UNREACHABLE, ENFILE);
}

/* Decisions */

/* About a connection whose bytes have no name: of the names remembered for the address, the newest one
 * that is allowed counts. */
static struct atoll_network_decision decide_by_memory(const struct connection *c,
                                                      const char **ret_name)
{
    const char *names[NAMES_MAX];
    size_t n = atoll_names_find(c->box->names, &c->address, atoll_loop_now_ms(c->box->egress->loop),
                                names, NAMES_MAX);
    struct atoll_network_decision first =
        atoll_box_decide(c->box, n > 0 ? names[0] : NULL, &c->address, c->port);

    *ret_name = n > 0 ? names[0] : NULL;
    for (size_t i = 1; i < n && !first.allow; i++) {
        struct atoll_network_decision d = atoll_box_decide(c->box, names[i], &c->address, c->port);

        if (d.allow) {
            *ret_name = names[i];
            return d;
        }
    }
    return first;
}

static void set_decision(struct connection *c, const char *name,
                         const struct atoll_network_decision *decision)
{
    char rule[ATOLL_EGRESS_RULE_MAX];

    set_text(&c->name, name);
    atoll_box_print_rule(c->box, decision, rule);
    set_text(&c->rule, rule);
}

static void connect_by_memory(struct connection *c)
{
    const char *name;
    struct atoll_network_decision d = decide_by_memory(c, &name);

    set_decision(c, name, &d);
    if (d.allow)
        dial(c);
    else
        deny_by(c, &d);
}

/* Names */

/* Replaces the server by an interception. */
static void intercept(struct connection *c)
{
    const struct atoll_intercept_config config = {.box = c->box,
                                                  .tls = c->kind == ATOLL_SNIFF_TLS,
                                                  .name = c->name,
                                                  .address = c->owned ? &c->address : NULL,
                                                  .port = c->port};
    uint64_t rx = 0, tx;
    int fd;

    if (c->relay)
        atoll_relay_bytes(c->relay, &rx, &tx);
    if (rx > 0) {
        deny(c, "the server sent bytes before the request", NULL);
        return;
    }
    c->dial = atoll_dial_cancel(c->dial);
    if (c->relay)
        c->client_fd = atoll_relay_detach(ATOLL_TAKE_PTR(c->relay));
    c->intercept = atoll_intercept_start(&config, &fd);
    if (c->intercept)
        relay(c, fd);
    else
        finish(c, ATOLL_EGRESS_UNREACHABLE, ENFILE);
}

/* The name is right and allowed. */
static void proceed(struct connection *c)
{
    if (atoll_network_find_transform(c->box->policy, c->name))
        intercept(c);
    else if (c->relay)
        atoll_relay_release(c->relay);
    else if (!c->dial)
        dial(c);
}

/* Whether requests get somewhere else than to the address, or nowhere. */
static bool goes_elsewhere(const struct connection *c)
{
    const struct atoll_network_transform *transform =
        atoll_network_find_transform(c->box->policy, c->name);

    return transform && (transform->forward || transform->status != 0);
}

/* Whether the address must be one of the name's: if the name gives a right that the address does not have
 * by itself. That is a rule, the operator's word for an internal address, or a header. */
static bool must_belong(const struct connection *c, const struct atoll_network_decision *d)
{
    const struct atoll_network_policy *policy = c->box->policy;

    if (goes_elsewhere(c))
        return false;
    return (d->reason == ATOLL_NETWORK_BY_RULE && policy->rules[d->rule].target.domain) ||
           atoll_network_find_transform(policy, c->name) ||
           !atoll_box_decide(c->box, NULL, &c->address, c->port).allow;
}

static void on_lookup(void *arg, const struct in6_addr *addresses, size_t count, int error)
{
    struct connection *c = arg;
    struct atoll_network_decision d = atoll_box_decide(c->box, c->name, &c->address, c->port);

    (void)error;
    c->lookup = NULL;
    if (!d.allow) {
        deny_by(c, &d); /* the policy has changed meanwhile */
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (memcmp(&addresses[i], &c->address, sizeof(c->address)) == 0) {
            c->owned = true;
            proceed(c);
            return;
        }
    deny(c, NOT_OWNED, NULL);
}

/* Decides by the name that the client's first bytes have. */
static void decide_by_name(struct connection *c, const char *name)
{
    struct atoll_network_decision d = atoll_box_decide(c->box, name, &c->address, c->port);
    int64_t now_ms = atoll_loop_now_ms(c->box->egress->loop);

    set_decision(c, name, &d);
    c->named = true;
    c->owned = atoll_names_has(c->box->names, name, &c->address, now_ms);
    if (!d.allow) {
        deny_by(c, &d);
    } else if (c->owned || !must_belong(c, &d)) {
        proceed(c);
    } else {
        c->lookup =
            atoll_resolver_ask(c->box->egress->resolver, c->box->tenant, name, on_lookup, c);
        if (!c->lookup)
            deny(c, "too many names are being resolved", NULL);
    }
}

/* Sniffing */

static bool has_finished(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 ||
           info.tcpi_state != TCP_ESTABLISHED;
}

static void on_slow(void *arg)
{
    deny(arg, "the name did not come in time", NULL);
}

/* Waits for more bytes than have been seen: SO_RCVLOWAT keeps the loop from reporting those again. */
static void expect_more(struct connection *c, int fd, size_t seen)
{
    int wanted = (int)seen + 1;

    if (c->seen == 0 && seen > 0)
        atoll_timer_set(&c->timer, c->box->egress->loop, REST_MS, on_slow, c);
    c->seen = seen;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
    if (c->relay)
        atoll_relay_expect(c->relay);
}

static int client_of(const struct connection *c)
{
    return c->relay ? atoll_relay_client(c->relay) : c->client_fd;
}

static void understood(struct connection *c, const struct atoll_sniff *sniff)
{
    const int one = 1;

    c->sniffing = false;
    c->kind = sniff->kind;
    atoll_timer_cancel(&c->timer);
    (void)setsockopt(client_of(c), SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
    if (!c->relay)
        atoll_watch_close(&c->watch);
    if (sniff->kind == ATOLL_SNIFF_BAD)
        deny(c, "the request has no single name", NULL);
    else if (*sniff->name)
        decide_by_name(c, sniff->name);
    else if (c->relay)
        atoll_relay_release(c->relay); /* memory has decided already */
    else if (!c->dial)
        connect_by_memory(c);
}

static void look(struct connection *c)
{
    static uint8_t bytes[ATOLL_SNIFF_MAX];
    int fd = client_of(c);
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    struct atoll_sniff sniff = {.kind = ATOLL_SNIFF_OTHER};

    if (n < 0 && errno != EAGAIN) {
        finish(c, ATOLL_EGRESS_RESET, errno);
        return;
    }
    if (n < 0) {
        expect_more(c, fd, 0);
        return;
    }
    if (n > 0)
        atoll_sniff(bytes, (size_t)n, &sniff);
    if (sniff.kind == ATOLL_SNIFF_MORE && has_finished(fd))
        sniff.kind = ATOLL_SNIFF_BAD;
    if (sniff.kind == ATOLL_SNIFF_MORE)
        expect_more(c, fd, (size_t)n);
    else
        understood(c, &sniff);
}

static void on_held_input(void *arg)
{
    struct connection *c = arg;

    if (c->sniffing)
        look(c);
}

static void on_input(void *arg, uint32_t events)
{
    struct connection *c = arg;

    (void)events;
    look(c);
}

static void on_silent(void *arg)
{
    connect_by_memory(arg);
}

static void sniff_first(struct connection *c)
{
    c->sniffing = true;
    if (atoll_watch_open(&c->watch, c->box->egress->loop, c->client_fd, EPOLLIN, on_input, c) < 0)
        finish(c, ATOLL_EGRESS_RESET, ENOMEM);
    else
        atoll_timer_set(&c->timer, c->box->egress->loop, SILENT_MS, on_silent, c);
}

/* Start */

/* The listening socket is transparent: the local address of a connection is the one that the program
 * wanted (sys/netspace.h). */
static bool original_destination(int fd, struct in6_addr *address, uint16_t *port)
{
    struct sockaddr_in6 wanted;
    socklen_t size = sizeof(wanted);

    if (getsockname(fd, (struct sockaddr *)&wanted, &size) < 0 || wanted.sin6_family != AF_INET6)
        return false;
    *address = wanted.sin6_addr;
    *port = ntohs(wanted.sin6_port);
    return true;
}

static void on_dns_end(void *arg)
{
    struct connection *c = arg;

    c->dns = NULL;
    connection_free(c, false);
}

static void on_peer(void *arg, int fd)
{
    struct connection *c = arg;

    c->peer_dial = NULL;
    if (fd < 0)
        finish(c, ATOLL_EGRESS_UNREACHABLE, -fd);
    else
        relay(c, fd);
}

static void connect_to_peer(struct connection *c)
{
    struct atoll_box *peer = atoll_peers_by_address(c->box, &c->address);
    char rule[ATOLL_EGRESS_RULE_MAX];

    if (!peer) {
        deny(c, "no sandbox of its network has this address", NULL);
        return;
    }
    c->to_peer = true;
    (void)snprintf(rule, sizeof(rule), "network %s", c->box->policy->network);
    set_text(&c->rule, rule);
    set_text(&c->name, peer->id);
    c->peer_dial = atoll_peer_dial_start(peer, c->port, on_peer, c);
}

static void route(struct connection *c)
{
    if (c->port == DNS_PORT) {
        c->dns = atoll_dns_stream_open(c->box, ATOLL_TAKE_FD(c->client_fd), on_dns_end, c);
        if (!c->dns)
            connection_free(c, true);
        return;
    }
    c->box->stats.connections++;
    if (atoll_peers_is_address(&c->address))
        connect_to_peer(c);
    else if (atoll_box_needs_name(c->box, &c->address, c->port))
        sniff_first(c);
    else
        connect_by_memory(c);
}

bool atoll_connection_start(struct atoll_box *box, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    const int one = 1;

    if (!c)
        abort();
    c->box = box;
    c->client_fd = fd;
    c->started_unix_ms = atoll_clock_unix_ms();
    c->number = ++box->numbers;
    if (!original_destination(fd, &c->address, &c->port)) {
        atoll_abort_socket(fd);
        free(c);
        return true;
    }
    if (!atoll_shares_fits(&box->egress->shares, box->tenant, 1)) {
        box->stats.denied++;
        report(c, ATOLL_EGRESS_LIMITED, 0, "");
        atoll_abort_socket(fd);
        free(c);
        return false;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    atoll_box_bound_buffers(box, fd);
    atoll_shares_add(&box->egress->shares, box->tenant, 1);
    atoll_list_push_back(&box->connections, &c->node);
    box->stats.open++;
    route(c);
    return true;
}

/* Changes of the policy */

/* Whether the policy allows it by a name that the client sent while it gave no right. */
static bool is_false(const struct connection *c, const struct atoll_network_decision *d)
{
    return c->named && !c->owned && !c->lookup && !c->intercept && must_belong(c, d);
}

void atoll_connection_review(struct atoll_list *node)
{
    struct connection *c = ATOLL_CONTAINER_OF(node, struct connection, node);
    struct atoll_network_decision d;
    const char *name = c->name;

    if (c->to_peer) {
        if (!atoll_peers_by_address(c->box, &c->address))
            finish(c, ATOLL_EGRESS_REVOKED, 0);
        return;
    }
    /* Undecided connections ask the new policy when they are decided. */
    if (!c->dial && !c->relay)
        return;
    d = c->named ? atoll_box_decide(c->box, c->name, &c->address, c->port)
                 : decide_by_memory(c, &name);
    if (d.allow && !is_false(c, &d))
        return;
    set_decision(c, name, &d);
    if (d.allow)
        set_text(&c->rule, NOT_OWNED);
    finish(c, ATOLL_EGRESS_REVOKED, 0);
}

void atoll_connection_revoke(struct atoll_list *node)
{
    struct connection *c = ATOLL_CONTAINER_OF(node, struct connection, node);

    if (c->dial || c->peer_dial || c->relay)
        finish(c, ATOLL_EGRESS_REVOKED, 0);
    else
        connection_free(c, true);
}
