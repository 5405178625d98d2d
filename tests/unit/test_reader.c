/* Readers of a command that do things when they are woken. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "sys/tree.h"
#include "test.h"

struct reading {
    struct atoll_exec *exec;
    struct atoll_reader *reader;
    unsigned woken, ends;
    bool ends_it; /* when it is woken for the first time */
};

static void ready(void *arg)
{
    struct reading *r = arg;
    struct atoll_reader_item item;

    r->woken++;
    while (atoll_reader_next(r->reader, &item) > 0)
        r->ends += item.kind == ATOLL_READ_END;
    if (r->ends_it && !r->exec->ended)
        atoll_exec_finish(r->exec, &(struct atoll_exec_result){.kind = ATOLL_END_KILLED_BY});
}

/* Such as one that destroys the sandbox because it cannot read the output. */
static void one_that_ends_the_command(void **state)
{
    struct atoll_engine engine = {0};
    struct atoll_exec exec = {.refs = 1, .engine = &engine, .journal = {.fd = ATOLL_NO_FD}};
    struct reading readings[3] = {
        {.exec = &exec}, {.exec = &exec, .ends_it = true}, {.exec = &exec}};
    struct atoll_error err;

    (void)state;
    atoll_list_init(&exec.readers);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            atoll_reader_open(&exec, 0, 0, ready, &readings[i], &readings[i].reader, &err), 0);
    atoll_readers_notify(&exec);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(readings[i].ends, 1);
        readings[i].reader = atoll_reader_close(readings[i].reader);
    }
    assert_int_equal(exec.refs, 1);
}

/* A command with a journal that keeps 64 bytes. */
struct world {
    char dir[32];
    int dir_fd;
    struct atoll_engine engine;
    struct atoll_sandbox sandbox;
    struct atoll_exec exec;
    struct atoll_reader *readers[3];
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/atoll-reader-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(atoll_loop_new(&w->engine.loop, NULL), 0);
    w->sandbox.engine = &w->engine;
    w->exec = (struct atoll_exec){.refs = 1, .engine = &w->engine, .sandbox = &w->sandbox};
    (void)snprintf(w->sandbox.spec.tenant, sizeof(w->sandbox.spec.tenant), "tenant");
    w->engine.journal_fd = w->dir_fd;
    atoll_journals_open(&w->engine);
    atoll_list_init(&w->exec.readers);
    atoll_journal_init(&w->exec.journal, w->dir_fd, "exec", 64);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(w->readers); i++)
        w->readers[i] = atoll_reader_close(w->readers[i]);
    assert_int_equal(w->exec.followers, 0);
    atoll_timer_cancel(&w->exec.awaiting);
    atoll_journals_release(&w->exec);
    atoll_journals_done(&w->engine);
    atoll_journal_rest(&w->exec.journal);
    w->engine.loop = atoll_loop_free(w->engine.loop);
    (void)close(w->dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, w->dir), 0);
    free(w);
    return 0;
}

static void nothing(void *arg)
{
    (void)arg;
}

static struct atoll_reader *follow(struct world *w, int i, uint64_t from)
{
    struct atoll_error err;

    assert_int_equal(atoll_reader_open(&w->exec, from, from, nothing, w, &w->readers[i], &err), 0);
    atoll_reader_follow(w->readers[i]);
    return w->readers[i];
}

/* The command writes so many bytes to its stdout. */
static void write_out(struct world *w, size_t n)
{
    static uint8_t bytes[1 << 16];
    struct atoll_journal *j = &w->exec.journal;

    assert_true(n <= sizeof(bytes));
    assert_int_equal(atoll_journal_append(j, 1, j->seen[1], bytes, n, atoll_readers_hold(&w->exec)),
                     0);
    atoll_readers_settle(&w->exec);
}

/* Reads all there is: how many bytes, and how many of them are not. */
static uint64_t take(struct atoll_reader *reader, uint64_t *ret_missing)
{
    struct atoll_reader_item item;
    uint64_t got = 0;

    *ret_missing = 0;
    while (atoll_reader_next(reader, &item) > 0)
        *(item.kind == ATOLL_READ_GAP ? ret_missing : &got) += item.length;
    return got;
}

static void the_slowest_is_waited_for(void **state)
{
    struct world *w = *state;
    struct atoll_reader *fast = follow(w, 0, 0), *slow = follow(w, 1, 0);
    uint64_t missing;

    write_out(w, 40);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40); /* kept in any case */
    write_out(w, 65536);
    write_out(w, 65536);
    assert_int_equal(take(fast, &missing), 40 + 2 * 65536);
    assert_int_equal(missing, 0);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40);
    atoll_reader_forget(fast, 0, 0);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40);
    assert_int_equal(take(slow, &missing), 40 + 2 * 65536);
    assert_true(w->exec.journal.size > w->exec.journal.head);
    atoll_reader_forget(slow, 2, 0);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 38 + 2 * 65536);
    assert_int_equal(w->exec.journal.size, w->exec.journal.head);
    /* Three bytes that are yet to be read are not what a reader keeps back. */
    write_out(w, 65536);
    assert_int_equal(take(fast, &missing), 65536);
    assert_int_equal(take(slow, &missing), 65536);
    write_out(w, 3);
    atoll_reader_forget(fast, 0, 0);
    atoll_reader_forget(slow, 0, 0);
    assert_int_equal(take(fast, &missing), 3);
    atoll_reader_forget(fast, 0, 0);
    assert_int_equal(take(slow, &missing), 3);
    assert_int_equal(missing, 0);
}

static void who_goes_is_not_waited_for(void **state)
{
    struct world *w = *state;
    struct atoll_reader *late;
    uint64_t missing;

    (void)follow(w, 0, 0);
    write_out(w, 40);
    write_out(w, 65536);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40);
    w->readers[0] = atoll_reader_close(w->readers[0]);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40 + 65536);
    assert_int_equal(w->exec.journal.size, w->exec.journal.head);
    write_out(w, 1000); /* for nobody */
    assert_int_equal(w->exec.journal.size, w->exec.journal.head);
    late = follow(w, 1, 0);
    write_out(w, 5);
    assert_int_equal(take(late, &missing), 45);
    assert_int_equal(missing, 65536 + 1000);
}

static void a_full_tail_is_emptied_before_more_comes(void **state)
{
    struct world *w = *state;
    struct atoll_reader *reader = follow(w, 0, 0);
    uint64_t missing;

    /* It never has everything, until it is not told of more. */
    for (int i = 0; i < 17; i++) {
        write_out(w, 65536);
        if (i > 0)
            assert_int_equal(take(reader, &missing), 65536);
        else
            (void)take(reader, &missing);
        write_out(w, 1);
        atoll_reader_forget(reader, 0, 0);
        assert_int_equal(take(reader, &missing), 1);
        assert_int_equal(missing, 0);
    }
    assert_true(w->exec.journal.size - w->exec.journal.head >= (uint64_t)1 << 20);
    atoll_reader_forget(reader, 0, 0);
    assert_int_equal(w->exec.journal.size, w->exec.journal.head);
}

static void after_a_restart_they_are_awaited(void **state)
{
    struct world *w = *state;
    uint64_t missing;

    w->exec.awaited = true;
    write_out(w, 40);
    write_out(w, 1000);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40);
    assert_int_equal(take(follow(w, 0, 500), &missing), 540);
    assert_int_equal(missing, 0);
    atoll_reader_forget(w->readers[0], 0, 0);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 40);
    atoll_readers_await(&w->exec);
    while (w->exec.awaited)
        assert_int_equal(atoll_loop_step(w->engine.loop, 10000, NULL), 0);
    assert_int_equal(atoll_readers_used(&w->exec, 1), 1040);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_ends_the_command),
        cmocka_unit_test_setup_teardown(the_slowest_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_goes_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_tail_is_emptied_before_more_comes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(after_a_restart_they_are_awaited, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
