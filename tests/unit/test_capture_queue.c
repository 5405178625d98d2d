/* When what needs the files of a sandbox takes place. */
#include <string.h>
#include "engine/state/capture_queue.h"
#include "test.h"

static struct atoll_engine engine;
static struct atoll_sandbox sandbox;
static unsigned began, refused;
static enum atoll_error_kind kind;

static int set_up(void **state)
{
    struct atoll_error err;

    (void)state;
    memset(&engine, 0, sizeof(engine));
    sandbox = (struct atoll_sandbox){.engine = &engine, .phase = ATOLL_PHASE_RUNNING};
    began = refused = 0;
    memcpy(sandbox.spec.id, "abc", 4);
    memcpy(sandbox.spec.tenant, "acme", 5);
    atoll_list_init(&engine.captures);
    atoll_list_init(&engine.capture_waits);
    atoll_list_init(&sandbox.capture_waits);
    atoll_list_init(&sandbox.stoppers);
    atoll_list_init(&sandbox.resumers);
    atoll_map_init(&engine.sandboxes);
    assert_int_equal(atoll_map_put(&engine.sandboxes, "abc", &sandbox), 0);
    return atoll_loop_new(&engine.loop, &err);
}

static int tear_down(void **state)
{
    (void)state;
    atoll_capture_abort(&sandbox);
    atoll_map_done(&engine.sandboxes);
    engine.loop = atoll_loop_free(engine.loop);
    return 0;
}

static void on_turn(void *arg, const struct atoll_error *error)
{
    (void)arg;
    began += !error;
    refused += error != NULL;
    if (error)
        kind = error->kind;
}

static void a_deadline_that_is_due_comes_first(void **state)
{
    (void)state;
    sandbox.overdue = true; /* and nothing is in progress */
    atoll_capture_await(&sandbox, NULL, on_turn, NULL);
    atoll_capture_await_checkpoint(&sandbox, on_turn, NULL);
    atoll_capture_next(&sandbox);
    assert_int_equal(began, 0);
    sandbox.overdue = false;
    atoll_capture_next(&sandbox);
    assert_int_equal(began, 2);
    assert_int_equal(refused, 0);
}

static void a_stopping_daemon_ends_all_but_checkpoints(void **state)
{
    (void)state;
    sandbox.snapping = true;
    atoll_capture_await(&sandbox, NULL, on_turn, NULL);
    atoll_capture_await_checkpoint(&sandbox, on_turn, NULL);
    engine.ending = true;
    atoll_captures_shutdown(&engine);
    assert_int_equal(refused, 1);
    assert_int_equal(kind, ATOLL_ERR_UNAVAILABLE);
    sandbox.snapping = false;
    atoll_capture_next(&sandbox);
    assert_int_equal(began, 1);
    atoll_capture_await(&sandbox, NULL, on_turn, NULL);
    assert_int_equal(refused, 2);
    assert_int_equal(began, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_deadline_that_is_due_comes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stopping_daemon_ends_all_but_checkpoints, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
