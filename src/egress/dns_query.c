/*
 * One question of a sandbox: what the policy says about the name, which side knows the answer, and what of
 * it the sandbox may see.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "egress/dns_internal.h"
#include "egress/peers.h"

#define REPORT_AGAIN_MS 10000 /* an equal question is not reported again for so long */

enum source { SOURCE_NONE, SOURCE_RESOLVER, SOURCE_SERVERS, SOURCE_NO_DATA };

static enum source source_of(uint16_t type)
{
    switch (type) {
    case ATOLL_DNS_A:
    case ATOLL_DNS_AAAA:
        return SOURCE_RESOLVER;
    case ATOLL_DNS_NS:
    case ATOLL_DNS_CNAME:
    case ATOLL_DNS_SOA:
    case ATOLL_DNS_PTR:
    case ATOLL_DNS_MX:
    case ATOLL_DNS_TXT:
    case ATOLL_DNS_SRV:
    case ATOLL_DNS_NAPTR:
    case ATOLL_DNS_CAA:
        return SOURCE_SERVERS;
    case ATOLL_DNS_SVCB:
    case ATOLL_DNS_HTTPS:
        return SOURCE_NO_DATA;
    default:
        return SOURCE_NONE;
    }
}

void atoll_dns_query_free(struct atoll_dns_query *query)
{
    atoll_list_remove(&query->node);
    atoll_lookup_cancel(query->lookup);
    atoll_forward_cancel(query->forward);
    query->dns->pending--;
    free(query);
}

static size_t limit_of(const struct atoll_dns_query *query)
{
    return query->to.stream ? ATOLL_DNS_MESSAGE_MAX : query->question.udp_max;
}

static void answer_empty(struct atoll_dns_query *query, unsigned rcode)
{
    uint8_t out[ATOLL_DNS_UDP_PLAIN];

    atoll_dns_send(query->dns, &query->to, out,
                   atoll_dns_write_empty(&query->question, rcode, out, sizeof(out)));
}

static void answer_addresses(struct atoll_dns_query *query, const struct in6_addr *addresses,
                             size_t count)
{
    uint8_t out[ATOLL_DNS_UDP_MAX];
    size_t cap = ATOLL_MIN(limit_of(query), sizeof(out));

    atoll_dns_send(
        query->dns, &query->to, out,
        atoll_dns_write_addresses(&query->question, addresses, count, ATOLL_DNS_TTL_S, out, cap));
}

/* Whether an equal report was made a moment ago: clients ask for A and AAAA, and ask again. */
static bool is_repeated(struct atoll_dns *dns, const char *name, uint8_t end)
{
    int64_t now_ms = atoll_loop_now_ms(dns->box->egress->loop);
    uint32_t what = end;

    for (const char *p = name; *p; p++)
        what = (what ^ (uint8_t)*p) * 16777619u;
    for (size_t i = 0; i < ATOLL_DNS_RECENT; i++)
        if (dns->recent[i].at_ms + REPORT_AGAIN_MS > now_ms && dns->recent[i].what == what &&
            dns->recent[i].at_ms > 0)
            return true;
    dns->recent[dns->next_recent++ % ATOLL_DNS_RECENT] =
        (struct atoll_dns_recent){.what = what, .at_ms = now_ms};
    return false;
}

static void report(struct atoll_dns_query *query, enum atoll_egress_end end, const char *rule,
                   const char *hint, int errnum)
{
    struct atoll_box *box = query->dns->box;

    if (is_repeated(query->dns, query->question.name, (uint8_t)end))
        return;
    box->stats.denied += end == ATOLL_EGRESS_DENIED;
    atoll_box_report(box, &(struct atoll_em_connection){
                              .number = ++box->numbers,
                              .end = (uint8_t)end,
                              .dns = 1,
                              .started_unix_ms = query->started_unix_ms,
                              .ended_unix_ms = atoll_clock_unix_ms(),
                              .name = query->question.name,
                              .rule = rule,
                              .hint = hint,
                              .errnum = errnum,
                          });
}

static void report_decision(struct atoll_dns_query *query, enum atoll_egress_end end,
                            const struct atoll_network_decision *decision, const char *hint)
{
    char rule[ATOLL_EGRESS_RULE_MAX];

    atoll_box_print_rule(query->dns->box, decision, rule);
    report(query, end, rule, hint, 0);
}

/* Leaves out internal addresses that the operator does not permit: a name outside can lead anywhere
 * (DNS rebinding). Connections are decided by their address in any case. */
static size_t without_internal(struct atoll_dns_query *query, const struct in6_addr *addresses,
                               size_t count, struct in6_addr *ret,
                               struct atoll_network_decision *ret_denied)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        struct atoll_network_decision d =
            atoll_box_decide(query->dns->box, query->question.name, &addresses[i], 0);
        if (!d.allow && d.reason == ATOLL_NETWORK_BY_INTERNAL)
            *ret_denied = d;
        else
            ret[kept++] = addresses[i];
    }
    return kept;
}

static void remember(struct atoll_dns_query *query, const struct in6_addr *addresses, size_t count)
{
    struct atoll_box *box = query->dns->box;
    int64_t now_ms = atoll_loop_now_ms(box->egress->loop);

    /* Without memory connections to it are decided by their address. */
    for (size_t i = 0; i < count; i++)
        (void)!atoll_names_add(box->names, query->question.name, &addresses[i],
                               ATOLL_DNS_TTL_S * 1000, now_ms);
}

/* A name whose requests go elsewhere, or have a fixed answer, need not exist: it gets an address that no
 * server has (RFC 5737), and its connections are told apart by their name. */
static bool answer_transformed(struct atoll_dns_query *query)
{
    static const struct in6_addr nowhere = {
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1}};

    if (!atoll_network_goes_elsewhere(query->dns->box->policy, query->question.name))
        return false;
    remember(query, &nowhere, 1);
    answer_addresses(query, &nowhere, 1);
    return true;
}

static void answer_error(struct atoll_dns_query *query, int error)
{
    report(query, ATOLL_EGRESS_UNRESOLVED, "", "", -error);
    answer_empty(query, error == -ENOENT    ? ATOLL_DNS_NXDOMAIN
                        : error == -ENODATA ? ATOLL_DNS_NOERROR
                                            : ATOLL_DNS_SERVFAIL);
}

/* The question is answered, from a callback of the resolver or the forwarder. */
static void finish(struct atoll_dns_query *query)
{
    struct atoll_dns_stream *stream = query->to.stream;

    atoll_dns_query_free(query);
    if (stream)
        atoll_dns_stream_answered(stream);
}

static void on_addresses(void *arg, const struct in6_addr *addresses, size_t count, int error)
{
    struct atoll_dns_query *query = arg;
    struct in6_addr kept[ATOLL_LOOKUP_MAX];
    struct atoll_network_decision denied;
    size_t kept_count = without_internal(query, addresses, count, kept, &denied);

    query->lookup = NULL;
    if (count == 0 && !answer_transformed(query)) {
        answer_error(query, error);
    } else if (count > 0) {
        if (kept_count == 0)
            report_decision(query, ATOLL_EGRESS_DENIED, &denied, "");
        remember(query, kept, kept_count);
        answer_addresses(query, kept, kept_count);
    }
    finish(query);
}

static void on_answer(void *arg, const struct atoll_dns_answer *answer)
{
    static uint8_t out[ATOLL_DNS_MESSAGE_MAX]; /* loop thread only */
    struct atoll_dns_query *query = arg;

    query->forward = NULL;
    if (answer) {
        if (answer->rcode != ATOLL_DNS_NOERROR)
            report(query, ATOLL_EGRESS_UNRESOLVED, "", "",
                   answer->rcode == ATOLL_DNS_NXDOMAIN ? ENOENT : EAGAIN);
        atoll_dns_send(query->dns, &query->to, out,
                       atoll_dns_write_answer(&query->question, answer, out, limit_of(query)));
    } else {
        answer_error(query, -EAGAIN);
    }
    finish(query);
}

static bool is_below(const char *name, const char *domain)
{
    size_t n = strlen(name), k = strlen(domain);

    return n >= k && strcmp(name + n - k, domain) == 0 && (n == k || name[n - k - 1] == '.');
}

/* Whether getaddrinfo() would read it as an address: the last label is a number (RFC 1123 2.1). */
static bool is_number(const char *name)
{
    const char *last = strrchr(name, '.');

    last = last ? last + 1 : name;
    return last[0] == '0' && last[1] == 'x' ? true : last[strspn(last, "0123456789")] == '\0';
}

static bool is_host_name(const char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
            return false;
    return true;
}

static bool is_internal_pointer(const struct atoll_dns_query *query)
{
    struct in6_addr address;
    struct atoll_network_decision d;

    if (!atoll_dns_reverse_address(query->question.name, &address))
        return false;
    d = atoll_box_decide(query->dns->box, NULL, &address, 0);
    return !d.allow && d.reason == ATOLL_NETWORK_BY_INTERNAL;
}

/* A sandbox of the same network has one IPv4 address. */
static void answer_peer(struct atoll_dns_query *query)
{
    const struct atoll_box *peer = atoll_peers_by_name(query->dns->box, query->question.name);
    struct in6_addr address;

    if (!peer) {
        answer_empty(query, ATOLL_DNS_NXDOMAIN);
        return;
    }
    atoll_peers_address(peer, &address);
    if (query->question.type == ATOLL_DNS_A)
        answer_addresses(query, &address, 1);
    else
        answer_empty(query, ATOLL_DNS_NOERROR);
}

/* Names with a meaning of their own (RFC 6761, and ours). Returns whether it is one; it is answered
 * then. */
static bool answer_special(struct atoll_dns_query *query)
{
    static const struct in6_addr local[] = {
        {.s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}},
        {.s6_addr = {[15] = 1}},
    };
    const char *name = query->question.name;

    if (is_below(name, "localhost") && source_of(query->question.type) == SOURCE_RESOLVER)
        answer_addresses(query, local, ATOLL_ARRAY_LEN(local));
    else if (is_below(name, "localhost"))
        answer_empty(query, ATOLL_DNS_NOERROR);
    else if (!*name)
        answer_empty(query, ATOLL_DNS_REFUSED);
    else if (is_below(name, "internal") || (!strchr(name, '.') && !is_number(name)))
        answer_peer(query);
    else if (is_number(name) || is_internal_pointer(query))
        answer_empty(query, ATOLL_DNS_NXDOMAIN);
    else
        return false;
    return true;
}

/* Whether the limits let the question pass; it is answered otherwise. */
static bool pass_guard(struct atoll_dns_query *query)
{
    struct atoll_dns *dns = query->dns;
    const struct atoll_network_policy *policy = dns->box->policy;
    const char *name = query->question.name;
    int64_t now_ms = atoll_loop_now_ms(dns->box->egress->loop);
    struct atoll_network_decision d = atoll_network_decide_name(policy, name);
    bool is_listed =
        d.allow && d.reason == ATOLL_NETWORK_BY_RULE && policy->rules[d.rule].target.domain;
    bool is_forwarded = source_of(query->question.type) == SOURCE_SERVERS;

    if (is_forwarded && !d.allow) {
        report(query, ATOLL_EGRESS_DENIED, "only addresses are allowed, not this name", name, 0);
    } else if (!is_listed && !atoll_dns_guard_admit(&dns->guard, name, d.allow, now_ms)) {
        report(query, ATOLL_EGRESS_LIMITED, "limit of DNS names", name, 0);
    } else if (is_forwarded && !atoll_dns_guard_forward(&dns->guard, now_ms)) {
        report(query, ATOLL_EGRESS_LIMITED, "limit of DNS questions", "", 0);
    } else {
        return true;
    }
    answer_empty(query, ATOLL_DNS_REFUSED);
    return false;
}

/* Starts to ask; SERVFAIL when too much is under way. */
static bool ask(struct atoll_dns_query *query)
{
    struct atoll_box *box = query->dns->box;
    struct atoll_resolver *resolver = box->egress->resolver;

    if (query->dns->pending > ATOLL_DNS_PENDING_MAX)
        return false;
    if (source_of(query->question.type) == SOURCE_RESOLVER)
        query->lookup =
            atoll_resolver_ask(resolver, box->tenant, query->question.name, on_addresses, query);
    else
        query->forward = atoll_forwarder_ask(atoll_resolver_forwarder(resolver), box->tenant,
                                             &query->question, on_answer, query);
    return query->lookup || query->forward;
}

/* Returns whether the answer comes later. */
static bool begin(struct atoll_dns_query *query)
{
    const char *name = query->question.name;
    enum source source = source_of(query->question.type);
    struct atoll_network_decision d;

    if (source == SOURCE_NONE) {
        answer_empty(query, ATOLL_DNS_NOTIMP);
        return false;
    }
    if (answer_special(query))
        return false;
    d = atoll_box_decide(query->dns->box, name, NULL, 0);
    if (!d.allow) {
        report_decision(query, ATOLL_EGRESS_DENIED, &d,
                        d.reason == ATOLL_NETWORK_BY_OPERATOR ? "" : name);
        answer_empty(query, ATOLL_DNS_NXDOMAIN);
        return false;
    }
    if (!pass_guard(query))
        return false;
    if (source == SOURCE_NO_DATA) {
        answer_empty(query, ATOLL_DNS_NOERROR);
        return false;
    }
    if (source == SOURCE_RESOLVER && !is_host_name(name)) {
        answer_empty(query, ATOLL_DNS_NXDOMAIN);
        return false;
    }
    if (ask(query))
        return true;
    answer_empty(query, ATOLL_DNS_SERVFAIL);
    return false;
}

int atoll_dns_take(struct atoll_dns *dns, const uint8_t *bytes, size_t n,
                   const struct atoll_dns_reply *to, struct atoll_list *list)
{
    struct atoll_dns_query *query = calloc(1, sizeof(*query));
    int r;

    if (!query)
        return 0;
    query->dns = dns;
    query->to = *to;
    query->started_unix_ms = atoll_clock_unix_ms();
    r = atoll_dns_parse_question(bytes, n, &query->question);
    if (r < 0) {
        free(query);
        return r;
    }
    dns->box->stats.queries++;
    dns->pending++;
    atoll_list_push_back(list, &query->node);
    if (r > 0)
        answer_empty(query, (unsigned)r);
    if (r > 0 || !begin(query))
        atoll_dns_query_free(query);
    return 0;
}
