/* Who owns which range of ids, and for how long. */
#include <errno.h>
#include <string.h>
#include "base/rand.h"
#include "provider/native/id_ranges.h"
#include "test.h"

#define BASE (1u << 28)
#define OTHER (2u << 28)

static struct atoll_spec spec_of(bool persistent)
{
    struct atoll_spec spec = {.persistent = persistent};

    atoll_rand_id(spec.id, ATOLL_ID_LEN);
    return spec;
}

static void open_homes(struct atoll_id_ranges *h, uint32_t base, uint32_t count)
{
    struct atoll_id_pool slots;

    atoll_id_pool_init(&slots);
    assert_int_equal(atoll_id_pool_add(&slots, base, count), 0);
    atoll_id_ranges_open(h, &slots);
}

static void ranges_are_given_back(void **state)
{
    struct atoll_spec a = spec_of(false), b = spec_of(false), c = spec_of(false);
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    atoll_id_ranges_init(&h);
    open_homes(&h, BASE, 2);
    assert_int_equal(atoll_id_ranges_take(&h, &a, &err), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &b, &err), 0);
    assert_int_not_equal(a.outside_id, b.outside_id);
    assert_true(atoll_id_ranges_take(&h, &c, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
    atoll_id_ranges_forget(&h, a.id);
    atoll_id_ranges_forget(&h, a.id);
    assert_int_equal(atoll_id_ranges_take(&h, &c, &err), 0);
    assert_int_equal(c.outside_id, a.outside_id);
    assert_true(atoll_id_ranges_take(&h, &c, &err) < 0);
    atoll_id_ranges_done(&h);
}

static void a_persistent_one_holds_on_to_its_own(void **state)
{
    struct atoll_spec kept = spec_of(true), mortal = spec_of(false), other = spec_of(false);
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    atoll_id_ranges_init(&h);
    open_homes(&h, BASE, 2);
    assert_int_equal(atoll_id_ranges_take(&h, &kept, &err), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &mortal, &err), 0);
    /* atoll-spawn died: only what can start again has a home. */
    open_homes(&h, BASE, 2);
    assert_int_equal(atoll_id_ranges_take(&h, &other, &err), 0);
    assert_int_equal(other.outside_id, mortal.outside_id);
    kept.resume_disk = true;
    assert_int_equal(atoll_id_ranges_take(&h, &kept, &err), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &kept, &err), 0);
    atoll_id_ranges_done(&h);
}

static void one_from_before_is_reserved(void **state)
{
    struct atoll_spec kept = spec_of(true), other = spec_of(false);
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    kept.outside_id = BASE + ATOLL_ID_RANGE;
    atoll_id_ranges_init(&h);
    open_homes(&h, BASE, 2);
    atoll_id_ranges_reserve(&h, &kept);
    atoll_id_ranges_reserve(&h, &kept);
    assert_int_equal(atoll_id_ranges_take(&h, &other, &err), 0);
    assert_int_equal(other.outside_id, BASE);
    atoll_id_ranges_forget(&h, kept.id);
    kept.resume_disk = true;
    assert_true(atoll_id_ranges_take(&h, &kept, &err) < 0);
    atoll_id_ranges_done(&h);
}

static void ids_of_another_instance_are_refused(void **state)
{
    struct atoll_spec kept = spec_of(true), moved = spec_of(true);
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    kept.outside_id = moved.outside_id = OTHER;
    atoll_id_ranges_init(&h);
    open_homes(&h, BASE, 2);
    atoll_id_ranges_reserve(&h, &kept);
    kept.resume_disk = true;
    assert_true(atoll_id_ranges_take(&h, &kept, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "another instance"));
    /* The same for one whose block went away with a dead atoll-spawn. */
    open_homes(&h, OTHER, 2);
    atoll_id_ranges_reserve(&h, &moved);
    open_homes(&h, BASE, 2);
    moved.resume_disk = true;
    assert_true(atoll_id_ranges_take(&h, &moved, &err) < 0);
    atoll_id_ranges_forget(&h, moved.id);
    atoll_id_ranges_done(&h);
}

static void without_root_there_are_none(void **state)
{
    struct atoll_spec spec = spec_of(false);
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    atoll_id_ranges_init(&h);
    open_homes(&h, 0, 0);
    assert_int_equal(atoll_id_ranges_take(&h, &spec, &err), 0);
    assert_int_equal(spec.outside_id, 0);
    atoll_id_ranges_done(&h);
}

/* Ranges come from the first block that has one, so that later blocks become empty and can go. */
static void more_blocks_come_and_go(void **state)
{
    struct atoll_spec specs[6];
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    atoll_id_ranges_init(&h);
    open_homes(&h, BASE, 2);
    for (size_t i = 0; i < 6; i++)
        specs[i] = spec_of(false);
    assert_int_equal(atoll_id_ranges_take(&h, &specs[0], &err), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &specs[1], &err), 0);
    assert_true(atoll_id_ranges_take(&h, &specs[2], &err) < 0);
    assert_int_equal(atoll_id_pool_add(&h.slots, OTHER, 2), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &specs[2], &err), 0);
    assert_int_equal(specs[2].outside_id, OTHER);
    /* In use, and then not to spare. */
    assert_int_equal(atoll_id_pool_drop(&h.slots, 0), 0);
    atoll_id_ranges_forget(&h, specs[2].id);
    assert_int_equal(atoll_id_pool_drop(&h.slots, 1), 0);
    atoll_id_ranges_forget(&h, specs[0].id);
    assert_int_equal(atoll_id_ranges_take(&h, &specs[3], &err), 0);
    assert_int_equal(specs[3].outside_id, specs[0].outside_id);
    atoll_id_ranges_forget(&h, specs[1].id);
    assert_int_equal(atoll_id_pool_drop(&h.slots, 1), OTHER);
    assert_int_equal(h.slots.count, 2);
    /* The first one stays, empty or not. */
    atoll_id_ranges_forget(&h, specs[3].id);
    assert_int_equal(atoll_id_pool_drop(&h.slots, 0), 0);
    assert_int_equal(h.slots.used, 0);
    atoll_id_ranges_done(&h);
}

static void persistent_ones_hold_their_block(void **state)
{
    struct atoll_spec kept = spec_of(true), other = spec_of(false);
    struct atoll_id_pool slots;
    struct atoll_id_ranges h;
    struct atoll_error err;

    (void)state;
    kept.outside_id = OTHER + ATOLL_ID_RANGE;
    atoll_id_ranges_init(&h);
    atoll_id_pool_init(&slots);
    assert_int_equal(atoll_id_pool_add(&slots, BASE, 2), 0);
    assert_int_equal(atoll_id_pool_add(&slots, OTHER, 2), 0);
    atoll_id_ranges_open(&h, &slots);
    atoll_id_ranges_reserve(&h, &kept);
    assert_int_equal(atoll_id_pool_drop(&h.slots, 0), 0);
    kept.resume_disk = true;
    assert_int_equal(atoll_id_ranges_take(&h, &kept, &err), 0);
    assert_int_equal(atoll_id_ranges_take(&h, &other, &err), 0);
    assert_int_equal(other.outside_id, BASE);
    atoll_id_ranges_forget(&h, kept.id);
    assert_int_equal(atoll_id_pool_drop(&h.slots, 0), OTHER);
    atoll_id_ranges_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_given_back),
        cmocka_unit_test(a_persistent_one_holds_on_to_its_own),
        cmocka_unit_test(one_from_before_is_reserved),
        cmocka_unit_test(ids_of_another_instance_are_refused),
        cmocka_unit_test(without_root_there_are_none),
        cmocka_unit_test(more_blocks_come_and_go),
        cmocka_unit_test(persistent_ones_hold_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
