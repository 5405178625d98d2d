#include "cli/verify_print.h"

#include <stdio.h>
#include <string.h>
#include "cli/print.h"

#define WIDTH 96

static void print_heading(const char *text)
{
    (void)fputc('\n', stdout);
    atoll_cli_put_colour(stdout, ATOLL_CLI_BOLD, text);
    (void)fputc('\n', stdout);
}

/* Findings, with evidence and advice. */
static void print_findings(const struct atoll_report *report)
{
    bool any = false;

    for (size_t i = 0; i < atoll_report_size(report); i++) {
        const struct atoll_result *result = atoll_report_at(report, i);
        if (result->verdict != ATOLL_VERDICT_FOUND || strcmp(result->tier, ATOLL_TIER_CONTROL) == 0)
            continue;
        if (!any)
            print_heading("Findings");
        any = true;
        atoll_cli_put_colour(stdout, ATOLL_CLI_RED, "✗ ");
        (void)printf("%s (%s, row %s): it does not hold that ", result->check->id, result->tier,
                     result->check->row);
        atoll_cli_put(stdout, result->check->what);
        (void)fputs("\n    seen: ", stdout);
        atoll_cli_put(stdout, result->evidence);
        (void)fputs("\n    ", stdout);
        atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, "→ ");
        atoll_cli_put_colour(stdout, ATOLL_CLI_DIM, result->check->advice);
        (void)fputc('\n', stdout);
    }
}

static void print_tiers(const struct atoll_report *report)
{
    static const char *const names[] = {"TIER",           "HOLD",        "FINDINGS",
                                        "CANNOT BE TOLD", "NOT OFFERED", NULL};
    struct atoll_cli_table table;
    const char *tier = NULL;

    (void)fputc('\n', stdout);
    atoll_cli_table_init(&table, names);
    while ((tier = atoll_report_next_tier(report, tier)) != NULL) {
        struct atoll_report_counts counts = atoll_report_count(report, tier);
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", tier);
        atoll_cli_table_add(&table, ATOLL_CLI_GREEN, "%zu", counts.holds);
        atoll_cli_table_add(&table, counts.found ? ATOLL_CLI_RED : ATOLL_CLI_PLAIN, "%zu",
                            counts.found);
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%zu", counts.unknown);
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%zu", counts.not_offered);
    }
    atoll_cli_table_finish(&table, stdout);
}

/* Evidence is "REASON (DETAILS)": the length of the reason. */
static size_t reason_len(const char *evidence)
{
    const char *end = strstr(evidence, " (");
    return end ? (size_t)(end - evidence) : strlen(evidence);
}

static bool same_reason(const struct atoll_result *a, const struct atoll_result *b)
{
    size_t n = reason_len(a->evidence);

    return strcmp(a->tier, b->tier) == 0 && n == reason_len(b->evidence) &&
           memcmp(a->evidence, b->evidence, n) == 0;
}

/* Prints the ids of the results from `first` on that have the same reason, wrapped to WIDTH. */
static void print_ids(const struct atoll_report *report, size_t first)
{
    const struct atoll_result *like = atoll_report_at(report, first);
    size_t column = 0;

    for (size_t i = first; i < atoll_report_size(report); i++) {
        const struct atoll_result *result = atoll_report_at(report, i);
        size_t n = strlen(result->check->id);
        if (result->verdict != ATOLL_VERDICT_NOT_OFFERED || !same_reason(like, result))
            continue;
        if (column == 0 || column + n + 1 > WIDTH) {
            (void)printf("%s     ", column ? "\n" : "");
            column = 5;
        }
        (void)printf(" %s", result->check->id);
        column += n + 1;
    }
    (void)fputc('\n', stdout);
}

static void print_not_offered(const struct atoll_report *report)
{
    bool any = false;

    for (size_t i = 0; i < atoll_report_size(report); i++) {
        const struct atoll_result *result = atoll_report_at(report, i);
        bool told = false;
        if (result->verdict != ATOLL_VERDICT_NOT_OFFERED)
            continue;
        for (size_t k = 0; k < i && !told; k++)
            told = atoll_report_at(report, k)->verdict == ATOLL_VERDICT_NOT_OFFERED &&
                   same_reason(atoll_report_at(report, k), result);
        if (told)
            continue;
        if (!any)
            print_heading("Not offered, by the nature of the tier");
        any = true;
        (void)printf("  %s: %.*s\n", result->tier, (int)reason_len(result->evidence),
                     result->evidence);
        print_ids(report, i);
    }
}

static bool cannot_be_told(const struct atoll_report *report, const struct atoll_result *result)
{
    return strcmp(result->tier, ATOLL_TIER_CONTROL) != 0 &&
           atoll_report_conclude(report, result) == ATOLL_VERDICT_UNKNOWN;
}

/* Prints each check once, with the evidence of its control. */
static void print_unknown(const struct atoll_report *report)
{
    bool any = false;

    for (size_t i = 0; i < atoll_report_size(report); i++) {
        const struct atoll_result *result = atoll_report_at(report, i), *control;
        bool told = false;
        if (!cannot_be_told(report, result))
            continue;
        for (size_t k = 0; k < i && !told; k++)
            told = atoll_report_at(report, k)->check == result->check &&
                   atoll_report_at(report, k)->verdict == result->verdict &&
                   cannot_be_told(report, atoll_report_at(report, k));
        if (told)
            continue;
        if (!any)
            print_heading("Cannot be told on this host");
        any = true;
        control = atoll_report_find(report, ATOLL_TIER_CONTROL, result->check->id);
        (void)printf("  %-22s ", result->check->id);
        if (result->verdict == ATOLL_VERDICT_UNKNOWN) {
            (void)printf("%s: ", result->tier);
            atoll_cli_put(stdout, result->evidence);
        } else {
            (void)fputs(control ? "outside a sandbox neither: " : "there is no control for it",
                        stdout);
            atoll_cli_put(stdout, control ? control->evidence : "");
        }
        (void)fputc('\n', stdout);
    }
}

static void print_troubles(const struct atoll_report *report)
{
    const char *trouble;

    if (atoll_report_trouble_at(report, 0))
        print_heading("Could not be verified");
    for (size_t i = 0; (trouble = atoll_report_trouble_at(report, i)) != NULL; i++) {
        atoll_cli_put_colour(stdout, ATOLL_CLI_YELLOW, "! ");
        atoll_cli_put(stdout, trouble);
        (void)fputc('\n', stdout);
    }
}

void atoll_cli_verify_print(const struct atoll_report *report)
{
    struct atoll_report_counts counts = atoll_report_count(report, NULL);
    bool trouble = atoll_report_trouble_at(report, 0) != NULL;

    print_findings(report);
    print_troubles(report);
    print_not_offered(report);
    print_unknown(report);
    print_tiers(report);
    (void)fputc('\n', stdout);
    if (counts.found > 0)
        atoll_cli_put_colour(stdout, ATOLL_CLI_RED, "There are findings: ");
    else if (trouble)
        atoll_cli_put_colour(stdout, ATOLL_CLI_YELLOW, "This proves too little: ");
    else
        atoll_cli_put_colour(stdout, ATOLL_CLI_GREEN, "No findings: ");
    (void)printf("%zu %s open outside of a sandbox, %zu %s.\n", counts.holds,
                 counts.holds == 1 ? "promise holds that is" : "promises hold that are",
                 counts.found, counts.found == 1 ? "does not" : "do not");
}

/* Names the tiers that do not offer the promise of check `id`. */
static void name_exceptions(const json_t *list, const char *id, char *out, size_t cap)
{
    const json_t *rows = json_object_get(list, "not_offered");
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *isolation = atoll_link_text(row, "isolation", "");
        if (strcmp(atoll_link_text(row, "id", ""), id) != 0 || len >= cap)
            continue;
        len += (size_t)snprintf(out + len, cap - len, "%s%s%s%s", len ? ", " : "",
                                json_is_true(json_object_get(row, "rootless")) ? "rootless " : "",
                                *isolation ? isolation : "any",
                                *atoll_link_text(row, "user", "") ? " as root" : "");
    }
}

void atoll_cli_verify_print_list(const json_t *list)
{
    static const char *const names[] = {"CHECK", "ROW", "PROMISE", "NOT OFFERED BY", NULL};
    const json_t *checks = json_object_get(list, "checks");
    struct atoll_cli_table table;
    char where[80];

    atoll_cli_table_init(&table, names);
    for (size_t i = 0; i < json_array_size(checks); i++) {
        const json_t *check = json_array_get(checks, i);
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(check, "id", "?"));
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(check, "row", "?"));
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", atoll_link_text(check, "what", "?"));
        name_exceptions(list, atoll_link_text(check, "id", "?"), where, sizeof(where));
        atoll_cli_table_add(&table, ATOLL_CLI_PLAIN, "%s", where);
    }
    atoll_cli_table_finish(&table, stdout);
}
