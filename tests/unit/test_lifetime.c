/* What ends a sandbox while something else does already. */
#include <errno.h>
#include <string.h>
#include "engine/state/capture_queue.h"
#include "one_sandbox.h"

static atoll_done_fn *paused;
static void *paused_arg;
static unsigned pauses, destroyed;

/* Stand in for the engine's. */
int atoll_sandbox_ask(struct atoll_sandbox *s, uint16_t type, const struct atoll_msg_desc *desc,
                      const void *msg, atoll_answer_fn *fn, void *arg, struct atoll_error *err)
{
    (void)s;
    (void)type;
    (void)desc;
    (void)msg;
    (void)fn;
    (void)arg;
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EPIPE, "nobody there");
}

void atoll_capture_next_soon(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_sandbox_pause_now(struct atoll_sandbox *s, bool keep_processes, const char *who,
                             atoll_done_fn *done, void *arg)
{
    (void)keep_processes;
    (void)who;
    s->phase = ATOLL_PHASE_PAUSING;
    paused = done;
    paused_arg = arg;
    pauses++;
}

void atoll_engine_stop(struct atoll_engine *e, const char *id, const char *who,
                       enum atoll_stop_disk disk, atoll_done_fn *done, void *arg)
{
    (void)e;
    (void)id;
    (void)who;
    (void)disk;
    (void)done;
    (void)arg;
    fail();
}

void atoll_sandbox_destroy(struct atoll_sandbox *s, const char *who, atoll_done_fn *done, void *arg)
{
    (void)who;
    (void)done;
    (void)arg;
    s->phase = ATOLL_PHASE_DESTROYING;
    destroyed++;
}

static void on_deadline(void *arg)
{
    atoll_lifetime_over(arg, ATOLL_OVER_DEADLINE);
}

void atoll_sandbox_depart(struct atoll_sandbox *s)
{
    (void)s;
}

void atoll_sandbox_arm_deadline_in(struct atoll_sandbox *s, int64_t after_ms)
{
    atoll_timer_set(&s->deadline, s->engine->loop, after_ms, on_deadline, s);
}

void atoll_engine_stats(struct atoll_engine *e, const char *id, atoll_stats_fn *done, void *arg)
{
    (void)e;
    (void)id;
    (void)done;
    (void)arg;
    fail();
}

void atoll_events_emit(struct atoll_engine *e, const char *kind, const struct atoll_sandbox *s,
                       const char *exec_id, const char *detail)
{
    (void)e;
    (void)kind;
    (void)s;
    (void)exec_id;
    (void)detail;
}

static int set_up(void **state)
{
    struct atoll_error err;

    (void)state;
    memset(&engine, 0, sizeof(engine));
    pauses = destroyed = 0;
    sandbox = (struct atoll_sandbox){.engine = &engine,
                                     .phase = ATOLL_PHASE_RUNNING,
                                     .options.lifetime = {.idle_s = 3600,
                                                          .persistent = true,
                                                          .at_deadline = ATOLL_DEADLINE_PAUSE}};
    memcpy(sandbox.spec.id, "abc", 4);
    atoll_list_init(&sandbox.exec_list);
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_map_put(&engine.sandboxes, "abc", &sandbox), 0);
    return atoll_loop_new(&engine.loop, &err);
}

static int tear_down(void **state)
{
    (void)state;
    atoll_timer_cancel(&sandbox.deadline);
    atoll_timer_cancel(&engine.reaper);
    atoll_map_done(&engine.sandboxes);
    engine.loop = atoll_loop_free(engine.loop);
    return 0;
}

/* As pause.c does it. */
static void fail_pause(void)
{
    struct atoll_error err;

    sandbox.phase = ATOLL_PHASE_RUNNING;
    (void)atoll_fail(&err, ATOLL_ERR_UNAVAILABLE, EIO, "not now");
    paused(paused_arg, &err);
}

static void deadline_comes_while_idle_is_paused(void **state)
{
    (void)state;
    atoll_lifetime_over(&sandbox, ATOLL_OVER_IDLE);
    assert_int_equal(pauses, 1);
    on_deadline(&sandbox);
    assert_int_equal(pauses, 1);
    fail_pause();
    assert_int_equal(sandbox.phase, ATOLL_PHASE_RUNNING);
    assert_non_null(sandbox.deadline.loop); /* it comes again */
    on_deadline(&sandbox);
    assert_int_equal(pauses, 2);
    fail_pause();
    assert_non_null(sandbox.deadline.loop);
    assert_int_equal(destroyed, 0);
}

/* Nobody would tell that once more. */
static void connection_closes_while_idle_is_paused(void **state)
{
    (void)state;
    sandbox.options.lifetime.connection_lease = true;
    atoll_lifetime_over(&sandbox, ATOLL_OVER_IDLE);
    atoll_engine_connection_closed(&engine, "abc");
    assert_int_equal(destroyed, 1);
    paused(paused_arg, NULL);
    assert_int_equal(destroyed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(deadline_comes_while_idle_is_paused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(connection_closes_while_idle_is_paused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
