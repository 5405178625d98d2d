/* How many files are on their way, where descriptors do not pass. */
#include <unistd.h>
#include "engine/file/inband.h"
#include "test.h"

static void a_neighbours_files(void **state)
{
    static struct atoll_engine engine;
    static struct atoll_sandbox his = {.engine = &engine, .spec.tenant = "somebody"};
    static struct atoll_sandbox hers = {.engine = &engine, .spec.tenant = "neighbour"};
    struct atoll_error err;
    int fd;

    (void)state;
    atoll_shares_init(&engine.transfers, ATOLL_TRANSFERS_MAX);
    for (int i = 0; i < ATOLL_TRANSFERS_MAX; i++) {
        fd = atoll_inband_spool(&his, 10, &err);
        assert_true(fd >= 0);
        close(fd);
        atoll_shares_add(&engine.transfers, his.spec.tenant, 1);
    }
    assert_true(atoll_inband_spool(&his, 10, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    fd = atoll_inband_spool(&hers, 10, &err);
    assert_true(fd >= 0);
    close(fd);
    atoll_shares_done(&engine.transfers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_neighbours_files)};
    return cmocka_run_group_tests_name("inband", tests, NULL, NULL);
}
