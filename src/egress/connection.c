#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "egress/address.h"
#include "egress/box.h"
#include "egress/connection_internal.h"
#include "egress/dns.h"

#define DNS_PORT 53

/* Life and events */

void atoll_connection_set_text(char **field, const char *text)
{
    char *old = *field;

    *field = text ? strdup(text) : NULL;
    free(old);
}

static void report(struct atoll_connection_state *c, enum atoll_egress_end end, int errnum,
                   const char *hint)
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
static void connection_free(struct atoll_connection_state *c, bool reset)
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

void atoll_connection_finish(struct atoll_connection_state *c, enum atoll_egress_end end,
                             int errnum)
{
    report(c, end, errnum, "");
    connection_free(c, end != ATOLL_EGRESS_CLOSED);
}

/* An HTTP client is told why; the request has been looked at, but not read. */
static void answer_forbidden(struct atoll_connection_state *c)
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

void atoll_connection_deny(struct atoll_connection_state *c, const char *rule, const char *hint)
{
    bool answers = c->kind == ATOLL_SNIFF_HTTP && c->client_fd >= 0;

    atoll_connection_set_text(&c->rule, rule);
    c->box->stats.denied++;
    if (answers)
        answer_forbidden(c);
    report(c, ATOLL_EGRESS_DENIED, 0, hint);
    connection_free(c, !answers);
}

/* The entry "name:port" or "address:port". */
static const char *entry_of(const struct atoll_connection_state *c, char *out, size_t cap)
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

void atoll_connection_deny_by(struct atoll_connection_state *c,
                              const struct atoll_network_decision *decision)
{
    bool by_policy =
        decision->reason == ATOLL_NETWORK_BY_RULE || decision->reason == ATOLL_NETWORK_BY_DEFAULT;
    char rule[ATOLL_EGRESS_RULE_MAX], entry[ATOLL_EGRESS_RULE_MAX];

    atoll_box_print_rule(c->box, decision, rule);
    atoll_connection_deny(c, rule, by_policy ? entry_of(c, entry, sizeof(entry)) : NULL);
}

/* Relaying */

static void on_relay_end(void *arg, int error)
{
    struct atoll_connection_state *c = arg;

    atoll_connection_finish(c, error == 0 ? ATOLL_EGRESS_CLOSED : ATOLL_EGRESS_RESET, -error);
}

void atoll_connection_relay(struct atoll_connection_state *c, int server_fd)
{
    const struct atoll_relay_config config = {.box = c->box,
                                              .client_fd = ATOLL_TAKE_FD(c->client_fd),
                                              .server_fd = server_fd,
                                              .copy = c->to_peer,
                                              .hold = c->sniffing || c->lookup,
                                              .on_held_input = atoll_connection_held_input,
                                              .on_end = on_relay_end,
                                              .arg = c};
    int r;

    atoll_watch_close(&c->watch);
    r = atoll_relay_new(&config, &c->relay);
    if (r < 0) {
        atoll_connection_finish(c, ATOLL_EGRESS_RESET, -r);
        return;
    }
    if (!c->opened)
        report(c, ATOLL_EGRESS_OPENED, 0, "");
    c->opened = true;
}

static void on_dialed(void *arg, int fd, const struct atoll_network_decision *decision)
{
    struct atoll_connection_state *c = arg;

    c->dial = NULL;
    if (fd == -EACCES && decision && !decision->allow)
        atoll_connection_deny_by(c, decision);
    else if (fd < 0)
        atoll_connection_finish(c, ATOLL_EGRESS_UNREACHABLE, -fd);
    else
        atoll_connection_relay(c, fd);
}

void atoll_connection_dial(struct atoll_connection_state *c)
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
        atoll_connection_finish(c, ATOLL_EGRESS_UNREACHABLE, ENFILE);
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
    struct atoll_connection_state *c = arg;

    c->dns = NULL;
    connection_free(c, false);
}

static void on_peer(void *arg, int fd)
{
    struct atoll_connection_state *c = arg;

    c->peer_dial = NULL;
    if (fd < 0)
        atoll_connection_finish(c, ATOLL_EGRESS_UNREACHABLE, -fd);
    else
        atoll_connection_relay(c, fd);
}

static void connect_to_peer(struct atoll_connection_state *c)
{
    struct atoll_box *peer = atoll_peers_by_address(c->box, &c->address);
    char rule[ATOLL_EGRESS_RULE_MAX];

    if (!peer) {
        atoll_connection_deny(c, "no sandbox of its network has this address", NULL);
        return;
    }
    c->to_peer = true;
    (void)snprintf(rule, sizeof(rule), "network %s", c->box->policy->network);
    atoll_connection_set_text(&c->rule, rule);
    atoll_connection_set_text(&c->name, peer->id);
    c->peer_dial = atoll_peer_dial_start(peer, c->port, on_peer, c);
}

static void route(struct atoll_connection_state *c)
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
    else if (atoll_box_needs_name(c->box, &c->address, c->port) || atoll_connection_may_be_kept(c))
        atoll_connection_sniff(c);
    else
        atoll_connection_by_memory(c);
}

bool atoll_connection_start(struct atoll_box *box, int fd)
{
    struct atoll_connection_state *c = calloc(1, sizeof(*c));
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
static bool is_false(const struct atoll_connection_state *c, const struct atoll_network_decision *d)
{
    return c->named && !c->owned && !c->lookup && !c->intercept &&
           atoll_connection_must_belong(c, d);
}

void atoll_connection_review(struct atoll_list *node)
{
    struct atoll_connection_state *c =
        ATOLL_CONTAINER_OF(node, struct atoll_connection_state, node);
    struct atoll_network_decision d;
    const char *name = c->name;

    if (c->to_peer) {
        if (!atoll_peers_by_address(c->box, &c->address))
            atoll_connection_finish(c, ATOLL_EGRESS_REVOKED, 0);
        return;
    }
    /* Undecided connections ask the new policy when they are decided. */
    if (!c->dial && !c->relay)
        return;
    d = c->named ? atoll_box_decide(c->box, c->name, &c->address, c->port)
                 : atoll_connection_ask_memory(c, &name);
    if (d.allow && !is_false(c, &d))
        return;
    atoll_connection_set_decision(c, name, &d);
    if (d.allow)
        atoll_connection_set_text(&c->rule, CONNECTION_NOT_OWNED);
    atoll_connection_finish(c, ATOLL_EGRESS_REVOKED, 0);
}

void atoll_connection_revoke(struct atoll_list *node)
{
    struct atoll_connection_state *c =
        ATOLL_CONTAINER_OF(node, struct atoll_connection_state, node);

    if (c->dial || c->peer_dial || c->relay)
        atoll_connection_finish(c, ATOLL_EGRESS_REVOKED, 0);
    else
        connection_free(c, true);
}
