#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "loop/workers.h"

struct task {
    struct atoll_job job;
    pthread_t ran_on;
    bool ran;
    atomic_bool *gate; /* waits until it is set, or NULL */
    int *ended;
};

static struct task *task_of(struct atoll_job *job)
{
    return ATOLL_CONTAINER_OF(job, struct task, job);
}

static void run(struct atoll_job *job)
{
    struct task *t = task_of(job);

    while (t->gate && !atomic_load(t->gate))
        (void)usleep(1000);
    t->ran_on = pthread_self();
    t->ran = true;
}

static void done(struct atoll_job *job)
{
    ++*task_of(job)->ended;
}

static struct task task(int *ended, atomic_bool *gate)
{
    return (struct task){.job = {.run = run, .done = done}, .ended = ended, .gate = gate};
}

static void wait_for(struct atoll_loop *loop, const int *ended, int wanted)
{
    struct atoll_error err;

    while (*ended < wanted)
        assert_int_equal(atoll_loop_step(loop, 5000, &err), 0);
}

static void jobs_run_elsewhere_and_end_here(void **state)
{
    struct atoll_loop *loop;
    struct atoll_workers *w;
    struct atoll_error err;
    struct task tasks[50];
    int ended = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_workers_new(loop, 3, 100, &w, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tasks); i++) {
        tasks[i] = task(&ended, NULL);
        assert_int_equal(atoll_workers_submit(w, &tasks[i].job, &err), 0);
    }
    wait_for(loop, &ended, (int)ATOLL_ARRAY_LEN(tasks));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tasks); i++) {
        assert_true(tasks[i].ran);
        assert_false(pthread_equal(tasks[i].ran_on, pthread_self()));
    }
    assert_null(atoll_workers_free(w));
    assert_null(atoll_loop_free(loop));
}

static void a_full_queue_refuses(void **state)
{
    struct atoll_loop *loop;
    struct atoll_workers *w;
    struct atoll_error err;
    atomic_bool gate = false;
    struct task tasks[3], late;
    int ended = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_workers_new(loop, 1, 2, &w, &err), 0);
    tasks[0] = task(&ended, &gate);
    assert_int_equal(atoll_workers_submit(w, &tasks[0].job, &err), 0);
    (void)usleep(20000); /* it is taken from the queue */
    for (size_t i = 1; i < 3; i++) {
        tasks[i] = task(&ended, &gate);
        assert_int_equal(atoll_workers_submit(w, &tasks[i].job, &err), 0);
    }
    late = task(&ended, NULL);
    assert_true(atoll_workers_submit(w, &late.job, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    atomic_store(&gate, true);
    wait_for(loop, &ended, 3);
    assert_false(late.ran);
    assert_null(atoll_workers_free(w));
    assert_null(atoll_loop_free(loop));
}

static void an_owner_leaves_threads_to_others(void **state)
{
    struct atoll_loop *loop;
    struct atoll_workers *w;
    struct atoll_error err;
    atomic_bool gate = false;
    struct task slow[10], hers, nobodys;
    int slow_ended = 0, ended = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_workers_new(loop, 4, 20, &w, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(slow); i++) {
        slow[i] = task(&slow_ended, &gate);
        slow[i].job.owner = "somebody";
        assert_int_equal(atoll_workers_submit(w, &slow[i].job, &err), 0);
    }
    hers = task(&ended, NULL);
    hers.job.owner = "neighbour";
    nobodys = task(&ended, NULL);
    assert_int_equal(atoll_workers_submit(w, &hers.job, &err), 0);
    assert_int_equal(atoll_workers_submit(w, &nobodys.job, &err), 0);
    for (int i = 0; i < 10 && ended < 2; i++)
        assert_int_equal(atoll_loop_step(loop, 1000, &err), 0);
    atomic_store(&gate, true);
    assert_int_equal(ended, 2);
    assert_int_equal(slow_ended, 0);
    wait_for(loop, &slow_ended, (int)ATOLL_ARRAY_LEN(slow));
    assert_null(atoll_workers_free(w));
    assert_null(atoll_loop_free(loop));
}

static void freeing_ends_what_waits(void **state)
{
    struct atoll_loop *loop;
    struct atoll_workers *w;
    struct atoll_error err;
    struct task tasks[20];
    int ended = 0;

    (void)state;
    assert_int_equal(atoll_loop_new(&loop, &err), 0);
    assert_int_equal(atoll_workers_new(loop, 2, 20, &w, &err), 0);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tasks); i++) {
        tasks[i] = task(&ended, NULL);
        assert_int_equal(atoll_workers_submit(w, &tasks[i].job, &err), 0);
    }
    assert_null(atoll_workers_free(w));
    assert_int_equal(ended, (int)ATOLL_ARRAY_LEN(tasks));
    assert_null(atoll_loop_free(loop));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_run_elsewhere_and_end_here),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(an_owner_leaves_threads_to_others),
        cmocka_unit_test(freeing_ends_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
