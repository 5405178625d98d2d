/* What `atoll sync` does with two sides and what they were. */
#include <string.h>
#include "base/defs.h"
#include "cli/sync_plan.h"
#include "test.h"

#define FILE_OF(s, t)                                                                     \
    {                                                                                     \
        .path = "p", .kind = ATOLL_SYNC_FILE, .size = (s), .mtime_ms = (t), .mode = 0644, \
        .target = ""                                                                      \
    }
#define DIR_OF(m)                                                            \
    {                                                                        \
        .path = "p", .kind = ATOLL_SYNC_DIRECTORY, .mode = (m), .target = "" \
    }
#define LINK_TO(to)                                          \
    {                                                        \
        .path = "p", .kind = ATOLL_SYNC_LINK, .target = (to) \
    }
#define NONE         \
    {                \
        .path = NULL \
    }

struct row {
    const char *what;
    struct atoll_sync_entry local, remote;
    struct atoll_sync_pair base; /* local.path NULL: none */
    enum atoll_sync_act one_way, two_way;
};

static const struct row rows[] = {
    {"new here", FILE_OF(1, 1000), NONE, {NONE, NONE}, ATOLL_SYNC_PUSH, ATOLL_SYNC_PUSH},
    {"new there", NONE, FILE_OF(1, 1000), {NONE, NONE}, ATOLL_SYNC_IGNORE, ATOLL_SYNC_PULL},
    {"both new, equal",
     FILE_OF(1, 1000),
     FILE_OF(1, 1900),
     {NONE, NONE},
     ATOLL_SYNC_KEEP,
     ATOLL_SYNC_KEEP},
    {"both new, different",
     FILE_OF(1, 1000),
     FILE_OF(2, 1000),
     {NONE, NONE},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_CONFLICT},
    {"in step",
     FILE_OF(1, 1000),
     FILE_OF(1, 5000),
     {FILE_OF(1, 1000), FILE_OF(1, 5000)},
     ATOLL_SYNC_KEEP,
     ATOLL_SYNC_KEEP},
    {"changed here",
     FILE_OF(2, 2000),
     FILE_OF(1, 1000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_PUSH,
     ATOLL_SYNC_PUSH},
    {"changed here within a second",
     FILE_OF(1, 1001),
     FILE_OF(1, 1000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_PUSH,
     ATOLL_SYNC_PUSH},
    {"changed there",
     FILE_OF(1, 1000),
     FILE_OF(3, 3000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_PULL},
    {"changed on both sides",
     FILE_OF(2, 2000),
     FILE_OF(3, 3000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_CONFLICT},
    {"changed to the same",
     FILE_OF(2, 2000),
     FILE_OF(2, 2000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_KEEP,
     ATOLL_SYNC_KEEP},
    {"removed here",
     NONE,
     FILE_OF(1, 1000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_REMOVE_REMOTE,
     ATOLL_SYNC_REMOVE_REMOTE},
    {"removed there",
     FILE_OF(1, 1000),
     NONE,
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_PUSH,
     ATOLL_SYNC_REMOVE_LOCAL},
    {"removed here, changed there",
     NONE,
     FILE_OF(3, 3000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_CONFLICT},
    {"changed here, removed there",
     FILE_OF(2, 2000),
     NONE,
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_CONFLICT},
    {"removed on both sides",
     NONE,
     NONE,
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_KEEP,
     ATOLL_SYNC_KEEP},
    {"a directory has no time",
     DIR_OF(0755),
     DIR_OF(0755),
     {NONE, NONE},
     ATOLL_SYNC_KEEP,
     ATOLL_SYNC_KEEP},
    {"a mode changed here",
     DIR_OF(0700),
     DIR_OF(0755),
     {DIR_OF(0755), DIR_OF(0755)},
     ATOLL_SYNC_PUSH,
     ATOLL_SYNC_PUSH},
    {"a file became a directory",
     DIR_OF(0755),
     FILE_OF(1, 1000),
     {FILE_OF(1, 1000), FILE_OF(1, 1000)},
     ATOLL_SYNC_PUSH,
     ATOLL_SYNC_PUSH},
    {"a link changed there",
     LINK_TO("a"),
     LINK_TO("b"),
     {LINK_TO("a"), LINK_TO("a")},
     ATOLL_SYNC_CONFLICT,
     ATOLL_SYNC_PULL},
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++)
        for (int two_way = 0; two_way < 2; two_way++) {
            struct row row = rows[i];
            struct atoll_sync_list local = {&row.local, row.local.path != NULL};
            struct atoll_sync_list remote = {&row.remote, row.remote.path != NULL};
            struct atoll_sync_base base = {&row.base, row.base.local.path != NULL};
            struct atoll_sync_step steps[3];

            assert_int_equal(atoll_sync_plan(&local, &remote, &base, two_way, steps), 1);
            if (steps[0].act != (two_way ? row.two_way : row.one_way))
                fail_msg("%s, %s: %d", row.what, two_way ? "two-way" : "one-way", steps[0].act);
        }
}

static void test_paths_are_merged_in_order(void **state)
{
    struct atoll_sync_entry l[] = {FILE_OF(1, 1), FILE_OF(1, 1)};
    struct atoll_sync_entry r[] = {FILE_OF(1, 1), FILE_OF(1, 1)};
    struct atoll_sync_pair b[] = {{FILE_OF(1, 1), FILE_OF(1, 1)}};
    struct atoll_sync_list local = {l, 2}, remote = {r, 2};
    struct atoll_sync_base base = {b, 1};
    struct atoll_sync_step steps[5];

    (void)state;
    l[0].path = "a";
    l[1].path = "c";
    r[0].path = "b";
    r[1].path = "c";
    b[0].local.path = b[0].remote.path = "d";
    assert_int_equal(atoll_sync_plan(&local, &remote, &base, true, steps), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(*atoll_sync_step_path(&steps[i]), 'a' + i);
    assert_int_equal(steps[0].act, ATOLL_SYNC_PUSH);
    assert_int_equal(steps[1].act, ATOLL_SYNC_PULL);
    assert_int_equal(steps[2].act, ATOLL_SYNC_KEEP);
    assert_int_equal(steps[3].act, ATOLL_SYNC_KEEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_paths_are_merged_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
