/*
 * What tenants have: sandboxes in the order of lists, at a cost that does not grow with their number, and
 * sums of limits that have bounds.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "engine/engine_internal.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static struct atoll_provider_caps caps;

static const struct atoll_provider_caps *get_caps(struct atoll_provider *p)
{
    (void)p;
    return &caps;
}

static const struct atoll_provider_ops ops = {.name = "native", .caps = get_caps};
static struct atoll_provider provider = {.ops = &ops};
static struct atoll_engine engine;
static struct atoll_provider_entry slot = {.engine = &engine, .provider = &provider};

static int set_up(void **state)
{
    (void)state;
    memset(&engine, 0, sizeof(engine));
    caps.remote = false;
    atoll_map_init(&engine.tenants);
    atoll_list_init(&engine.turns);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atoll_tenants_done(&engine);
    return 0;
}

static void make(struct atoll_sandbox *s, const char *owner, int64_t created, unsigned number)
{
    *s = (struct atoll_sandbox){
        .engine = &engine, .entry = &slot, .provider = &provider, .created_unix_ms = created};
    (void)snprintf(s->spec.id, sizeof(s->spec.id), "%026u", number);
    (void)snprintf(s->spec.tenant, sizeof(s->spec.tenant), "%s", owner);
    s->spec.limits.memory_bytes = 100 * MIB;
    s->spec.limits.cpu_millis = 1500;
    s->spec.limits.disk_bytes = 10 * MIB;
}

static void lists_are_in_order(void **state)
{
    struct atoll_sandbox s[5];
    const struct atoll_sandbox *at;

    (void)state;
    make(&s[0], "a", 20, 1);
    make(&s[1], "b", 10, 2);
    make(&s[2], "a", 20, 0);
    make(&s[3], "a", 5, 9);
    make(&s[4], "b", 30, 3);
    for (size_t i = 0; i < 5; i++)
        atoll_tenant_enter(&s[i]);
    at = atoll_engine_after(&engine, NULL, INT64_MIN, "");
    assert_ptr_equal(at, &s[3]);
    at = atoll_engine_after(&engine, NULL, 5, s[3].spec.id);
    assert_ptr_equal(at, &s[1]);
    at = atoll_engine_after(&engine, "a", 5, s[3].spec.id);
    assert_ptr_equal(at, &s[2]);
    at = atoll_engine_after(&engine, "a", 20, s[2].spec.id);
    assert_ptr_equal(at, &s[0]);
    assert_null(atoll_engine_after(&engine, "a", 20, s[0].spec.id));
    assert_null(atoll_engine_after(&engine, "c", INT64_MIN, ""));
    assert_ptr_equal(atoll_engine_before(&engine, "b", INT64_MAX, ""), &s[4]);
    assert_ptr_equal(atoll_engine_before(&engine, "b", 30, s[4].spec.id), &s[1]);
    assert_null(atoll_engine_before(&engine, "b", 10, s[1].spec.id));
    /* The place of one that is gone is still a place. */
    atoll_tenant_leave(&s[2]);
    atoll_tenant_leave(&s[2]);
    assert_ptr_equal(atoll_engine_after(&engine, "a", 20, s[2].spec.id), &s[0]);
    for (size_t i = 0; i < 5; i++)
        atoll_tenant_leave(&s[i]);
    assert_int_equal(engine.tenants.used, 0);
    assert_int_equal(engine.ordered.count, 0);
}

static double page_seconds(size_t total)
{
    struct atoll_sandbox *s = calloc(total, sizeof(*s));
    double best = 1e9;

    assert_non_null(s);
    for (size_t i = 0; i < total; i++) {
        make(&s[i], i % 2 ? "a" : "b", (int64_t)i, (unsigned)i);
        atoll_tenant_enter(&s[i]);
    }
    for (int round = 0; round < 20; round++) {
        struct timespec from, to;

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        for (int k = 0; k < 200; k++) {
            const struct atoll_sandbox *at = &s[total / 2];
            for (int i = 0; i < 10; i++)
                assert_non_null(at = atoll_engine_after(&engine, k % 2 ? "a" : NULL,
                                                        at->created_unix_ms, at->spec.id));
        }
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        best = ATOLL_MIN(best, (double)(to.tv_sec - from.tv_sec) +
                                   (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    }
    for (size_t i = 0; i < total; i++)
        atoll_tenant_leave(&s[i]);
    free(s);
    return best;
}

/* A hundred times as many: whatever looks at all of them takes a hundred times as long. */
static void a_page_costs_what_it_shows(void **state)
{
    double few = page_seconds(100), many = page_seconds(10000);

    (void)state;
    assert_true(many < 10 * few);
}

static int admit(const char *owner, uint64_t memory_mib, struct atoll_error *err)
{
    struct atoll_sandbox s;

    make(&s, owner, 1, 1);
    s.spec.limits.memory_bytes = memory_mib * MIB;
    return atoll_tenant_admit(&engine, owner, &slot, &s.spec, err);
}

static void more_than_the_machine_has_is_a_mistake(void **state)
{
    struct atoll_error err;

    (void)state;
    engine.config.quota.machine[ATOLL_PROMISE_MEMORY] = 1000 * MIB;
    engine.config.quota.machine[ATOLL_PROMISE_CPU] = 1000;
    assert_int_equal(admit("a", 1000, &err), 0);
    assert_true(admit("a", 1001, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "memoryMB"));
    assert_non_null(strstr(err.text, "1000"));
    /* A service elsewhere has a machine of its own. */
    caps.remote = true;
    assert_int_equal(admit("a", 1001, &err), 0);
}

static void sums_have_bounds(void **state)
{
    struct atoll_quota *q = &engine.config.quota;
    struct atoll_sandbox s[3];
    struct atoll_usage usage;
    struct atoll_error err;

    (void)state;
    q->tenant_most[ATOLL_PROMISE_MEMORY] = 250 * MIB;
    q->tenant_derived[ATOLL_PROMISE_MEMORY] = true;
    q->machine[ATOLL_PROMISE_CPU] = 1000;
    for (size_t i = 0; i < 2; i++) {
        make(&s[i], "a", 1, (unsigned)i);
        assert_int_equal(admit("a", 100, &err), 0);
        atoll_tenant_enter(&s[i]);
    }
    assert_true(admit("a", 100, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "--tenant-memory"));
    assert_int_equal(admit("a", 50, &err), 0);
    assert_int_equal(admit("b", 250, &err), 0);
    assert_int_equal(admit("default", 10000, &err), 0);
    q->tenant_derived[ATOLL_PROMISE_MEMORY] = false;
    assert_true(admit("default", 10000, &err) < 0);
    atoll_engine_usage(&engine, "a", &usage);
    assert_int_equal(usage.sandboxes, 2);
    assert_int_equal(usage.promised[ATOLL_PROMISE_MEMORY], 200 * MIB);
    assert_int_equal(usage.promised[ATOLL_PROMISE_CPU], 2000); /* all CPUs there are, twice */
    /* All together. */
    q->total_most[ATOLL_PROMISE_MEMORY] = 300 * MIB;
    assert_true(admit("b", 101, &err) < 0);
    assert_non_null(strstr(err.text, "--total-memory"));
    /* A waived limit promises nothing. */
    make(&s[2], "b", 2, 3);
    s[2].spec.limits.memory_bytes = 500 * MIB;
    s[2].spec.waived = ATOLL_LIMIT_MEMORY;
    assert_int_equal(atoll_tenant_admit(&engine, "b", &slot, &s[2].spec, &err), 0);
    atoll_tenant_leave(&s[0]);
    assert_int_equal(admit("a", 150, &err), 0);
    atoll_tenant_leave(&s[1]);
    assert_int_equal(engine.promised[ATOLL_PROMISE_MEMORY], 0);
    assert_int_equal(engine.promised[ATOLL_PROMISE_CPU], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lists_are_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_page_costs_what_it_shows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_the_machine_has_is_a_mistake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums_have_bounds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
