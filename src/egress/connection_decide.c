/*
 * Which name a connection is for, and what the policy says about it.
 */
#include <errno.h>
#include <string.h>
#include "egress/box.h"
#include "egress/cache.h"
#include "egress/connection_internal.h"
#include "egress/dns.h"

#define NAMES_MAX 16 /* remembered names of one address that are asked about */

struct atoll_network_decision atoll_connection_ask_memory(const struct atoll_connection_state *c,
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

void atoll_connection_set_decision(struct atoll_connection_state *c, const char *name,
                                   const struct atoll_network_decision *decision)
{
    char rule[ATOLL_EGRESS_RULE_MAX];

    atoll_connection_set_text(&c->name, name);
    atoll_box_print_rule(c->box, decision, rule);
    atoll_connection_set_text(&c->rule, rule);
}

void atoll_connection_by_memory(struct atoll_connection_state *c)
{
    const char *name;
    struct atoll_network_decision d = atoll_connection_ask_memory(c, &name);

    atoll_connection_set_decision(c, name, &d);
    if (d.allow)
        atoll_connection_dial(c);
    else
        atoll_connection_deny_by(c, &d);
}

/* Names */

/* Replaces the server by an interception. */
static void intercept(struct atoll_connection_state *c)
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
        atoll_connection_deny(c, "the server sent bytes before the request", NULL);
        return;
    }
    c->dial = atoll_dial_cancel(c->dial);
    if (c->relay)
        c->client_fd = atoll_relay_detach(ATOLL_TAKE_PTR(c->relay));
    c->intercept = atoll_intercept_start(&config, &fd);
    if (c->intercept)
        atoll_connection_relay(c, fd);
    else
        atoll_connection_finish(c, ATOLL_EGRESS_UNREACHABLE, ENFILE);
}

bool atoll_connection_may_be_kept(const struct atoll_connection_state *c)
{
    const struct atoll_cache_table *table = atoll_cache_table_of(c->box->egress->cache);
    const char *names[NAMES_MAX];
    size_t n = table && !c->box->policy->proxy_address
                   ? atoll_names_find(c->box->names, &c->address,
                                      atoll_loop_now_ms(c->box->egress->loop), names, NAMES_MAX)
                   : 0;

    for (size_t i = 0; i < n; i++)
        if (atoll_cache_table_has_host(table, names[i], c->port))
            return true;
    return false;
}

/* Whether downloads of this connection are kept. What a sandbox gets from an address of its own choice is
 * not shared with others. */
static bool is_kept(const struct atoll_connection_state *c)
{
    return c->owned && !c->box->policy->proxy_address && c->box->egress->interceptor &&
           atoll_cache_table_has_host(atoll_cache_table_of(c->box->egress->cache), c->name,
                                      c->port);
}

/* The name is right and allowed. */
static void proceed(struct atoll_connection_state *c)
{
    if (atoll_network_find_transform(c->box->policy, c->name))
        intercept(c);
    else if (c->relay)
        atoll_relay_release(c->relay);
    else if (!c->dial && is_kept(c))
        intercept(c);
    else if (!c->dial)
        atoll_connection_dial(c);
}

bool atoll_connection_must_belong(const struct atoll_connection_state *c,
                                  const struct atoll_network_decision *d)
{
    const struct atoll_network_policy *policy = c->box->policy;

    if (atoll_network_goes_elsewhere(policy, c->name))
        return false;
    return (d->reason == ATOLL_NETWORK_BY_RULE && policy->rules[d->rule].target.domain) ||
           atoll_network_find_transform(policy, c->name) ||
           !atoll_box_decide(c->box, NULL, &c->address, c->port).allow;
}

static void on_lookup(void *arg, const struct in6_addr *addresses, size_t count, int error)
{
    struct atoll_connection_state *c = arg;
    struct atoll_network_decision d = atoll_box_decide(c->box, c->name, &c->address, c->port);

    (void)error;
    c->lookup = NULL;
    if (!d.allow) {
        atoll_connection_deny_by(c, &d); /* the policy has changed meanwhile */
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (memcmp(&addresses[i], &c->address, sizeof(c->address)) == 0) {
            c->owned = true;
            proceed(c);
            return;
        }
    atoll_connection_deny(c, CONNECTION_NOT_OWNED, NULL);
}

void atoll_connection_by_name(struct atoll_connection_state *c, const char *name)
{
    struct atoll_network_decision d = atoll_box_decide(c->box, name, &c->address, c->port);
    int64_t now_ms = atoll_loop_now_ms(c->box->egress->loop);

    atoll_connection_set_decision(c, name, &d);
    c->named = true;
    c->owned = atoll_names_has(c->box->names, name, &c->address, now_ms);
    if (!d.allow) {
        atoll_connection_deny_by(c, &d);
    } else if (c->owned || !atoll_connection_must_belong(c, &d)) {
        proceed(c);
    } else {
        c->lookup =
            atoll_resolver_ask(c->box->egress->resolver, c->box->tenant, name, on_lookup, c);
        if (!c->lookup)
            atoll_connection_deny(c, "too many names are being resolved", NULL);
    }
}
