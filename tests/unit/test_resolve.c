/* Lookups of addresses, their cache and shares; questions that name servers are asked. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dns_server.h"
#include "egress/forward.h"
#include "egress/resolve.h"

static struct atoll_loop *loop;

/* What a worker is asked: names are counted; a name that begins with "slow" waits for the gate. */
static atomic_uint looked;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static int look(const char *name, struct in6_addr *ret, size_t cap)
{
    atomic_fetch_add(&looked, 1);
    assert_int_equal(cap, ATOLL_LOOKUP_MAX);
    if (strncmp(name, "slow", 4) == 0) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    }
    if (strncmp(name, "nowhere", 7) == 0)
        return -ENOENT;
    ret[0] = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}};
    ret[1] = (struct in6_addr){.s6_addr = {0x20, 1, 0x0d, 0xb8, [15] = (uint8_t)name[0]}};
    return 2;
}

struct heard {
    unsigned times;
    size_t count;
    int error;
    uint8_t last;
};

static void on_lookup(void *arg, const struct in6_addr *addresses, size_t count, int error)
{
    struct heard *heard = arg;

    heard->times++;
    heard->count = count;
    heard->error = error;
    heard->last = count > 0 ? addresses[count - 1].s6_addr[15] : 0;
}

static void step_until(const unsigned *times, unsigned wanted)
{
    for (int i = 0; *times < wanted && i < 2000; i++)
        assert_true(atoll_loop_step(loop, 10, NULL) >= 0);
    assert_int_equal(*times, wanted);
}

static struct atoll_resolver *new_resolver(const struct atoll_resolver_config *config)
{
    struct atoll_resolver *r = NULL;

    assert_int_equal(atoll_resolver_new(loop, config, &r, NULL), 0);
    return r;
}

static void test_cache(void **state)
{
    const struct atoll_resolver_config config = {.look = look};
    struct atoll_resolver *r = new_resolver(&config);
    struct heard heard = {0};

    (void)state;
    looked = 0;
    assert_non_null(atoll_resolver_ask(r, "t", "a.test", on_lookup, &heard));
    assert_int_equal(heard.times, 0);
    step_until(&heard.times, 1);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.last, 'a');
    /* From the cache: also for another tenant, and never before the call returns. */
    assert_non_null(atoll_resolver_ask(r, "u", "a.test", on_lookup, &heard));
    assert_int_equal(heard.times, 1);
    step_until(&heard.times, 2);
    assert_int_equal(looked, 1);
    assert_non_null(atoll_resolver_ask(r, "t", "nowhere.test", on_lookup, &heard));
    step_until(&heard.times, 3);
    assert_int_equal(heard.count, 0);
    assert_int_equal(heard.error, -ENOENT);
    assert_non_null(atoll_resolver_ask(r, "t", "nowhere.test", on_lookup, &heard));
    step_until(&heard.times, 4);
    assert_int_equal(looked, 2);
    atoll_resolver_free(r);
}

static void test_expiry(void **state)
{
    const struct atoll_resolver_config config = {.look = look, .kept_ms = 1};
    struct atoll_resolver *r = new_resolver(&config);
    struct heard heard = {0};

    (void)state;
    looked = 0;
    assert_non_null(atoll_resolver_ask(r, "t", "a.test", on_lookup, &heard));
    step_until(&heard.times, 1);
    usleep(3000);
    assert_true(atoll_loop_step(loop, 0, NULL) >= 0);
    assert_non_null(atoll_resolver_ask(r, "t", "a.test", on_lookup, &heard));
    step_until(&heard.times, 2);
    assert_int_equal(looked, 2);
    atoll_resolver_free(r);
}

static void test_equal_lookups_are_one(void **state)
{
    const struct atoll_resolver_config config = {.look = look};
    struct atoll_resolver *r = new_resolver(&config);
    struct heard heard = {0}, cancelled = {0};
    struct atoll_lookup *lookup;

    (void)state;
    looked = 0;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 10; i++)
        assert_non_null(atoll_resolver_ask(r, "t", "slow.test", on_lookup, &heard));
    lookup = atoll_resolver_ask(r, "t", "slow.test", on_lookup, &cancelled);
    assert_non_null(lookup);
    assert_null(atoll_lookup_cancel(lookup));
    pthread_mutex_unlock(&gate);
    step_until(&heard.times, 10);
    assert_int_equal(looked, 1);
    assert_int_equal(cancelled.times, 0);
    atoll_resolver_free(r);
}

/* One tenant's lookups wait for silent servers; another tenant is answered meanwhile. */
static void test_shares(void **state)
{
    const struct atoll_resolver_config config = {.look = look};
    struct atoll_resolver *r = new_resolver(&config);
    struct heard slow = {0}, other = {0}, same = {0};
    unsigned taken = 0;
    char name[32];

    (void)state;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 2 * ATOLL_RESOLVER_LOOKUPS; i++) {
        (void)snprintf(name, sizeof(name), "slow%d.test", i);
        taken += atoll_resolver_ask(r, "greedy", name, on_lookup, &slow) != NULL;
    }
    assert_int_equal(taken, ATOLL_RESOLVER_LOOKUPS);
    assert_non_null(atoll_resolver_ask(r, "modest", "quick.test", on_lookup, &other));
    step_until(&other.times, 1);
    assert_int_equal(slow.times, 0);
    /* A name that the other tenant waits for is looked up at once, too. */
    assert_non_null(atoll_resolver_ask(r, "modest", "slow1000.test", on_lookup, &same));
    pthread_mutex_unlock(&gate);
    step_until(&same.times, 1);
    step_until(&slow.times, taken);
    atoll_resolver_free(r);
}

static void test_end_while_asking(void **state)
{
    const struct atoll_resolver_config config = {.look = look};
    struct atoll_resolver *r = new_resolver(&config);
    struct heard heard = {0};
    struct atoll_lookup *cached, *asking;

    (void)state;
    assert_non_null(atoll_resolver_ask(r, "t", "a.test", on_lookup, &heard));
    step_until(&heard.times, 1);
    cached = atoll_resolver_ask(r, "t", "a.test", on_lookup, &heard);
    asking = atoll_resolver_ask(r, "t", "b.test", on_lookup, &heard);
    assert_non_null(cached);
    assert_non_null(asking);
    atoll_resolver_free(r);
    atoll_lookup_cancel(cached);
    atoll_lookup_cancel(asking);
    assert_int_equal(heard.times, 1);
}

/* The host's own resolver. */
static void test_host(void **state)
{
    struct atoll_resolver *r = new_resolver(NULL);
    struct heard heard = {0};

    (void)state;
    assert_non_null(atoll_resolver_ask(r, "t", "localhost", on_lookup, &heard));
    step_until(&heard.times, 1);
    assert_true(heard.count >= 1);
    assert_int_equal(heard.last, 1);
    assert_null(atoll_resolver_free(r));
}

struct told {
    unsigned times;
    bool answered;
    unsigned rcode;
    size_t length;
};

static struct atoll_dns_question question(const char *name)
{
    uint8_t m[300] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00";
    struct atoll_dns_question q;
    size_t at = 12;

    for (const char *p = name; *p; p += p[strcspn(p, ".")] ? strcspn(p, ".") + 1 : strlen(p)) {
        m[at] = (uint8_t)strcspn(p, ".");
        memcpy(m + at + 1, p, m[at]);
        at += m[at] + 1u;
    }
    m[at++] = 0;
    memcpy(m + at, "\0\x10\0\1", 4);
    assert_int_equal(atoll_dns_parse_question(m, at + 4, &q), 0);
    return q;
}

static void on_forward(void *arg, const struct atoll_dns_answer *answer)
{
    struct told *told = arg;

    told->times++;
    told->answered = answer != NULL;
    told->rcode = answer ? answer->rcode : 0;
    told->length = answer ? answer->kept : 0;
}

static struct told forward(struct atoll_forwarder *f, const char *name)
{
    struct atoll_dns_question q = question(name);
    struct told told = {0};

    assert_non_null(atoll_forwarder_ask(f, "t", &q, on_forward, &told));
    assert_int_equal(told.times, 0);
    step_until(&told.times, 1);
    return told;
}

static struct atoll_forwarder *new_forwarder(const struct dns_server *s)
{
    struct atoll_forwarder *f = NULL;

    assert_int_equal(atoll_forwarder_new(loop, s->resolv_conf, s->port, &f, NULL), 0);
    return f;
}

static void test_forward(void **state)
{
    struct dns_server s;
    struct atoll_forwarder *f;
    struct told told;

    (void)state;
    dns_server_start(&s, loop);
    f = new_forwarder(&s);
    told = forward(f, "text.test");
    assert_true(told.answered && told.rcode == 0);
    assert_int_equal(told.length, 12 + 11 + 4 + 12 + 6);
    told = forward(f, "forged.test");
    assert_true(told.answered);
    told = forward(f, "nowhere.test");
    assert_true(told.answered && told.rcode == ATOLL_DNS_NXDOMAIN);
    assert_int_equal(s.asked, 3);
    told = forward(f, "fails.test");
    assert_true(told.answered && told.rcode == ATOLL_DNS_SERVFAIL);
    assert_int_equal(s.asked, 3 + ATOLL_FORWARD_ROUNDS);
    told = forward(f, "big.test");
    assert_true(told.answered);
    assert_in_range(told.length, 3000, 3200);
    atoll_forwarder_free(f);
    dns_server_stop(&s);
}

static void test_equal_questions_are_one(void **state)
{
    struct atoll_dns_question q = question("text.test");
    struct dns_server s;
    struct atoll_forwarder *f;
    struct told told = {0};

    (void)state;
    dns_server_start(&s, loop);
    f = new_forwarder(&s);
    for (int i = 0; i < 5; i++)
        assert_non_null(atoll_forwarder_ask(f, "t", &q, on_forward, &told));
    assert_non_null(atoll_forwarder_ask(f, "u", &q, on_forward, &told));
    assert_null(atoll_forward_cancel(atoll_forwarder_ask(f, "t", &q, on_forward, &told)));
    step_until(&told.times, 6);
    assert_int_equal(s.asked, 2);
    atoll_forwarder_free(f);
    dns_server_stop(&s);
}

static void test_forward_shares(void **state)
{
    static struct atoll_forward *asked[2 * ATOLL_FORWARD_MAX];
    struct dns_server s;
    struct atoll_forwarder *f;
    struct told told = {0}, other = {0};
    struct atoll_dns_question q;
    unsigned taken = 0;
    char name[32];

    (void)state;
    dns_server_start(&s, loop);
    f = new_forwarder(&s);
    for (int i = 0; i < 2 * ATOLL_FORWARD_MAX; i++) {
        (void)snprintf(name, sizeof(name), "silent%d.test", i);
        q = question(name);
        asked[i] = atoll_forwarder_ask(f, "greedy", &q, on_forward, &told);
        taken += asked[i] != NULL;
        if (i % 32 == 0) /* the server's buffer is small */
            assert_true(atoll_loop_step(loop, 0, NULL) >= 0);
    }
    assert_int_equal(taken, ATOLL_FORWARD_MAX);
    q = question("text.test");
    assert_non_null(atoll_forwarder_ask(f, "modest", &q, on_forward, &other));
    step_until(&other.times, 1);
    assert_true(other.answered);
    assert_int_equal(told.times, 0);
    atoll_forwarder_free(f);
    for (size_t n = 0; n < ATOLL_ARRAY_LEN(asked); n++)
        atoll_forward_cancel(asked[n]);
    dns_server_stop(&s);
}

/* No server is there: that is known at once. A file that changes is read again. */
static void test_servers_change(void **state)
{
    struct dns_server s;
    struct atoll_forwarder *f;
    struct told told;
    FILE *conf;

    (void)state;
    dns_server_start(&s, loop);
    f = new_forwarder(&s);
    conf = fopen(s.resolv_conf, "w");
    fprintf(conf, "nameserver 127.0.0.2\nnameserver nonsense\n");
    fclose(conf);
    told = forward(f, "text.test");
    assert_false(told.answered);
    conf = fopen(s.resolv_conf, "w");
    fprintf(conf, "nameserver 127.0.0.2\nnameserver 127.0.0.1 \n");
    fclose(conf);
    told = forward(f, "text.test");
    assert_true(told.answered);
    atoll_forwarder_free(f);
    dns_server_stop(&s);
}

static int open_loop(void **state)
{
    (void)state;
    return atoll_loop_new(&loop, NULL);
}

static int close_loop(void **state)
{
    (void)state;
    atoll_loop_free(loop);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_equal_lookups_are_one),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_end_while_asking),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_equal_questions_are_one),
        cmocka_unit_test(test_forward_shares),
        cmocka_unit_test(test_servers_change),
    };
    return cmocka_run_group_tests(tests, open_loop, close_loop);
}
