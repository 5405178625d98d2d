/* What DNS told a sandbox: both directions, expiry, bound. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "egress/names.h"
#include "egress/names_kept.h"

static struct in6_addr address(const char *text)
{
    struct in6_addr a;

    assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
    return a;
}

static void add(struct atoll_names *names, const char *name, const char *text, int64_t ttl_ms,
                int64_t now_ms)
{
    struct in6_addr a = address(text);

    assert_int_equal(atoll_names_add(names, name, &a, ttl_ms, now_ms), 0);
}

static bool has(const struct atoll_names *names, const char *name, const char *text, int64_t now_ms)
{
    struct in6_addr a = address(text);

    return atoll_names_has(names, name, &a, now_ms);
}

static size_t find(const struct atoll_names *names, const char *text, int64_t now_ms,
                   const char **ret, size_t cap)
{
    struct in6_addr a = address(text);

    return atoll_names_find(names, &a, now_ms, ret, cap);
}

static void test_both_directions(void **state)
{
    struct atoll_names *names = atoll_names_new(NULL, "", 0);
    const char *found[4];

    (void)state;
    add(names, "a.example.org", "::ffff:192.0.2.1", 60000, 0);
    add(names, "b.example.org", "::ffff:192.0.2.1", 60000, 1);
    add(names, "b.example.org", "2001:db8::1", 60000, 1);
    assert_true(has(names, "a.example.org", "::ffff:192.0.2.1", 2));
    assert_true(has(names, "b.example.org", "2001:db8::1", 2));
    assert_false(has(names, "a.example.org", "2001:db8::1", 2));
    assert_false(has(names, "example.org", "::ffff:192.0.2.1", 2));
    assert_int_equal(find(names, "::ffff:192.0.2.1", 2, found, 4), 2);
    assert_string_equal(found[0], "b.example.org");
    assert_string_equal(found[1], "a.example.org");
    add(names, "a.example.org", "::ffff:192.0.2.1", 60000, 3);
    assert_int_equal(find(names, "::ffff:192.0.2.1", 4, found, 1), 1);
    assert_string_equal(found[0], "a.example.org");
    assert_int_equal(find(names, "::ffff:192.0.2.2", 4, found, 4), 0);
    atoll_names_free(names);
}

static void test_expiry(void **state)
{
    struct atoll_names *names = atoll_names_new(NULL, "", 0);
    const char *found[4];

    (void)state;
    add(names, "short.test", "2001:db8::1", 1000, 0);
    add(names, "long.test", "2001:db8::1", 900 * 1000, 0);
    assert_true(has(names, "short.test", "2001:db8::1", ATOLL_NAMES_KEPT_MS - 1));
    assert_false(has(names, "short.test", "2001:db8::1", ATOLL_NAMES_KEPT_MS));
    assert_int_equal(find(names, "2001:db8::1", ATOLL_NAMES_KEPT_MS, found, 4), 1);
    assert_string_equal(found[0], "long.test");
    /* Another answer makes it younger. */
    add(names, "short.test", "2001:db8::1", 1000, ATOLL_NAMES_KEPT_MS);
    assert_true(has(names, "short.test", "2001:db8::1", 2 * ATOLL_NAMES_KEPT_MS - 1));
    atoll_names_free(names);
}

static void test_bound(void **state)
{
    struct atoll_names *names = atoll_names_new(NULL, "", 0);
    char name[32], text[48];

    (void)state;
    for (unsigned i = 0; i < ATOLL_NAMES_MAX + 2; i++) {
        (void)snprintf(name, sizeof(name), "n%u.test", i);
        (void)snprintf(text, sizeof(text), "2001:db8::%x", i % 3000);
        add(names, name, text, 0, 1);
    }
    assert_false(has(names, "n0.test", "2001:db8::0", 2));
    assert_false(has(names, "n1.test", "2001:db8::1", 2));
    assert_true(has(names, "n2.test", "2001:db8::2", 2));
    assert_true(has(names, name, text, 2));
    /* All of them expire, and go when the next one comes. */
    add(names, "last.test", "2001:db8::ffff", 0, 2 + ATOLL_NAMES_KEPT_MS);
    assert_false(has(names, name, text, 2));
    atoll_names_free(names);
    assert_null(atoll_names_free(NULL));
}

/* The next worker knows what this one has told. */
static void test_kept(void **state)
{
    struct atoll_names_kept *kept = atoll_names_kept_new();
    struct atoll_names *names, *other;
    char name[32];

    (void)state;
    assert_non_null(kept);
    atoll_names_kept_begin(kept, 10);
    names = atoll_names_new(kept, "box1", 10);
    other = atoll_names_new(kept, "box2", 10);
    add(names, "a.test", "2001:db8::1", 0, 20);
    add(other, "b.test", "2001:db8::1", 0, 20);
    atoll_names_free(other);
    /* Not before a worker has died. */
    other = atoll_names_new(kept, "box1", 30);
    assert_false(has(other, "a.test", "2001:db8::1", 30));
    atoll_names_free(other);
    atoll_names_kept_begin(kept, 40);
    other = atoll_names_new(kept, "box1", 50);
    assert_true(has(other, "a.test", "2001:db8::1", 50));
    assert_false(has(other, "b.test", "2001:db8::1", 50));
    atoll_names_free(other);
    /* An answer that is repeated takes no more room; other names do. */
    for (int i = 0; i < ATOLL_NAMES_KEPT; i++)
        add(names, "a.test", "2001:db8::1", 0, 60 + i);
    atoll_names_kept_begin(kept, 10000);
    other = atoll_names_new(kept, "box2", 10001);
    assert_true(has(other, "b.test", "2001:db8::1", 10001));
    atoll_names_free(other);
    for (int i = 0; i < ATOLL_NAMES_KEPT; i++) {
        (void)snprintf(name, sizeof(name), "n%d.test", i);
        add(names, name, "2001:db8::2", 0, 10002);
    }
    atoll_names_kept_begin(kept, 20000);
    other = atoll_names_new(kept, "box2", 20001);
    assert_false(has(other, "b.test", "2001:db8::1", 20001));
    atoll_names_free(other);
    other = atoll_names_new(kept, "box1", 20001);
    assert_true(has(other, name, "2001:db8::2", 20001));
    atoll_names_free(other);
    /* Everything expires. */
    other = atoll_names_new(kept, "box1", 10002 + ATOLL_NAMES_KEPT_MS);
    assert_false(has(other, name, "2001:db8::2", 10002 + ATOLL_NAMES_KEPT_MS));
    atoll_names_free(other);
    atoll_names_free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_expiry),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
