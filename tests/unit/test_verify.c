/* The report of a verification: what results come to, and the tables they are judged by. */
#include <regex.h>
#include <string.h>
#include "test.h"
#include "tools/verify/attacks.h"
#include "tools/verify/checks.h"
#include "tools/verify/forks.h"
#include "tools/verify/report.h"

static const struct atoll_check open_outside = {"a.open", "1", "one", "advice"};
static const struct atoll_check closed_outside = {"a.closed", "2", "two", "advice"};
static const struct atoll_check never_tried = {"b.never", "3", "three", "advice"};

static int set_up(void **state)
{
    struct atoll_report *report = atoll_report_new();

    atoll_report_add(report, ATOLL_TIER_CONTROL, &open_outside, ATOLL_VERDICT_FOUND, "open");
    atoll_report_add(report, ATOLL_TIER_CONTROL, &closed_outside, ATOLL_VERDICT_HOLDS, "closed");
    *state = report;
    return 0;
}

static int tear_down(void **state)
{
    atoll_report_free(*state);
    return 0;
}

/* Only what fails outside is proven by holding inside. */
static void test_control_makes_the_proof(void **state)
{
    struct atoll_report *report = *state;
    struct atoll_report_counts counts;

    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_HOLDS, "closed");
    atoll_report_add(report, "native", &closed_outside, ATOLL_VERDICT_HOLDS, "closed");
    atoll_report_add(report, "native", &never_tried, ATOLL_VERDICT_HOLDS, "closed");
    counts = atoll_report_count(report, NULL);
    assert_int_equal(counts.holds, 1);
    assert_int_equal(counts.unknown, 2);
    assert_int_equal(counts.found, 0);
}

/* A finding is one whatever the control says. */
static void test_findings_need_no_control(void **state)
{
    struct atoll_report *report = *state;

    atoll_report_add(report, "native", &closed_outside, ATOLL_VERDICT_FOUND, "open %d", 7);
    assert_int_equal(atoll_report_count(report, "native").found, 1);
    assert_string_equal(atoll_report_find(report, "native", "a.closed")->evidence, "open 7");
}

static void test_the_worse_result_counts(void **state)
{
    struct atoll_report *report = *state;

    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_HOLDS, "first");
    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_FOUND, "second");
    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_HOLDS, "third");
    assert_string_equal(atoll_report_find(report, "native", "a.open")->evidence, "second");
    assert_int_equal(atoll_report_size(report), 3);
}

static void test_tiers_come_in_order(void **state)
{
    struct atoll_report *report = *state;
    const char *tier;

    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_HOLDS, "x");
    atoll_report_add(report, "docker", &open_outside, ATOLL_VERDICT_HOLDS, "x");
    atoll_report_add(report, "native", &closed_outside, ATOLL_VERDICT_HOLDS, "x");
    tier = atoll_report_next_tier(report, NULL);
    assert_string_equal(tier, "native");
    tier = atoll_report_next_tier(report, tier);
    assert_string_equal(tier, "docker");
    assert_null(atoll_report_next_tier(report, tier));
}

static void test_json(void **state)
{
    struct atoll_report *report = *state;
    json_t *object, *tier;

    atoll_report_add(report, "native", &open_outside, ATOLL_VERDICT_FOUND, "no \xff UTF-8");
    atoll_report_trouble(report, "%s is down", "docker");
    object = atoll_report_json(report);
    assert_int_equal(json_integer_value(json_object_get(object, "findings")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(object, "trouble"), 0)),
                        "docker is down");
    tier = json_array_get(json_object_get(object, "tiers"), 0);
    assert_string_equal(json_string_value(json_object_get(tier, "tier")), "native");
    assert_int_equal(json_array_size(json_object_get(object, "control")), 2);
    json_decref(object);
}

static void test_only(void **state)
{
    struct atoll_verify v = {.only = NULL};

    (void)state;
    assert_true(atoll_verify_wants(&v, &open_outside));
    v.only = "b.,a.op";
    assert_true(atoll_verify_wants(&v, &open_outside));
    assert_true(atoll_verify_wants(&v, &never_tried));
    assert_false(atoll_verify_wants(&v, &closed_outside));
    v.only = "";
    assert_false(atoll_verify_wants(&v, &open_outside));
}

static bool is_check(const char *id)
{
    return atoll_check_find(atoll_probe_checks, atoll_probe_checks_count, id) ||
           atoll_check_find(atoll_posture_checks, atoll_posture_checks_count, id) ||
           atoll_check_find(atoll_residue_checks, atoll_residue_checks_count, id) ||
           atoll_check_find(atoll_fork_checks, atoll_fork_checks_count, id) ||
           atoll_check_find(atoll_bomb_checks, atoll_bomb_checks_count, id) ||
           atoll_check_find(atoll_quota_checks, atoll_quota_checks_count, id) ||
           atoll_check_find(atoll_network_checks, atoll_network_checks_count, id) ||
           atoll_check_find(atoll_attack_checks, atoll_attack_checks_count, id);
}

/* A row that names nothing, or matches nothing, would hide that it is of no use. */
static void test_every_exception_is_about_a_check(void **state)
{
    regex_t regex;

    (void)state;
    for (size_t i = 0; i < atoll_not_offered_count; i++) {
        assert_true(is_check(atoll_not_offered[i].id));
        assert_int_equal(regcomp(&regex, atoll_not_offered[i].how, REG_EXTENDED | REG_NOSUB), 0);
        regfree(&regex);
    }
}

static void test_exceptions_are_to_the_letter(void **state)
{
    const struct atoll_tier_kind docker = {"container", "user", false};
    const struct atoll_tier_kind native = {"namespaces", "user", false};
    const struct atoll_tier_kind root = {"namespaces", "root", false};

    (void)state;
    assert_non_null(atoll_not_offered_reason(&docker, "dev.minimal", "mqueue"));
    assert_null(atoll_not_offered_reason(&docker, "dev.minimal", "mqueue, kvm"));
    assert_null(atoll_not_offered_reason(&native, "dev.minimal", "mqueue"));
    assert_non_null(atoll_not_offered_reason(&root, "id.nonroot", "uid 0 gid 0"));
    assert_null(atoll_not_offered_reason(&native, "id.nonroot", "uid 0 gid 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_control_makes_the_proof, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_findings_need_no_control, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_worse_result_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tiers_come_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json, set_up, tear_down),
        cmocka_unit_test(test_only),
        cmocka_unit_test(test_every_exception_is_about_a_check),
        cmocka_unit_test(test_exceptions_are_to_the_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
