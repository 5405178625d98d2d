/*
 * What the agent reads in cgroup files, and the files of /proc it makes of that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/views.h"

static struct atoll_buf buf;

static const char *print(enum atoll_view view, const struct atoll_view_facts *f, const char *cpu)
{
    atoll_buf_clear(&buf);
    assert_int_equal(atoll_view_print(view, f, cpu, &buf), 0);
    return atoll_buf_str(&buf);
}

static void limits(void **state)
{
    (void)state;
    assert_true(atoll_view_parse_limit("268435456\n") == 268435456);
    assert_true(atoll_view_parse_limit("max\n") == UINT64_MAX);
    assert_true(atoll_view_parse_limit("9223372036854771712\n") == UINT64_MAX);
    assert_true(atoll_view_parse_limit("") == UINT64_MAX);
    assert_int_equal(atoll_view_parse_cpus("100000\n"), 1);
    assert_int_equal(atoll_view_parse_cpus("100001\n"), 2);
    assert_int_equal(atoll_view_parse_cpus("1000\n"), 1);
    assert_int_equal(atoll_view_parse_cpus("-1\n"), 0);
    assert_int_equal(atoll_view_parse_cpus("150000 100000\n"), 2);
    assert_int_equal(atoll_view_parse_cpus("50000 10000\n"), 5);
    assert_int_equal(atoll_view_parse_cpus("max 100000\n"), 0);
    assert_int_equal(atoll_view_parse_cpus(""), 0);
}

static void stats(void **state)
{
    struct atoll_view_facts v1 = {0}, v2 = {0};

    (void)state;
    atoll_view_parse_memory("cache 1\nshmem 2\ntotal_cache 4096\ntotal_shmem 1024\n"
                            "total_mapped_file 7\ntotal_inactive_file 8\n",
                            &v1);
    assert_true(v1.cache == 4096 && v1.shmem == 1024 && v1.mapped == 7 && v1.file_inactive == 8);
    atoll_view_parse_memory("anon 1\nfile 4096\nkernel 3\nshmem 1024\nfile_mapped 7\n"
                            "inactive_file 8\n",
                            &v2);
    assert_true(v2.cache == 4096 && v2.shmem == 1024 && v2.mapped == 7 && v2.file_inactive == 8);
    atoll_view_parse_cpu("user 12\nsystem 34\n", &v1);
    assert_true(v1.cpu_user == 12 && v1.cpu_system == 34);
    atoll_view_parse_cpu("usage_usec 460000\nuser_usec 120000\nsystem_usec 340000\n", &v2);
    assert_true(v2.cpu_user == 12 && v2.cpu_system == 34);
}

static void meminfo(void **state)
{
    const struct atoll_view_facts f = {
        .memory_total = 1 << 20, .memory_used = 600 << 10, .cache = 200 << 10, .shmem = 50 << 10};
    const struct atoll_view_facts over = {.memory_total = 1 << 20, .memory_used = 2 << 20};
    const char *text = print(ATOLL_VIEW_MEMINFO, &f, "");

    (void)state;
    assert_non_null(strstr(text, "MemTotal:           1024 kB\n"));
    assert_non_null(strstr(text, "MemFree:             424 kB\n"));
    assert_non_null(strstr(text, "MemAvailable:        574 kB\n"));
    assert_non_null(strstr(text, "Shmem:                50 kB\n"));
    assert_non_null(strstr(print(ATOLL_VIEW_MEMINFO, &over, ""), "MemFree:               0 kB\n"));
}

static void cpus(void **state)
{
    const struct atoll_view_facts f = {.cpus = 2,
                                       .cpu_user = 100,
                                       .cpu_system = 50,
                                       .uptime = 1000,
                                       .boot_unix_s = 7,
                                       .running = 1,
                                       .last_pid = 9};
    static const char cpu[] = "processor\t: 5\nmodel name\t: x: y\nsiblings\t: 64\n"
                              "core id\t\t: 3\nflags\t\t: a\npower management:\n";

    (void)state;
    assert_non_null(strstr(print(ATOLL_VIEW_STAT, &f, ""),
                           "cpu  100 0 50 1850 0 0 0 0 0 0\ncpu0 50 0 25 925 0 0 0 0 0 0\n"
                           "cpu1 50 0 25 925 0 0 0 0 0 0\n"));
    assert_non_null(strstr(print(ATOLL_VIEW_STAT, &f, ""), "btime 7\nprocesses 9\n"));
    assert_string_equal(print(ATOLL_VIEW_UPTIME, &f, ""), "10.00 18.50\n");
    assert_string_equal(print(ATOLL_VIEW_CPUINFO, &f, cpu),
                        "processor\t: 0\nmodel name\t: x: y\nsiblings\t: 2\ncore id\t\t: 0\n"
                        "flags\t\t: a\npower management:\n\n"
                        "processor\t: 1\nmodel name\t: x: y\nsiblings\t: 2\ncore id\t\t: 1\n"
                        "flags\t\t: a\npower management:\n\n");
}

static void loads(void **state)
{
    struct atoll_view_facts f = {.running = 2, .processes = 3, .last_pid = 40};

    (void)state;
    assert_string_equal(print(ATOLL_VIEW_LOADAVG, &f, ""), "0.00 0.00 0.00 2/3 40\n");
    for (int i = 0; i < 12; i++)
        atoll_view_add_load(f.load, 1);
    /* A minute of one: 1 - 1/e, and less over more minutes. */
    assert_string_equal(print(ATOLL_VIEW_LOADAVG, &f, ""), "0.63 0.18 0.06 2/3 40\n");
    for (int i = 0; i < 2000; i++)
        atoll_view_add_load(f.load, 3);
    assert_string_equal(print(ATOLL_VIEW_LOADAVG, &f, ""), "3.00 3.00 3.00 2/3 40\n");
    for (int i = 0; i < 2000; i++)
        atoll_view_add_load(f.load, 0);
    assert_string_equal(print(ATOLL_VIEW_LOADAVG, &f, ""), "0.00 0.00 0.00 2/3 40\n");
}

static void needs(void **state)
{
    const int none[ATOLL_CGF_COUNT] = {-1, -1, -1, -1, -1};
    const int all[ATOLL_CGF_COUNT] = {3, 4, 5, 6, 7};

    (void)state;
    for (int i = 0; i < ATOLL_VIEW_COUNT; i++)
        assert_true(atoll_view_is_possible((enum atoll_view)i, all));
    assert_true(atoll_view_is_possible(ATOLL_VIEW_LOADAVG, none));
    assert_false(atoll_view_is_possible(ATOLL_VIEW_MEMINFO, none));
    assert_false(atoll_view_is_possible(ATOLL_VIEW_STAT, none));
    assert_false(atoll_view_is_possible(ATOLL_VIEW_UPTIME, none));
    assert_false(atoll_view_is_possible(ATOLL_VIEW_CPUINFO, none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits), cmocka_unit_test(stats), cmocka_unit_test(meminfo),
        cmocka_unit_test(cpus),   cmocka_unit_test(loads), cmocka_unit_test(needs),
    };
    int failed;

    atoll_buf_init(&buf, 65536);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    atoll_buf_done(&buf);
    return failed;
}
