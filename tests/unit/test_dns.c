/*
 * The DNS server of a sandbox, by UDP and TCP: policy, rebinding, limits, events. The resolver is a
 * function of the test; other types are asked of a name server of the test.
 */
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dns_server.h"
#include "egress/box.h"
#include "egress/dns.h"
#include "egress/dns_guard.h"
#include "egress/dns_wire.h"
#include "egress/host_addresses.h"
#include "egress/peers.h"
#include "egress/report.h"

#define V4(a, b, c, d)                                              \
    {                                                               \
        .s6_addr = { [10] = 0xff, [11] = 0xff, (a), (b), (c), (d) } \
    }

static atomic_uint looked;

/* What the host's resolver says; on a worker. */
static int look(const char *name, struct in6_addr *ret, size_t cap)
{
    static const struct {
        const char *name;
        int count;
        struct in6_addr list[2];
    } names[] = {
        {"www.example.org", 2, {V4(192, 0, 2, 1), {.s6_addr = {0x20, 1, 0x0d, 0xb8, [15] = 1}}}},
        {"v4.example.org", 1, {V4(192, 0, 2, 4)}},
        {"mixed.test", 2, {V4(192, 0, 2, 8), V4(127, 0, 0, 1)}},
        {"inside.test", 1, {V4(10, 1, 2, 3)}},
        {"metadata.test", 1, {V4(169, 254, 169, 254)}},
        {"nowhere.test", -ENOENT, {{{{0}}}}},
        {"nodata.test", -ENODATA, {{{{0}}}}},
        {"broken.test", -EAGAIN, {{{{0}}}}},
    };
    unsigned n = atomic_fetch_add(&looked, 1);

    (void)cap;
    if (strcmp(name, "rebind.test") == 0) { /* outside at first, inside then */
        ret[0] = n == 0 ? (struct in6_addr)V4(192, 0, 2, 7) : (struct in6_addr)V4(10, 0, 0, 7);
        return 1;
    }
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i].name) != 0)
            continue;
        memcpy(ret, names[i].list, sizeof(names[i].list));
        return names[i].count;
    }
    ret[0] = (struct in6_addr)V4(192, 0, 2, 99);
    return 1;
}

/* One sandbox with its sockets. */
struct place {
    struct atoll_egress egress;
    struct atoll_box *box;
    struct dns_server server;
    int client;
};

/* Of every address, as in sys/netspace.h. The client asks one that the kernel would not answer from by
 * itself, and is connected to it: it gets no answer from another one. */
static int open_udp(struct sockaddr_in *ret)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    socklen_t len = sizeof(any);
    const int off = 0, on = 1;
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_int_equal(setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &off, sizeof(off)), 0);
    assert_int_equal(setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&any, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
    *ret = (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = any.sin6_port,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 4)};
    return fd;
}

static json_t *json(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);

    assert_non_null(value);
    return value;
}

static struct atoll_network_policy *policy_of(const char *text)
{
    struct atoll_network_policy *policy = NULL;
    json_t *value = json(text);

    assert_int_equal(atoll_network_policy_parse(value, &policy, NULL), 0);
    json_decref(value);
    return policy;
}

static struct atoll_network_bound *bound_of(const char *text)
{
    struct atoll_network_bound *bound = NULL;
    json_t *value = json(text);

    assert_int_equal(atoll_network_bound_parse(value, &bound, NULL), 0);
    json_decref(value);
    return bound;
}

static void start(struct place *p, const char *policy, const char *bound)
{
    const struct atoll_em_put put = {.id = "box1", .tenant = "t", .name = ""};
    struct sockaddr_in at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), udp = open_udp(&at);

    memset(p, 0, sizeof(*p));
    looked = 0;
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(atoll_loop_new(&p->egress.loop, NULL), 0);
    dns_server_start(&p->server, p->egress.loop);
    assert_int_equal(
        atoll_resolver_new(p->egress.loop,
                           &(struct atoll_resolver_config){.look = look,
                                                           .resolv_conf = p->server.resolv_conf,
                                                           .port = p->server.port,
                                                           .kept_ms = 1},
                           &p->egress.resolver, NULL),
        0);
    assert_int_equal(atoll_host_addresses_open(p->egress.loop, &p->egress.host, NULL), 0);
    p->egress.reports = atoll_reports_new();
    atoll_map_init(&p->egress.boxes);
    atoll_shares_init(&p->egress.shares, 100);
    assert_int_equal(
        atoll_box_open(&p->egress, &put, listener, udp, policy_of(policy), bound_of(bound), NULL),
        0);
    p->box = atoll_map_get(&p->egress.boxes, "box1");
    p->client = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p->client, (struct sockaddr *)&at, sizeof(at)), 0);
}

static void stop(struct place *p)
{
    atoll_box_remove(p->box);
    (void)close(p->client);
    atoll_resolver_free(p->egress.resolver);
    atoll_host_addresses_close(p->egress.host);
    atoll_reports_free(p->egress.reports);
    atoll_peers_done(&p->egress);
    dns_server_stop(&p->server);
    atoll_map_done(&p->egress.boxes);
    atoll_shares_done(&p->egress.shares);
    atoll_loop_free(p->egress.loop);
}

static void step(struct place *p)
{
    assert_true(atoll_loop_step(p->egress.loop, 10, NULL) >= 0);
}

static size_t write_question(const char *name, unsigned type, bool edns, uint8_t *m)
{
    size_t at = 12;

    memcpy(m, "\x12\x34\x01\x00\0\1\0\0\0\0\0\0", 12);
    for (const char *p = name; *p; p += p[strcspn(p, ".")] ? strcspn(p, ".") + 1 : strlen(p)) {
        m[at] = (uint8_t)strcspn(p, ".");
        memcpy(m + at + 1, p, m[at]);
        at += m[at] + 1u;
    }
    m[at++] = 0;
    m[at++] = (uint8_t)(type >> 8);
    m[at++] = (uint8_t)type;
    m[at++] = 0;
    m[at++] = 1;
    if (edns) {
        m[11] = 1;
        memcpy(m + at, "\0\0\x29\x10\0\0\0\0\0\0\0", 11);
        at += 11;
    }
    return at;
}

struct answer {
    int rcode;
    unsigned count;
    bool truncated;
    uint8_t bytes[4096];
    size_t n;
};

static struct answer answer_of(const uint8_t *m, ssize_t n)
{
    struct answer a = {.n = (size_t)n};

    assert_true(n >= 12);
    memcpy(a.bytes, m, (size_t)n);
    assert_memory_equal(m, "\x12\x34", 2);
    a.rcode = m[3] & 15;
    a.count = m[7];
    a.truncated = m[2] & 2;
    return a;
}

static struct answer ask(struct place *p, const char *name, unsigned type)
{
    uint8_t m[4096];
    size_t n = write_question(name, type, false, m);
    ssize_t got = -1;

    assert_int_equal(send(p->client, m, n, 0), n);
    for (int i = 0; i < 1000 && got < 0; i++) {
        step(p);
        got = recv(p->client, m, sizeof(m), 0);
    }
    return answer_of(m, got);
}

/* The last address of an answer, as text. */
static const char *last_address(const struct answer *a, int family)
{
    static char text[INET6_ADDRSTRLEN];

    assert_true(a->count > 0);
    return inet_ntop(family, a->bytes + a->n - (family == AF_INET ? 4 : 16), text, sizeof(text));
}

/* The next event has this end and name; its rule and hint are as given. */
static void expect_event(struct place *p, int end, const char *name, const char *rule,
                         const char *hint)
{
    const struct atoll_em_connection *event = atoll_reports_first(p->egress.reports);

    assert_non_null(event);
    assert_int_equal(event->dns, 1);
    assert_int_equal(event->end, end);
    assert_string_equal(event->name, name);
    assert_string_equal(event->rule, rule);
    assert_string_equal(event->hint, hint);
    assert_true(event->number > 0 && event->started_unix_ms <= event->ended_unix_ms);
    atoll_reports_pop(p->egress.reports);
}

static void expect_no_event(struct place *p)
{
    assert_null(atoll_reports_first(p->egress.reports));
}

#define ALLOW_ALL "{\"default\":\"allow\"}"

static void test_addresses(void **state)
{
    struct place p;
    struct answer a;
    struct in6_addr address = V4(192, 0, 2, 1);

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    a = ask(&p, "WWW.Example.org", ATOLL_DNS_A);
    assert_int_equal(a.rcode, 0);
    assert_int_equal(a.count, 1);
    assert_string_equal(last_address(&a, AF_INET), "192.0.2.1");
    a = ask(&p, "www.example.org", ATOLL_DNS_AAAA);
    assert_string_equal(last_address(&a, AF_INET6), "2001:db8::1");
    assert_true(atoll_names_has(p.box->names, "www.example.org", &address,
                                atoll_loop_now_ms(p.egress.loop)));
    a = ask(&p, "v4.example.org", ATOLL_DNS_AAAA);
    assert_true(a.rcode == 0 && a.count == 0);
    assert_int_equal(p.box->stats.queries, 3);
    stop(&p);
}

static void test_failures(void **state)
{
    static const struct {
        const char *name;
        int rcode;
    } cases[] = {{"nowhere.test", ATOLL_DNS_NXDOMAIN},
                 {"nodata.test", ATOLL_DNS_NOERROR},
                 {"broken.test", ATOLL_DNS_SERVFAIL}};
    struct place p;
    struct answer a;

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        a = ask(&p, cases[i].name, ATOLL_DNS_A);
        assert_int_equal(a.rcode, cases[i].rcode);
        assert_int_equal(a.count, 0);
        expect_event(&p, ATOLL_EGRESS_UNRESOLVED, cases[i].name, "", "");
    }
    stop(&p);
}

static void test_denied(void **state)
{
    struct place p;
    struct answer a;

    (void)state;
    start(&p, "{\"deny\":[\"v4.example.org\"],\"allow\":[\"*.example.org\"]}",
          "{\"deny\":[\"www.operator.test\"]}");
    a = ask(&p, "www.example.org", ATOLL_DNS_A); /* the control */
    assert_int_equal(a.count, 1);
    looked = 0;
    a = ask(&p, "other.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    expect_event(&p, ATOLL_EGRESS_DENIED, "other.test", "default", "other.test");
    a = ask(&p, "other.test", ATOLL_DNS_AAAA);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    expect_no_event(&p);
    a = ask(&p, "example.org", ATOLL_DNS_TXT);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    expect_event(&p, ATOLL_EGRESS_DENIED, "example.org", "default", "example.org");
    a = ask(&p, "v4.example.org", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    expect_event(&p, ATOLL_EGRESS_DENIED, "v4.example.org", "deny v4.example.org",
                 "v4.example.org");
    a = ask(&p, "www.operator.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    expect_event(&p, ATOLL_EGRESS_DENIED, "www.operator.test", "operator: deny www.operator.test",
                 "");
    /* Nothing of that left the host. */
    assert_int_equal(looked, 0);
    assert_int_equal(p.server.asked, 0);
    assert_int_equal(p.box->stats.denied, 4);
    stop(&p);
}

static void test_rebinding(void **state)
{
    struct in6_addr address = V4(10, 0, 0, 7);
    struct place p;
    struct answer a;

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    a = ask(&p, "rebind.test", ATOLL_DNS_A);
    assert_string_equal(last_address(&a, AF_INET), "192.0.2.7");
    usleep(3000); /* the cache has forgotten it */
    a = ask(&p, "rebind.test", ATOLL_DNS_A);
    assert_true(a.rcode == 0 && a.count == 0);
    expect_event(&p, ATOLL_EGRESS_DENIED, "rebind.test", "internal address", "");
    assert_false(
        atoll_names_has(p.box->names, "rebind.test", &address, atoll_loop_now_ms(p.egress.loop)));
    a = ask(&p, "mixed.test", ATOLL_DNS_A);
    assert_int_equal(a.count, 1);
    assert_string_equal(last_address(&a, AF_INET), "192.0.2.8");
    a = ask(&p, "metadata.test", ATOLL_DNS_A);
    assert_int_equal(a.count, 0);
    a = ask(&p, "inside.test", ATOLL_DNS_A);
    assert_int_equal(a.count, 0);
    stop(&p);

    /* The operator permits it, for one port. */
    start(&p, ALLOW_ALL, "{\"internal\":[\"10.1.0.0/16:5432\"]}");
    a = ask(&p, "inside.test", ATOLL_DNS_A);
    assert_string_equal(last_address(&a, AF_INET), "10.1.2.3");
    a = ask(&p, "metadata.test", ATOLL_DNS_A);
    assert_int_equal(a.count, 0);
    stop(&p);
}

static void test_special_names(void **state)
{
    static const struct {
        const char *name;
        unsigned type;
        int rcode;
        unsigned count;
    } cases[] = {
        {"localhost", ATOLL_DNS_A, 0, 1},
        {"app.localhost", ATOLL_DNS_AAAA, 0, 1},
        {"localhost", ATOLL_DNS_MX, 0, 0},
        {"notlocalhost", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"host", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"metadata.google.internal", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"internal", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"192.0.2.1", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"127.1", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"0x7f.0x1", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"fe80::1%eth0.test", ATOLL_DNS_A, ATOLL_DNS_NXDOMAIN, 0},
        {"", ATOLL_DNS_NS, ATOLL_DNS_REFUSED, 0},
        {"1.0.0.10.in-addr.arpa", ATOLL_DNS_PTR, ATOLL_DNS_NXDOMAIN, 0},
        {"www.example.org", ATOLL_DNS_HTTPS, 0, 0},
        {"www.example.org", ATOLL_DNS_SVCB, 0, 0},
        {"www.example.org", 255, ATOLL_DNS_NOTIMP, 0}, /* ANY */
        {"www.example.org", 10, ATOLL_DNS_NOTIMP, 0},  /* NULL, of tunnels */
    };
    struct place p;

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(cases); i++) {
        struct answer a = ask(&p, cases[i].name, cases[i].type);
        if (a.rcode != cases[i].rcode || a.count != cases[i].count)
            fail_msg("%s %u: %d, %u", cases[i].name, cases[i].type, a.rcode, a.count);
    }
    assert_int_equal(looked, 0);
    assert_int_equal(p.server.asked, 0);
    stop(&p);
}

static void test_other_types(void **state)
{
    struct place p;
    struct answer a;

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    a = ask(&p, "text.example.org", ATOLL_DNS_TXT);
    assert_true(a.rcode == 0 && a.count == 1);
    assert_memory_equal(a.bytes + a.n - 6, "\5hello", 6);
    a = ask(&p, "8.2.0.192.in-addr.arpa", ATOLL_DNS_PTR);
    assert_int_equal(a.rcode, 0);
    assert_int_equal(p.server.asked, 2);
    a = ask(&p, "nowhere.example.org", ATOLL_DNS_TXT);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    a = ask(&p, "fails.example.org", ATOLL_DNS_TXT);
    assert_int_equal(a.rcode, ATOLL_DNS_SERVFAIL);
    a = ask(&p, "big.example.org", ATOLL_DNS_TXT);
    assert_true(a.truncated && a.count == 0);
    stop(&p);
}

/* Only addresses are allowed: names are looked up, but tell a name server little. */
static void test_tunnels(void **state)
{
    char name[128];
    struct place p;
    struct answer a;

    (void)state;
    start(&p, "{\"allow\":[\"192.0.2.0/24\",\"*.listed.test\"]}", "{}");
    for (int i = 0; i < ATOLL_DNS_GUARD_NARROW; i++) {
        (void)snprintf(name, sizeof(name), "n%d.a.tunnel.test", i);
        a = ask(&p, name, ATOLL_DNS_A);
        assert_int_equal(a.rcode, 0);
    }
    a = ask(&p, "n0.a.tunnel.test", ATOLL_DNS_A); /* not another name */
    assert_int_equal(a.rcode, 0);
    looked = 0;
    a = ask(&p, "more.b.tunnel.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_REFUSED);
    expect_event(&p, ATOLL_EGRESS_LIMITED, "more.b.tunnel.test", "limit of DNS names",
                 "more.b.tunnel.test");
    a = ask(&p, "0123456789012345678901234567890123456789x.quiet.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_REFUSED);
    a = ask(&p, "text.quiet.test", ATOLL_DNS_TXT);
    assert_int_equal(a.rcode, ATOLL_DNS_REFUSED);
    assert_int_equal(looked, 0);
    assert_int_equal(p.server.asked, 0);
    /* Controls: other domains, and names that a rule names. */
    a = ask(&p, "www.quiet.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, 0);
    for (int i = 0; i < 2 * ATOLL_DNS_GUARD_NARROW; i++) {
        (void)snprintf(name, sizeof(name), "n%d.listed.test", i);
        a = ask(&p, name, ATOLL_DNS_A);
        assert_int_equal(a.rcode, 0);
    }
    a = ask(&p, "0123456789012345678901234567890123456789x.listed.test", ATOLL_DNS_TXT);
    assert_int_equal(a.rcode, 0);
    stop(&p);
}

static void test_guard(void **state)
{
    struct atoll_dns_guard guard;
    char name[64];

    (void)state;
    assert_string_equal(atoll_dns_registered_domain("a.b.example.org"), "example.org");
    assert_string_equal(atoll_dns_registered_domain("example.org"), "example.org");
    assert_string_equal(atoll_dns_registered_domain("a.example.co.uk"), "example.co.uk");
    assert_string_equal(atoll_dns_registered_domain("a.bb.example.de"), "example.de");
    assert_string_equal(atoll_dns_registered_domain("org"), "org");
    assert_string_equal(atoll_dns_registered_domain(""), "");
    atoll_dns_guard_init(&guard);
    for (int i = 0; i < ATOLL_DNS_GUARD_OPEN; i++) {
        (void)snprintf(name, sizeof(name), "n%d.example.org", i);
        assert_true(atoll_dns_guard_admit(&guard, name, true, 1000));
    }
    assert_false(atoll_dns_guard_admit(&guard, "m.example.org", true, 1000));
    for (int i = ATOLL_DNS_GUARD_OPEN; i < ATOLL_DNS_GUARD_ALL; i++) {
        (void)snprintf(name, sizeof(name), "n%d.test", i);
        assert_true(atoll_dns_guard_admit(&guard, name, true, 2000));
    }
    assert_false(atoll_dns_guard_admit(&guard, "one.more", true, 2000));
    /* The window moves on. */
    assert_true(atoll_dns_guard_admit(&guard, "m.example.org", true, 1000 + ATOLL_DNS_WINDOW_MS));
    for (int i = 0; i < ATOLL_DNS_GUARD_FORWARDS; i++)
        assert_true(atoll_dns_guard_forward(&guard, 20000));
    assert_false(atoll_dns_guard_forward(&guard, 20001));
    assert_true(atoll_dns_guard_forward(&guard, 20000 + ATOLL_DNS_WINDOW_MS));
    atoll_dns_guard_done(&guard);
}

/* A policy that is replaced counts from the next question. */
static void test_policy_change(void **state)
{
    struct place p;
    struct answer a;

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    a = ask(&p, "www.example.org", ATOLL_DNS_A);
    assert_int_equal(a.count, 1);
    atoll_box_set_policy(p.box, policy_of("{\"allow\":[\"other.test\"]}"), bound_of("{}"));
    a = ask(&p, "www.example.org", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_NXDOMAIN);
    stop(&p);
}

/* Requests that do not go to the name's server need none. */
static void test_transformed_names(void **state)
{
    struct in6_addr nowhere = V4(192, 0, 2, 1);
    struct place p;
    struct answer a;

    (void)state;
    start(&p,
          "{\"default\":\"allow\",\"transforms\":["
          "{\"domain\":\"nowhere.test\",\"status\":200,\"body\":\"hello\"},"
          "{\"domain\":\"v4.example.org\",\"status\":200},"
          "{\"domain\":\"broken.test\",\"headers\":{\"a\":\"b\"}}]}",
          "{}");
    a = ask(&p, "nowhere.test", ATOLL_DNS_A);
    assert_string_equal(last_address(&a, AF_INET), "192.0.2.1");
    assert_true(
        atoll_names_has(p.box->names, "nowhere.test", &nowhere, atoll_loop_now_ms(p.egress.loop)));
    a = ask(&p, "nowhere.test", ATOLL_DNS_AAAA);
    assert_true(a.rcode == 0 && a.count == 0);
    expect_no_event(&p);
    /* Controls: a name that exists, and one whose requests go to its server. */
    a = ask(&p, "v4.example.org", ATOLL_DNS_A);
    assert_string_equal(last_address(&a, AF_INET), "192.0.2.4");
    a = ask(&p, "broken.test", ATOLL_DNS_A);
    assert_int_equal(a.rcode, ATOLL_DNS_SERVFAIL);
    stop(&p);
}

static void count_end(void *arg)
{
    (*(unsigned *)arg)++;
}

static size_t read_stream(struct place *p, int fd, uint8_t *m, size_t cap)
{
    size_t have = 0;

    for (int i = 0; i < 1000; i++) {
        ssize_t n;
        step(p);
        n = recv(fd, m + have, (have < 2 ? 2 : 2 + (size_t)(m[0] << 8 | m[1])) - have,
                 MSG_DONTWAIT);
        if (n > 0)
            have += (size_t)n;
        assert_true(have <= cap);
        if (n == 0 || (have > 2 && have == 2 + (size_t)(m[0] << 8 | m[1])))
            break;
    }
    return have;
}

static void test_stream(void **state)
{
    uint8_t m[4096], both[600];
    struct atoll_dns_stream *s;
    struct place p;
    struct answer a;
    unsigned ended = 0;
    size_t n, second;
    int pair[2];

    (void)state;
    start(&p, ALLOW_ALL, "{}");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    s = atoll_dns_stream_open(p.box, pair[1], count_end, &ended);
    assert_non_null(s);
    /* Two questions, cut at an odd place. */
    n = write_question("big.example.org", ATOLL_DNS_TXT, true, both + 2);
    both[0] = 0;
    both[1] = (uint8_t)n;
    n += 2;
    second = write_question("www.example.org", ATOLL_DNS_A, true, both + n + 2);
    both[n] = 0;
    both[n + 1] = (uint8_t)second;
    n += 2 + second;
    assert_int_equal(send(pair[0], both, 7, 0), 7);
    step(&p);
    assert_int_equal(send(pair[0], both + 7, n - 7, 0), n - 7);
    for (int i = 0; i < 2; i++) {
        n = read_stream(&p, pair[0], m, sizeof(m));
        a = answer_of(m + 2, (ssize_t)n - 2);
        assert_true(a.rcode == 0 && !a.truncated && a.count == 1);
    }
    assert_int_equal(ended, 0);
    (void)shutdown(pair[0], SHUT_WR);
    assert_int_equal(read_stream(&p, pair[0], m, sizeof(m)), 0);
    assert_int_equal(ended, 1);
    (void)close(pair[0]);

    /* Not a question: the connection ends. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_non_null(atoll_dns_stream_open(p.box, pair[1], count_end, &ended));
    assert_int_equal(send(pair[0], "\0\3abc", 5, 0), 5);
    assert_int_equal(read_stream(&p, pair[0], m, sizeof(m)), 0);
    assert_int_equal(ended, 2);
    (void)close(pair[0]);

    /* Closed by its owner while a question is under way. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    s = atoll_dns_stream_open(p.box, pair[1], count_end, &ended);
    both[1] = (uint8_t)write_question("silent.example.org", ATOLL_DNS_TXT, false, both + 2);
    assert_int_equal(send(pair[0], both, 2u + both[1], 0), 2u + both[1]);
    step(&p);
    step(&p);
    assert_null(atoll_dns_stream_close(s));
    (void)close(pair[0]);

    /* The server closes: the stream ends by itself. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_non_null(atoll_dns_stream_open(p.box, pair[1], count_end, &ended));
    assert_int_equal(send(pair[0], both, 2u + both[1], 0), 2u + both[1]);
    step(&p);
    p.box->dns = atoll_dns_close(p.box->dns);
    assert_int_equal(read_stream(&p, pair[0], m, sizeof(m)), 0);
    assert_int_equal(ended, 3);
    (void)close(pair[0]);
    stop(&p);
}

/* Questions wait for a silent server: there is a bound, and it is told at once. */
static void test_pending_bound(void **state)
{
    struct place p;
    char name[64];
    uint8_t m[512];
    unsigned failed = 0;

    (void)state;
    start(&p, "{\"allow\":[\"*.listed.test\"]}", "{}");
    for (int i = 0; i < ATOLL_DNS_PENDING_MAX + 10; i++) {
        (void)snprintf(name, sizeof(name), "silent%d.listed.test", i);
        (void)!send(p.client, m, write_question(name, ATOLL_DNS_TXT, false, m), 0);
        step(&p);
        if (recv(p.client, m, sizeof(m), 0) > 0)
            failed += (m[3] & 15) == ATOLL_DNS_SERVFAIL || (m[3] & 15) == ATOLL_DNS_REFUSED;
    }
    assert_true(failed >= 10);
    stop(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),     cmocka_unit_test(test_failures),
        cmocka_unit_test(test_denied),        cmocka_unit_test(test_rebinding),
        cmocka_unit_test(test_special_names), cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_tunnels),       cmocka_unit_test(test_guard),
        cmocka_unit_test(test_policy_change), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_pending_bound), cmocka_unit_test(test_transformed_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
