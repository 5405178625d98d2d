#include "tools/verify/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RESULTS_MAX 20000
#define EVIDENCE_MAX 1024
#define TROUBLES_MAX 32
#define TROUBLE_MAX 400

struct atoll_report {
    struct atoll_result *results; /* owned */
    size_t n, cap;
    char trouble[TROUBLES_MAX][TROUBLE_MAX];
    size_t troubles;
};

struct atoll_report *atoll_report_new(void)
{
    return calloc(1, sizeof(struct atoll_report));
}

void atoll_report_free(struct atoll_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->n; i++)
        free(report->results[i].evidence);
    free(report->results);
    free(report);
}

void atoll_report_trouble(struct atoll_report *report, const char *fmt, ...)
{
    va_list ap;

    if (report->troubles == TROUBLES_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(report->trouble[report->troubles++], TROUBLE_MAX, fmt, ap);
    va_end(ap);
}

const char *atoll_report_trouble_at(const struct atoll_report *report, size_t i)
{
    return i < report->troubles ? report->trouble[i] : NULL;
}

size_t atoll_report_size(const struct atoll_report *report)
{
    return report->n;
}

const struct atoll_result *atoll_report_at(const struct atoll_report *report, size_t i)
{
    return &report->results[i];
}

static struct atoll_result *find(const struct atoll_report *report, const char *tier,
                                 const char *id)
{
    for (size_t i = 0; i < report->n; i++) {
        struct atoll_result *result = &report->results[i];
        if (strcmp(result->tier, tier) == 0 && strcmp(result->check->id, id) == 0)
            return result;
    }
    return NULL;
}

const struct atoll_result *atoll_report_find(const struct atoll_report *report, const char *tier,
                                             const char *id)
{
    return find(report, tier, id);
}

static int badness(enum atoll_verdict verdict)
{
    switch (verdict) {
    case ATOLL_VERDICT_HOLDS:
        return 0;
    case ATOLL_VERDICT_UNKNOWN:
        return 1;
    case ATOLL_VERDICT_NOT_OFFERED:
        return 2;
    case ATOLL_VERDICT_FOUND:
        break;
    }
    return 3;
}

/* Appends an empty result; NULL without memory. */
static struct atoll_result *append(struct atoll_report *report)
{
    if (report->n == report->cap) {
        size_t cap = report->cap ? report->cap * 2 : 256;
        struct atoll_result *grown =
            cap <= RESULTS_MAX ? realloc(report->results, cap * sizeof(*grown)) : NULL;
        if (!grown)
            return NULL;
        report->results = grown;
        report->cap = cap;
    }
    return &report->results[report->n];
}

void atoll_report_add(struct atoll_report *report, const char *tier,
                      const struct atoll_check *check, enum atoll_verdict verdict,
                      const char *evidence, ...)
{
    struct atoll_result *result = find(report, tier, check->id);
    char text[EVIDENCE_MAX], *copy;
    va_list ap;

    if (result && badness(verdict) <= badness(result->verdict))
        return;
    va_start(ap, evidence);
    (void)vsnprintf(text, sizeof(text), evidence, ap);
    va_end(ap);
    copy = strdup(text);
    if (copy && result) {
        free(result->evidence);
    } else if (copy) {
        result = append(report);
        report->n += result != NULL;
    }
    if (!copy || !result) {
        free(copy);
        atoll_report_trouble(report, "out of memory: a result of %s is lost", check->id);
        return;
    }
    *result =
        (struct atoll_result){.tier = tier, .check = check, .verdict = verdict, .evidence = copy};
}

void atoll_report_doubt(struct atoll_report *report, const char *tier, size_t from, const char *why)
{
    for (size_t i = from; i < report->n; i++) {
        struct atoll_result *result = &report->results[i];
        char *copy = strcmp(result->tier, tier) == 0 ? strdup(why) : NULL;
        if (!copy || result->verdict == ATOLL_VERDICT_NOT_OFFERED) {
            free(copy);
            continue;
        }
        free(result->evidence);
        result->evidence = copy;
        result->verdict = ATOLL_VERDICT_UNKNOWN;
    }
}

bool atoll_verify_wants(const struct atoll_verify *v, const struct atoll_check *check)
{
    for (const char *word = v->only; word && *word; word += word[strcspn(word, ",")] == ',') {
        size_t n = strcspn(word, ",");
        if (strncmp(check->id, word, n) == 0)
            return true;
        word += n;
    }
    return !v->only;
}

static bool is_control(const char *tier)
{
    return strcmp(tier, ATOLL_TIER_CONTROL) == 0;
}

enum atoll_verdict atoll_report_conclude(const struct atoll_report *report,
                                         const struct atoll_result *result)
{
    const struct atoll_result *control;

    if (result->verdict != ATOLL_VERDICT_HOLDS || is_control(result->tier))
        return result->verdict;
    control = find(report, ATOLL_TIER_CONTROL, result->check->id);
    return control && control->verdict == ATOLL_VERDICT_FOUND ? ATOLL_VERDICT_HOLDS
                                                              : ATOLL_VERDICT_UNKNOWN;
}

struct atoll_report_counts atoll_report_count(const struct atoll_report *report, const char *tier)
{
    struct atoll_report_counts counts = {0};

    for (size_t i = 0; i < report->n; i++) {
        const struct atoll_result *result = &report->results[i];
        if (tier ? strcmp(tier, result->tier) != 0 : is_control(result->tier))
            continue;
        switch (atoll_report_conclude(report, result)) {
        case ATOLL_VERDICT_HOLDS:
            counts.holds++;
            break;
        case ATOLL_VERDICT_FOUND:
            counts.found++;
            break;
        case ATOLL_VERDICT_UNKNOWN:
            counts.unknown++;
            break;
        case ATOLL_VERDICT_NOT_OFFERED:
            counts.not_offered++;
            break;
        }
    }
    return counts;
}

/* The index of the first result of a tier. */
static size_t first_of(const struct atoll_report *report, const char *tier)
{
    size_t i = 0;

    while (i < report->n && strcmp(report->results[i].tier, tier) != 0)
        i++;
    return i;
}

const char *atoll_report_next_tier(const struct atoll_report *report, const char *tier)
{
    for (size_t i = tier ? first_of(report, tier) + 1 : 0; i < report->n; i++) {
        const char *name = report->results[i].tier;
        if (!is_control(name) && first_of(report, name) == i)
            return name;
    }
    return NULL;
}

const char *atoll_verdict_name(enum atoll_verdict verdict)
{
    switch (verdict) {
    case ATOLL_VERDICT_HOLDS:
        return "holds";
    case ATOLL_VERDICT_FOUND:
        return "found";
    case ATOLL_VERDICT_NOT_OFFERED:
        return "not_offered";
    case ATOLL_VERDICT_UNKNOWN:
        break;
    }
    return "unknown";
}

json_t *atoll_check_json(const struct atoll_check *check)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "id", check->id, "row", check->row, "what",
                     check->what, "advice", check->advice);
}

static json_t *counts_json(const struct atoll_report *report, const char *tier)
{
    struct atoll_report_counts counts = atoll_report_count(report, tier);

    return json_pack("{s:I, s:I, s:I, s:I}", "holds", (json_int_t)counts.holds, "found",
                     (json_int_t)counts.found, "unknown", (json_int_t)counts.unknown, "not_offered",
                     (json_int_t)counts.not_offered);
}

/* Bytes of the evidence that are not UTF-8 become '?'. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value ? NULL : strdup(text);

    if (!copy)
        return value;
    for (char *p = copy; *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

static json_t *results_json(const struct atoll_report *report, const char *tier)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < report->n; i++) {
        const struct atoll_result *result = &report->results[i];
        const struct atoll_result *control;
        const char *name = atoll_verdict_name(atoll_report_conclude(report, result));
        json_t *object;
        if (strcmp(tier, result->tier) != 0)
            continue;
        object = atoll_check_json(result->check);
        control = find(report, ATOLL_TIER_CONTROL, result->check->id);
        if (!object || json_object_set_new(object, "verdict", json_string(name)) < 0 ||
            json_object_set_new(object, "evidence", text_json(result->evidence)) < 0 ||
            json_object_set_new(object, "proven",
                                json_boolean(control && control->verdict == ATOLL_VERDICT_FOUND)) <
                0 ||
            json_array_append_new(list, object) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *atoll_report_json(const struct atoll_report *report)
{
    struct atoll_report_counts counts = atoll_report_count(report, NULL);
    ATOLL_AUTOJSON json_t *tiers = json_array();
    ATOLL_AUTOJSON json_t *troubles = json_array();
    const char *tier = NULL;

    for (size_t i = 0; troubles && i < report->troubles; i++)
        if (json_array_append_new(troubles, text_json(report->trouble[i])) < 0)
            return NULL;
    while (tiers && (tier = atoll_report_next_tier(report, tier)) != NULL)
        if (json_array_append_new(tiers, json_pack("{s:s, s:o, s:o}", "tier", tier, "counts",
                                                   counts_json(report, tier), "checks",
                                                   results_json(report, tier))) < 0)
            return NULL;
    return json_pack("{s:I, s:O, s:o, s:O, s:o}", "findings", (json_int_t)counts.found, "trouble",
                     troubles, "counts", counts_json(report, NULL), "tiers", tiers, "control",
                     results_json(report, ATOLL_TIER_CONTROL));
}
