/* Figures of a sandbox: whose stand in for those that nobody outside measures. */
#include <errno.h>
#include <string.h>
#include "engine/network/network.h"
#include "one_sandbox.h"

static struct atoll_provider_stats measured;
static enum atoll_error_kind failure; /* of whoever measures; NONE: it answers */
static uint64_t rss_bytes;
static struct atoll_sandbox_stats told;

/* Stand in for the engine's. */
int atoll_sandbox_ask(struct atoll_sandbox *s, uint16_t type, const struct atoll_msg_desc *desc,
                      const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    const struct atoll_am_usage usage = {
        .processes = 2, .rss_bytes = rss_bytes, .cpu_us = 4000000, .disk_used_bytes = 5000};
    struct atoll_frame frame = {0};
    struct atoll_buf payload;

    (void)s;
    (void)type;
    (void)desc;
    (void)msg;
    (void)err;
    atoll_buf_init(&payload, 4096);
    assert_int_equal(atoll_msg_encode(&atoll_am_usage_desc, &usage, &payload), 0);
    frame.payload = atoll_buf_head(&payload);
    frame.len = atoll_buf_size(&payload);
    fn(arg, &(struct atoll_reply){.frame = &frame});
    atoll_buf_done(&payload);
    return 0;
}

static bool counted; /* atoll-egress serves its network */

bool atoll_network_count(struct atoll_sandbox *s, atoll_network_bytes_fn *fn, void *arg)
{
    (void)s;
    if (counted)
        fn(arg, 700, 800);
    return counted;
}

static void measure(struct atoll_provider *p, const struct atoll_spec *spec,
                    atoll_provider_stats_fn *done, void *arg)
{
    struct atoll_error err;

    (void)p;
    (void)spec;
    if (failure != ATOLL_ERR_NONE)
        (void)atoll_fail(&err, failure, EIO, "no figures");
    done(arg, failure ? NULL : &measured, failure ? &err : NULL);
}

static const struct atoll_provider_ops ops = {.name = "some", .stats = measure};
static struct atoll_provider provider = {.ops = &ops};

static void on_stats(void *arg, const struct atoll_sandbox_stats *stats,
                     const struct atoll_error *error)
{
    (void)arg;
    assert_null(error);
    told = *stats;
}

static void ask(void)
{
    sandbox = (struct atoll_sandbox){.engine = &engine, .provider = &provider};
    sandbox.spec.limits.memory_bytes = 9000;
    memcpy(sandbox.spec.id, "abc", 4);
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_map_put(&engine.sandboxes, "abc", &sandbox), 0);
    atoll_engine_stats(&engine, "abc", on_stats, NULL);
    atoll_map_done(&engine.sandboxes);
}

static void nothing_is_measured_outside(void **state)
{
    (void)state;
    rss_bytes = 3000;
    measured = (struct atoll_provider_stats){0};
    ask();
    assert_int_equal(told.memory_bytes, 3000);
    assert_int_equal(told.memory_peak_bytes, 0);
    assert_int_equal(told.processes, 2);
    assert_true(told.cpu_seconds == 4);
    assert_int_equal(told.disk_bytes, 5000);
}

static void what_is_measured_counts(void **state)
{
    (void)state;
    measured = (struct atoll_provider_stats){
        .memory_bytes = 7000, .memory_peak_bytes = 8000, .processes = 9, .cpu_us = 1000000};
    ask();
    assert_int_equal(told.memory_bytes, 7000);
    assert_int_equal(told.memory_peak_bytes, 8000);
    assert_int_equal(told.processes, 9);
    assert_true(told.cpu_seconds == 1);
}

static void bytes_are_those_of_atoll_egress(void **state)
{
    (void)state;
    ask();
    assert_int_equal(told.net_rx_bytes, 0);
    counted = true;
    ask();
    assert_int_equal(told.net_rx_bytes, 700);
    assert_int_equal(told.net_tx_bytes, 800);
    counted = false;
}

/* 0 is what is shown as unknown: nothing runs on no memory at all. */
static void whoever_measures_is_silent(void **state)
{
    (void)state;
    failure = ATOLL_ERR_UNAVAILABLE;
    rss_bytes = 0;
    ask();
    assert_int_equal(told.memory_bytes, 0);
    assert_int_equal(told.memory_limit_bytes, 9000);
    assert_true(told.cpu_unknown);
    rss_bytes = 3000;
    ask();
    assert_int_equal(told.memory_bytes, 3000);
    failure = ATOLL_ERR_UNIMPLEMENTED;
    ask();
    assert_false(told.cpu_unknown);
    assert_true(told.cpu_seconds == 4);
    assert_int_equal(told.memory_limit_bytes, 0);
    failure = ATOLL_ERR_NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_measured_outside),
                                       cmocka_unit_test(what_is_measured_counts),
                                       cmocka_unit_test(bytes_are_those_of_atoll_egress),
                                       cmocka_unit_test(whoever_measures_is_silent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
