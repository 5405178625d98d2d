#include "base/switches.h"
#include "test.h"

#include <errno.h>
#include <stdlib.h>

#ifdef ATOLL_TEST_SWITCHES
static const bool compiled_in = true;
#else
static const bool compiled_in = false;
#endif

static void a_fault_comes_at_its_turn(void **state)
{
    (void)state;
    setenv("ATOLL_FAULT", "store.write@2=ENOSPC", 1);
    assert_int_equal(atoll_fault("store.write"), 0);
    assert_int_equal(atoll_fault("store.writes"), 0);
    assert_int_equal(atoll_fault("store"), 0);
    assert_int_equal(atoll_fault("store.write"), compiled_in ? ENOSPC : 0);
    assert_int_equal(atoll_fault("store.write"), 0);
    unsetenv("ATOLL_FAULT");
}

static void a_layer_is_left_out_by_its_whole_name(void **state)
{
    (void)state;
    assert_false(atoll_weakened("seccomp"));
    setenv("ATOLL_WEAKEN", "proc,seccomp", 1);
    assert_int_equal(atoll_weakened("seccomp"), compiled_in);
    assert_int_equal(atoll_weakened("proc"), compiled_in);
    assert_false(atoll_weakened("pro"));
    assert_false(atoll_weakened("proc,seccomp"));
    unsetenv("ATOLL_WEAKEN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fault_comes_at_its_turn),
        cmocka_unit_test(a_layer_is_left_out_by_its_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
