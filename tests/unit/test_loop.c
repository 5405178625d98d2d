/* The order of timers and descriptors in a process that was stopped for a while. */
#include <fcntl.h>
#include <unistd.h>
#include "loop/loop.h"
#include "test.h"

struct fixture {
    struct atoll_loop *loop;
    struct atoll_watch first, second;
    struct atoll_timer timer;
    int pipes[2][2];
    bool fired;        /* the timer */
    int served;        /* descriptors */
    int served_before; /* the timer fired */
};

static void drain(int fd)
{
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1);
}

static void on_second(void *arg, uint32_t events)
{
    struct fixture *f = arg;

    (void)events;
    drain(f->pipes[1][0]);
    f->served++;
}

/* As a connection that is accepted, and has brought its request along. */
static void on_first(void *arg, uint32_t events)
{
    struct fixture *f = arg;

    (void)events;
    drain(f->pipes[0][0]);
    f->served++;
    assert_int_equal(atoll_watch_open(&f->second, f->loop, f->pipes[1][0], EPOLLIN, on_second, f),
                     0);
}

static void on_timer(void *arg)
{
    struct fixture *f = arg;

    f->fired = true;
    f->served_before = f->served;
}

static void what_came_in_time_is_served_before_a_late_timer(void **state)
{
    struct fixture f = {0};
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_loop_new(&f.loop, &err), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pipe2(f.pipes[i], O_CLOEXEC), 0);
    assert_int_equal(atoll_watch_open(&f.first, f.loop, f.pipes[0][0], EPOLLIN, on_first, &f), 0);
    atoll_timer_set(&f.timer, f.loop, 20, on_timer, &f);
    for (int i = 0; i < 2; i++)
        assert_int_equal(write(f.pipes[i][1], "x", 1), 1);
    usleep(1200 * 1000); /* stopped */
    while (!f.fired)
        assert_int_equal(atoll_loop_step(f.loop, 100, &err), 0);
    assert_int_equal(f.served_before, 2);
    atoll_watch_close(&f.first);
    atoll_watch_close(&f.second);
    for (int i = 0; i < 4; i++)
        (void)close(f.pipes[i / 2][i % 2]);
    f.loop = atoll_loop_free(f.loop);
}

/* A descriptor that is always ready does not keep timers from firing. */
static void on_endless(void *arg, uint32_t events)
{
    (void)events;
    ((struct fixture *)arg)->served++;
}

static void a_busy_descriptor_does_not_hold_timers_up(void **state)
{
    struct fixture f = {0};
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_loop_new(&f.loop, &err), 0);
    assert_int_equal(pipe2(f.pipes[0], O_CLOEXEC), 0);
    assert_int_equal(write(f.pipes[0][1], "x", 1), 1);
    assert_int_equal(atoll_watch_open(&f.first, f.loop, f.pipes[0][0], EPOLLIN, on_endless, &f), 0);
    atoll_timer_set(&f.timer, f.loop, 0, on_timer, &f);
    usleep(1200 * 1000);
    for (int i = 0; i < 200 && !f.fired; i++)
        assert_int_equal(atoll_loop_step(f.loop, 100, &err), 0);
    assert_true(f.fired);
    atoll_watch_close(&f.first);
    (void)close(f.pipes[0][0]);
    (void)close(f.pipes[0][1]);
    f.loop = atoll_loop_free(f.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_in_time_is_served_before_a_late_timer),
        cmocka_unit_test(a_busy_descriptor_does_not_hold_timers_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
