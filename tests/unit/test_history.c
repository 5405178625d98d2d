/* The ring of figures: a sample at once, then one for each tick, the oldest going first. */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "engine/engine_internal.h"
#include "test.h"

static struct atoll_engine engine;
static struct atoll_sandbox sandbox;
static struct atoll_history_sample samples[ATOLL_HISTORY_SAMPLES + 1];
static double cpu_seconds;
static unsigned asked;

/* Stand in for the engine's. */
struct atoll_sandbox *atoll_engine_find(struct atoll_engine *e, const char *id)
{
    return atoll_map_get(&e->sandboxes, id);
}

void atoll_engine_stats(struct atoll_engine *e, const char *id, atoll_stats_fn *done, void *arg)
{
    struct atoll_sandbox_stats stats = {.memory_bytes = ++asked, .cpu_seconds = cpu_seconds};
    struct atoll_error err;

    assert_ptr_equal(e, &engine);
    assert_string_equal(id, sandbox.spec.id);
    if (sandbox.removing) {
        (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EPIPE, "gone");
        done(arg, NULL, &err);
    } else {
        done(arg, &stats, NULL);
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&engine, 0, sizeof(engine));
    memset(&sandbox, 0, sizeof(sandbox));
    asked = 0;
    cpu_seconds = 0;
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_loop_new(&engine.loop, NULL), 0);
    memcpy(sandbox.spec.id, "abc", 4);
    sandbox.engine = &engine;
    sandbox.phase = ATOLL_PHASE_RUNNING;
    assert_int_equal(atoll_map_put(&engine.sandboxes, "abc", &sandbox), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sandbox.history = atoll_history_free(sandbox.history);
    atoll_timer_cancel(&engine.sampler);
    engine.loop = atoll_loop_free(engine.loop);
    atoll_map_done(&engine.sandboxes);
    return 0;
}

/* What the timer would do in some seconds. */
static void tick(void)
{
    void (*fn)(void *arg) = engine.sampler.fn;

    assert_non_null(engine.sampler.loop);
    atoll_timer_cancel(&engine.sampler);
    fn(&engine);
}

static size_t all(void)
{
    return atoll_engine_history(&engine, "abc", 0, 0, samples, ATOLL_ARRAY_LEN(samples));
}

static void nobody_asked(void **state)
{
    (void)state;
    assert_int_equal(all(), 0);
    atoll_engine_keep_history(&engine, "unknown");
    assert_null(engine.sampler.loop);
}

static void a_sample_at_once(void **state)
{
    int64_t before = atoll_clock_unix_ms();

    (void)state;
    atoll_engine_keep_history(&engine, "abc");
    atoll_engine_keep_history(&engine, "abc"); /* again changes nothing */
    assert_int_equal(all(), 1);
    assert_true(samples[0].unix_ms >= before);
    tick();
    assert_int_equal(all(), 2);
    assert_int_equal(samples[1].unix_ms % ATOLL_HISTORY_EVERY_MS, 0);
    sandbox.phase = ATOLL_PHASE_PAUSED;
    tick();
    sandbox.phase = ATOLL_PHASE_RUNNING;
    sandbox.removing = true; /* does not answer */
    tick();
    assert_int_equal(all(), 2);
    assert_int_equal(asked, 3);
}

static void the_oldest_go(void **state)
{
    (void)state;
    atoll_engine_keep_history(&engine, "abc");
    for (int i = 0; i < ATOLL_HISTORY_SAMPLES + 9; i++)
        tick();
    assert_int_equal(all(), ATOLL_HISTORY_SAMPLES);
    for (size_t i = 0; i < ATOLL_HISTORY_SAMPLES; i++)
        assert_int_equal(samples[i].stats.memory_bytes, 11 + i);
}

static void a_window(void **state)
{
    (void)state;
    atoll_engine_keep_history(&engine, "abc");
    tick();
    assert_int_equal(all(), 2);
    assert_int_equal(atoll_engine_history(&engine, "abc", INT64_MAX, 0, samples, 9), 0);
    assert_int_equal(atoll_engine_history(&engine, "abc", 0, 1, samples, 9), 0);
    assert_int_equal(atoll_engine_history(&engine, "abc", 0, INT64_MAX, samples, 1), 1);
    assert_int_equal(samples[0].stats.memory_bytes, 1); /* the oldest */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nobody_asked),
        TEST(a_sample_at_once),
        TEST(the_oldest_go),
        TEST(a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
