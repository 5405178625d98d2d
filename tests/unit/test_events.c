/*
 * Events on a real store: nobody hears of one before it is stored, ids go on after a restart, and
 * only the last ones are kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "store/events.h"
#include "sys/tree.h"
#include "test.h"

#define KEPT 4096

struct fixture {
    char dir[40];
    int dir_fd;
    struct atoll_engine engine;
    struct atoll_sandbox sandbox;
    uint64_t ids[2 * KEPT];
    char details[2 * KEPT][16];
    size_t heard;
};

static void open_events(struct fixture *f)
{
    struct atoll_error err;

    assert_int_equal(atoll_store_open_sqlite(f->dir_fd, &f->engine.config.store, &err), 0);
    assert_int_equal(
        atoll_events_new(f->engine.loop, f->engine.config.store, &f->engine.events, &err), 0);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/atoll-events-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->dir_fd = open(f->dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(atoll_loop_new(&f->engine.loop, NULL), 0);
    memcpy(f->sandbox.spec.id, "abc", 4);
    memcpy(f->sandbox.spec.tenant, "team", 5);
    open_events(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->engine.events = atoll_events_free(f->engine.events);
    (void)atoll_store_close(f->engine.config.store);
    f->engine.loop = atoll_loop_free(f->engine.loop);
    (void)close(f->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, f->dir), 0);
    free(f);
    return 0;
}

static void emit(struct fixture *f, const char *detail)
{
    atoll_events_emit(&f->engine, "exec.ended", &f->sandbox, "0123456789abcdef", detail);
}

static void hear(void *arg, const struct atoll_event *event)
{
    struct fixture *f = arg;

    assert_string_equal(event->kind, "exec.ended");
    assert_string_equal(event->sandbox_id, "abc");
    assert_string_equal(event->owner, "team");
    assert_string_equal(event->exec_id, "0123456789abcdef");
    f->ids[f->heard] = event->id;
    (void)snprintf(f->details[f->heard++], 16, "%s", event->detail);
}

/* Until so many were heard, or enough time for more has passed. */
static void listen_for(struct fixture *f, size_t count)
{
    for (int i = 0; i < 500 && f->heard < count; i++)
        assert_int_equal(atoll_loop_step(f->engine.loop, 10, NULL), 0);
    assert_int_equal(f->heard, count);
}

static int count_row(void *arg, const struct atoll_store_event *row, struct atoll_error *err)
{
    (void)row;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static void ids_go_on(void **state)
{
    struct fixture *f = *state;
    struct atoll_subscription *s;

    emit(f, "one");
    emit(f, "two");
    s = atoll_events_subscribe(&f->engine, 0, hear, f);
    listen_for(f, 2);
    s = atoll_events_unsubscribe(s);
    emit(f, "three"); /* stored by the orderly end */
    f->engine.events = atoll_events_free(f->engine.events);
    (void)atoll_store_close(f->engine.config.store);
    open_events(f);
    emit(f, "four");
    f->heard = 0;
    s = atoll_events_subscribe(&f->engine, 1, hear, f);
    listen_for(f, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(f->ids[i], i + 2);
    assert_string_equal(f->details[0], "two");
    assert_string_equal(f->details[2], "four");
    (void)atoll_events_unsubscribe(s);
}

/* An id that was heard is in the store at that moment, so it is nobody else's later. */
static void stored_before_it_is_told(void **state)
{
    struct fixture *f = *state;
    struct atoll_error err;
    struct atoll_subscription *s = atoll_events_subscribe(&f->engine, UINT64_MAX, hear, f);

    for (size_t n = 1; n <= 50; n++) {
        size_t rows = 0;
        emit(f, "x");
        assert_int_equal(f->heard, n - 1);
        listen_for(f, n);
        assert_int_equal(atoll_store_each_event(f->engine.config.store, count_row, &rows, &err), 0);
        assert_int_equal(rows, n);
    }
    (void)atoll_events_unsubscribe(s);
}

static void only_the_last_are_kept(void **state)
{
    struct fixture *f = *state;
    struct atoll_subscription *s;
    struct atoll_error err;
    size_t rows = 0;

    for (size_t i = 0; i < KEPT + 100; i++)
        emit(f, "x");
    s = atoll_events_subscribe(&f->engine, 0, hear, f);
    listen_for(f, KEPT);
    assert_int_equal(f->ids[0], 101);
    assert_int_equal(f->ids[KEPT - 1], KEPT + 100);
    (void)atoll_events_unsubscribe(s);
    assert_int_equal(atoll_store_each_event(f->engine.config.store, count_row, &rows, &err), 0);
    assert_int_equal(rows, KEPT);
}

static void hidden_ones_have_none(void **state)
{
    struct fixture *f = *state;
    struct atoll_subscription *s = atoll_events_subscribe(&f->engine, 0, hear, f);

    f->sandbox.hidden = true;
    emit(f, "hidden");
    f->sandbox.hidden = false;
    emit(f, "shown");
    listen_for(f, 1);
    assert_int_equal(f->ids[0], 1);
    (void)atoll_events_unsubscribe(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_go_on),
        TEST(stored_before_it_is_told),
        TEST(only_the_last_are_kept),
        TEST(hidden_ones_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
