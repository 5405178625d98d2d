/*
 * Which of the sizes of a service a sandbox gets.
 */
#include "test.h"

#include "provider/sizes.h"

#define MIB (UINT64_C(1) << 20)

static const struct atoll_size sizes[] = {
    {"large", 4096 * MIB, 4000},
    {"small", 512 * MIB, 1000},
    {"wide", 512 * MIB, 2000},
};

static void the_smallest_that_fits(void **state)
{
    static const struct {
        uint64_t memory_mib;
        uint32_t cpu_millis, waived;
        const char *name; /* NULL: none */
    } rows[] = {
        {256, 500, 0, "small"},
        {512, 1000, 0, "small"},
        {512, 1001, 0, "wide"},
        {513, 100, 0, "large"},
        {4096, 4000, 0, "large"},
        {4097, 100, 0, NULL},
        {100, 4001, 0, NULL},
        {9999, 1000, ATOLL_LIMIT_MEMORY, "small"},
        {9999, 1500, ATOLL_LIMIT_MEMORY, "wide"},
        {600, 9999, ATOLL_LIMIT_CPU, "large"},
    };

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const struct atoll_limits limits = {.memory_bytes = rows[i].memory_mib * MIB,
                                            .cpu_millis = rows[i].cpu_millis};
        const struct atoll_size *size = atoll_size_choose(sizes, 3, &limits, rows[i].waived);

        assert_int_equal(size != NULL, rows[i].name != NULL);
        if (size)
            assert_string_equal(size->template_name, rows[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
