/* The step runner: every way a flow of four steps can end. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include "loop/steps.h"
#include "test.h"

#define COUNT 4
#define NO_STEP ((size_t)-1)

struct flow {
    struct atoll_steps steps;
    bool synchronous;
    bool freed_in_done; /* done overwrites the struct, as free() may */
    size_t fails;       /* the step that fails */
    size_t cancels;     /* the step that cancels the flow while it runs */
    enum atoll_error_kind kind;
    bool undo_fails;
    char trace[64]; /* "+0+1-0": run 0, run 1, undo 0 */
    int done_calls;
    struct atoll_error result; /* kind NONE: success */
};

static const struct atoll_error *failure(struct flow *f, struct atoll_error *err)
{
    (void)atoll_fail(err, f->kind ? f->kind : ATOLL_ERR_INTERNAL, EIO, "step %zu", f->steps.at);
    return err;
}

static void complete_run(struct flow *f)
{
    struct atoll_error err;

    atoll_steps_done(&f->steps, f->steps.at == f->fails ? failure(f, &err) : NULL);
}

static void complete_undo(struct flow *f)
{
    struct atoll_error err;

    atoll_steps_done(&f->steps, f->undo_fails ? failure(f, &err) : NULL);
}

static void trace(struct flow *f, char what)
{
    size_t n = strlen(f->trace);

    (void)snprintf(f->trace + n, sizeof(f->trace) - n, "%c%zu", what, f->steps.at);
}

static void run(void *arg)
{
    struct flow *f = arg;

    trace(f, '+');
    if (f->steps.at == f->cancels)
        atoll_steps_cancel(&f->steps, "a client");
    if (f->synchronous)
        complete_run(f);
}

static void undo(void *arg)
{
    struct flow *f = arg;

    trace(f, '-');
    if (f->synchronous)
        complete_undo(f);
}

static void done(void *arg, const struct atoll_error *error)
{
    struct flow *f = arg;

    f->done_calls++;
    if (error)
        f->result = *error;
    if (f->freed_in_done)
        memset(&f->steps, 0xa5, sizeof(f->steps));
}

/* Step 1 has nothing to undo. */
static const struct atoll_step steps[COUNT] = {
    {"making the first", run, undo},
    {"making the second", run, NULL},
    {"making the third", run, undo},
    {"making the fourth", run, undo},
};

static void init(struct flow *f, bool synchronous)
{
    *f = (struct flow){.synchronous = synchronous, .fails = NO_STEP, .cancels = NO_STEP};
    f->steps = (struct atoll_steps){.steps = steps, .count = COUNT, .arg = f, .done = done};
}

/* Runs to the end; steps that are not synchronous complete here. */
static void drive(struct flow *f)
{
    atoll_steps_start(&f->steps);
    for (int i = 0; i < 2 * COUNT && !f->synchronous && f->done_calls == 0; i++) {
        if (f->steps.undoing)
            complete_undo(f);
        else
            complete_run(f);
    }
    assert_int_equal(f->done_calls, 1);
}

static void all_steps_succeed(void **state ATOLL_UNUSED)
{
    for (int synchronous = 0; synchronous < 2; synchronous++) {
        struct flow f;

        init(&f, synchronous);
        drive(&f);
        assert_string_equal(f.trace, "+0+1+2+3");
        assert_int_equal(f.result.kind, ATOLL_ERR_NONE);
    }
}

static const char *const failing[COUNT] = {
    "+0",
    "+0+1-0",
    "+0+1+2-0",
    "+0+1+2+3-2-0",
};

static void a_failure_undoes_what_succeeded(void **state ATOLL_UNUSED)
{
    for (int variant = 0; variant < 4; variant++) {
        for (size_t i = 0; i < COUNT; i++) {
            char text[32];
            struct flow f;

            init(&f, variant & 1);
            f.undo_fails = variant & 2;
            f.fails = i;
            f.kind = ATOLL_ERR_NOT_FOUND;
            drive(&f);
            assert_string_equal(f.trace, failing[i]);
            assert_int_equal(f.result.kind, ATOLL_ERR_NOT_FOUND);
            (void)snprintf(text, sizeof(text), "step %zu", i);
            assert_string_equal(f.result.text, text);
        }
    }
}

static const char *const cancelled[COUNT] = {
    "+0-0",
    "+0+1-0",
    "+0+1+2-2-0",
    "+0+1+2+3-3-2-0",
};

/* The step that runs completes after the cancel, and is undone too. */
static void a_cancel_undoes_the_running_step_too(void **state ATOLL_UNUSED)
{
    for (int synchronous = 0; synchronous < 2; synchronous++) {
        for (size_t i = 0; i < COUNT; i++) {
            struct flow f;

            init(&f, synchronous);
            f.cancels = i;
            drive(&f);
            assert_string_equal(f.trace, cancelled[i]);
            assert_int_equal(f.result.kind, ATOLL_ERR_CANCELED);
            assert_non_null(strstr(f.result.text, "a client"));
            assert_non_null(strstr(f.result.text, steps[i].name));
        }
    }
}

static void a_step_may_fail_after_the_cancel(void **state ATOLL_UNUSED)
{
    struct flow f;

    init(&f, false);
    f.cancels = f.fails = 2;
    drive(&f);
    assert_string_equal(f.trace, "+0+1+2-0");
    assert_int_equal(f.result.kind, ATOLL_ERR_CANCELED);
}

static void only_the_first_cause_counts(void **state ATOLL_UNUSED)
{
    struct flow f;

    init(&f, false);
    f.fails = 3;
    atoll_steps_start(&f.steps);
    for (int i = 0; i < COUNT; i++)
        complete_run(&f);
    assert_true(f.steps.undoing);
    atoll_steps_cancel(&f.steps, "a client");
    complete_undo(&f);
    complete_undo(&f);
    assert_int_equal(f.done_calls, 1);
    assert_string_equal(f.trace, failing[3]);
    assert_int_equal(f.result.kind, ATOLL_ERR_INTERNAL);
}

static void a_deadline_waits_for_the_running_step(void **state ATOLL_UNUSED)
{
    struct atoll_loop *loop;
    struct atoll_error err;
    struct flow f;

    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    init(&f, false);
    f.steps.loop = loop;
    f.steps.deadline_ms = 1;
    atoll_steps_start(&f.steps);
    complete_run(&f);
    while (f.steps.timer.loop)
        assert_int_equal(atoll_loop_step(loop, -1, &err), 0);
    assert_int_equal(f.done_calls, 0);
    assert_string_equal(f.trace, "+0+1");
    complete_run(&f);
    assert_string_equal(f.trace, "+0+1-0");
    complete_undo(&f);
    assert_int_equal(f.done_calls, 1);
    assert_int_equal(f.result.kind, ATOLL_ERR_DEADLINE_EXCEEDED);
    assert_non_null(strstr(f.result.text, steps[1].name));
    (void)atoll_loop_free(loop);
}

/* The timer is disarmed before done, which frees it. */
static void a_deadline_does_not_outlive_its_flow(void **state ATOLL_UNUSED)
{
    for (int failed = 0; failed < 2; failed++) {
        struct atoll_loop *loop;
        struct atoll_error err;
        struct flow f;

        assert_int_equal(atoll_loop_new(&loop, &err), 0);
        init(&f, true);
        f.freed_in_done = true;
        f.steps.loop = loop;
        f.steps.deadline_ms = 1;
        f.fails = failed ? 1 : NO_STEP;
        atoll_steps_start(&f.steps);
        assert_int_equal(f.done_calls, 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(atoll_loop_step(loop, 2, &err), 0);
        assert_int_equal(f.done_calls, 1);
        (void)atoll_loop_free(loop);
    }
}

static void a_flow_goes_on_at_its_resume_point(void **state ATOLL_UNUSED)
{
    struct flow f;

    init(&f, false);
    f.steps.at = 2;
    drive(&f);
    assert_string_equal(f.trace, "+2+3");

    /* What an earlier process did is undone too. */
    init(&f, false);
    f.steps.at = 2;
    f.fails = 3;
    drive(&f);
    assert_string_equal(f.trace, "+2+3-2-0");

    init(&f, false);
    f.steps.at = COUNT;
    drive(&f);
    assert_string_equal(f.trace, "");
    assert_int_equal(f.result.kind, ATOLL_ERR_NONE);
}

/* Steps that complete at once do not use more stack for each. */
static void *first_frame;

static void run_deep(void *arg)
{
    struct atoll_steps *s = arg;

    if (!first_frame)
        first_frame = __builtin_frame_address(0);
    assert_ptr_equal(first_frame, __builtin_frame_address(0));
    atoll_steps_done(s, NULL);
}

static void finish_deep(void *arg ATOLL_UNUSED, const struct atoll_error *error)
{
    assert_null(error);
}

static void synchronous_steps_do_not_recurse(void **state ATOLL_UNUSED)
{
    static struct atoll_step many[10000];
    struct atoll_steps s = {.steps = many, .count = ATOLL_ARRAY_LEN(many), .done = finish_deep};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(many); i++)
        many[i] = (struct atoll_step){"counting", run_deep, NULL};
    s.arg = &s;
    first_frame = NULL;
    atoll_steps_start(&s);
    assert_int_equal(s.at, ATOLL_ARRAY_LEN(many));
}

/* A step without memory fails like any other; the runner itself needs none, also for undoing. */
static void a_step_without_memory_is_a_failure(void **state ATOLL_UNUSED)
{
    size_t before = mallinfo2().uordblks;
    struct flow f;

    init(&f, false);
    f.fails = 2;
    f.kind = ATOLL_ERR_RESOURCE_EXHAUSTED;
    drive(&f);
    assert_int_equal(mallinfo2().uordblks, before);
    assert_string_equal(f.trace, failing[2]);
    assert_int_equal(f.result.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_steps_succeed),
        cmocka_unit_test(a_failure_undoes_what_succeeded),
        cmocka_unit_test(a_cancel_undoes_the_running_step_too),
        cmocka_unit_test(a_step_may_fail_after_the_cancel),
        cmocka_unit_test(only_the_first_cause_counts),
        cmocka_unit_test(a_deadline_waits_for_the_running_step),
        cmocka_unit_test(a_deadline_does_not_outlive_its_flow),
        cmocka_unit_test(a_flow_goes_on_at_its_resume_point),
        cmocka_unit_test(synchronous_steps_do_not_recurse),
        cmocka_unit_test(a_step_without_memory_is_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
