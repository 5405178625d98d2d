/* Whose account unfinished lines of interpreters are on. */
#include "base/shares.h"
#include "interpreter/contexts_line.h"
#include "test.h"

#define MAX ((size_t)100)

/* An interpreter that waited in the pool was nobody's; its sandbox is somebody's now. */
static void lines_that_are_given_away_count_for_the_new_owner(void **state)
{
    struct atoll_shares shares;
    struct atoll_lines lines;

    (void)state;
    atoll_shares_init(&shares, MAX);
    atoll_lines_init(&lines, &shares, "");
    assert_int_equal(atoll_lines_add(&lines, (const uint8_t *)"begun", 5), 0);
    atoll_lines_set_owner(&lines, "busy");
    assert_int_equal(shares.used, 5);
    assert_false(atoll_shares_is_large(&shares, ""));
    assert_true(atoll_shares_is_large(&shares, "busy"));
    atoll_lines_done(&lines);
    assert_int_equal(shares.used, 0);
    atoll_shares_done(&shares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_are_given_away_count_for_the_new_owner)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
