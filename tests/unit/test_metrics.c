/*
 * The table of metrics: what is written, and what happens when there are too many series.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"

static struct atoll_buf text;

static int set_up(void **state)
{
    (void)state;
    atoll_metrics_reset();
    atoll_buf_init(&text, 4 * 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atoll_buf_done(&text);
    return 0;
}

static const char *written(void)
{
    atoll_buf_clear(&text);
    assert_int_equal(atoll_metrics_write(&text), 0);
    return atoll_buf_str(&text);
}

static void assert_line(const char *line)
{
    const char *all = written(), *at = strstr(all, line);

    if (!at || (at != all && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line \"%s\" in:\n%s", line, all);
}

static void counters_and_gauges(void **state)
{
    (void)state;
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("not_found"), 1);
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("internal"), 1);
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("not_found"), 2);
    atoll_metric_set(ATOLL_METRIC_MEMORY, ATOLL_NO_LABELS, 12345678901);
    atoll_metric_set(ATOLL_METRIC_CPU_SECONDS, ATOLL_NO_LABELS, 1.25);
    atoll_metric_add(ATOLL_METRIC_HTTP_REQUESTS, ATOLL_LABELS("GET", "/a/{id}", "200"), 1);
    assert_line("atoll_errors_total{kind=\"not_found\"} 3");
    assert_line("atoll_errors_total{kind=\"internal\"} 1");
    assert_line("process_resident_memory_bytes 12345678901");
    assert_line("process_cpu_seconds_total 1.25");
    assert_line("atoll_http_requests_total{method=\"GET\",route=\"/a/{id}\",status=\"200\"} 1");
    assert_line("# TYPE atoll_errors_total counter");
    assert_line("# TYPE process_resident_memory_bytes gauge");
}

static void equal_texts_are_one_series(void **state)
{
    char copy[] = "not_found";

    (void)state;
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("not_found"), 1);
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS(copy), 1);
    assert_line("atoll_errors_total{kind=\"not_found\"} 2");
}

static void labels_are_quoted(void **state)
{
    (void)state;
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("a\"b\\c\nd"), 1);
    assert_line("atoll_errors_total{kind=\"a\\\"b\\\\c\\nd\"} 1");
}

static void histograms_are_cumulative(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS("native"), .0005);
    atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS("native"), .0015);
    atoll_metric_observe(ATOLL_METRIC_CREATE_SECONDS, ATOLL_LABELS("native"), 100);
    /* A bound belongs to its bucket. */
    assert_line("atoll_sandbox_create_seconds_bucket{provider=\"native\",le=\"0.0005\"} 3");
    assert_line("atoll_sandbox_create_seconds_bucket{provider=\"native\",le=\"0.001\"} 3");
    assert_line("atoll_sandbox_create_seconds_bucket{provider=\"native\",le=\"0.002\"} 4");
    assert_line("atoll_sandbox_create_seconds_bucket{provider=\"native\",le=\"5\"} 4");
    assert_line("atoll_sandbox_create_seconds_bucket{provider=\"native\",le=\"+Inf\"} 5");
    assert_line("atoll_sandbox_create_seconds_count{provider=\"native\"} 5");
    assert_line("atoll_sandbox_create_seconds_sum{provider=\"native\"} 100.003");
}

static void histograms_without_labels(void **state)
{
    (void)state;
    atoll_metric_observe(ATOLL_METRIC_EXEC_SECONDS, ATOLL_NO_LABELS, 2);
    assert_line("atoll_exec_seconds_bucket{le=\"1\"} 0");
    assert_line("atoll_exec_seconds_bucket{le=\"5\"} 1");
    assert_line("atoll_exec_seconds_count 1");
}

static void too_many_series_are_dropped(void **state)
{
    static char names[2 * ATOLL_METRICS_SERIES][8];

    (void)state;
    for (int i = 0; i < 2 * ATOLL_METRICS_SERIES; i++) {
        snprintf(names[i], sizeof(names[i]), "k%d", i);
        atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS(names[i]), 1);
    }
    /* The first found a place and still count; one place is for the dropped themselves. */
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("k0"), 1);
    assert_line("atoll_errors_total{kind=\"k0\"} 2");
    assert_line("atoll_metrics_dropped_total 1025");
}

static void a_small_buffer_is_an_error(void **state)
{
    struct atoll_buf small;

    (void)state;
    atoll_metric_add(ATOLL_METRIC_ERRORS, ATOLL_LABELS("x"), 1);
    atoll_buf_init(&small, 20);
    assert_true(atoll_metrics_write(&small) < 0);
    atoll_buf_done(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counters_and_gauges, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_texts_are_one_series, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_quoted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(histograms_are_cumulative, set_up, tear_down),
        cmocka_unit_test_setup_teardown(histograms_without_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_series_are_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_small_buffer_is_an_error, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
