/* Readers of a command that do things when they are woken. */
#include <string.h>
#include "engine/engine_internal.h"
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
    struct atoll_exec exec = {.refs = 1, .journal = {.fd = ATOLL_NO_FD}};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_that_ends_the_command)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
