#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "engine/json_memory.h"
#include "task/task_internal.h"

/*
 * What the rules of an agent find in the lines of its output: texts, usage, and whether it has succeeded.
 */
#define PARTS_MAX \
    ((size_t)256 * 1024) /* of an output that comes in parts: what is longer begins anew */
#define IDS_MAX 256
#define ERROR_LINE_MAX ((size_t)400)
#define OUTPUT_ENDED "_output_ended" /* fact: the next part begins another output */
#define COUNTED "_counted"           /* fact: usage by ids of lines */
#define USED "_used" /* fact: usage by tries of this attempt, and of earlier attempts together */
#define EARLIER "earlier"
#define VERDICT "_verdict" /* fact: whether the last line that says it said success */

/* The value at a path such as "message/usage/input_tokens". */
static const json_t *value_at(const json_t *object, const char *path)
{
    char part[128];

    while (object && *path) {
        size_t n = strcspn(path, "/");
        if (n >= sizeof(part))
            return NULL;
        memcpy(part, path, n);
        part[n] = '\0';
        object = json_is_array(object) ? json_array_get(object, strtoul(part, NULL, 10))
                                       : json_object_get(object, part);
        path += n + (path[n] == '/');
    }
    return object;
}

/* Whether all members of `match` have these values in the line. */
static bool matches(const json_t *line, const json_t *match)
{
    const char *path;
    json_t *wanted;

    json_object_foreach((json_t *)(uintptr_t)match, path, wanted)
    {
        const json_t *value = value_at(line, path);
        if (!value || !json_equal((json_t *)(uintptr_t)value, wanted))
            return false;
    }
    return true;
}

static json_t *object_fact(struct atoll_task *task, const char *name)
{
    if (!json_object_get(task->facts, name))
        atoll_task_note(task, name, json_object());
    return json_object_get(task->facts, name);
}

/* The object for what lines of one id have counted already; NULL: the rule has no id, or the line. */
static json_t *counted_by(struct atoll_task *task, const json_t *rule, const json_t *line)
{
    const char *path = json_string_value(json_object_get(rule, "id"));
    const char *id = path ? json_string_value(value_at(line, path)) : NULL;
    json_t *ids = id ? object_fact(task, COUNTED) : NULL;

    if (json_object_size(ids) >= IDS_MAX && !json_object_get(ids, id))
        (void)json_object_clear(ids);
    if (ids && !json_object_get(ids, id))
        (void)json_object_set_new(ids, id, json_object());
    return ids ? json_object_get(ids, id) : NULL;
}

/* --- usage --- */

static const struct {
    const char *rule, *name;
    bool whole;
} numbers[] = {{"inputTokens", "input_tokens", true},
               {"outputTokens", "output_tokens", true},
               {"costUsd", "cost_usd", false}};

static json_t *make_number(double value, bool whole)
{
    return whole && value < 9e15 ? json_integer((json_int_t)value) : json_real(value);
}

/* -1: none has reported it. */
static double sum_of(const struct atoll_task *task, const char *name, bool with_earlier)
{
    const char *which;
    json_t *used;
    double sum = -1;

    json_object_foreach(json_object_get(task->facts, USED), which, used)
    {
        const json_t *value = json_object_get(used, name);
        if (value && (with_earlier || strcmp(which, EARLIER) != 0))
            sum = (sum < 0 ? 0 : sum) + json_number_value(value);
    }
    return sum;
}

double atoll_task_used(const struct atoll_task *task, const char *name)
{
    return fmax(sum_of(task, name, false), 0);
}

static void sum_up(struct atoll_task *task)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++) {
        double sum = sum_of(task, numbers[i].name, true);
        if (sum >= 0)
            (void)json_object_set_new(object_fact(task, "usage"), numbers[i].name,
                                      make_number(sum, numbers[i].whole));
        else
            (void)json_object_del(json_object_get(task->facts, "usage"), numbers[i].name);
    }
}

/* A try begins, or a later daemon reads its output again. */
static void begin_try(struct atoll_task *task)
{
    char number[16];

    (void)snprintf(number, sizeof(number), "%u", task->tries);
    (void)json_object_set_new(object_fact(task, USED), number, json_object());
    sum_up(task);
}

static json_t *used_by_try(struct atoll_task *task)
{
    json_t *used = object_fact(task, USED);
    char number[16];

    (void)snprintf(number, sizeof(number), "%u", task->tries);
    if (!json_object_get(used, number))
        (void)json_object_set_new(used, number, json_object());
    return json_object_get(used, number);
}

void atoll_task_used_earlier(struct atoll_task *task)
{
    json_t *earlier = json_object();

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++) {
        double sum = sum_of(task, numbers[i].name, true);
        if (sum >= 0)
            (void)json_object_set_new(earlier, numbers[i].name, make_number(sum, numbers[i].whole));
    }
    atoll_task_note(task, USED, json_pack("{s:o}", EARLIER, earlier));
}

/* Sums of numbers: several lines may each count a part. Of lines with the same id the last one counts, and a total
 * takes the place of the sum. */
static void add_number(struct atoll_task *task, const json_t *rule, json_t *counted,
                       const char *name, double value, bool whole)
{
    json_t *used;
    double sum;

    if (!isfinite(value) || value < 0)
        return;
    used = used_by_try(task);
    sum = json_number_value(json_object_get(used, name)) + value -
          json_number_value(json_object_get(counted, name));
    if (counted)
        (void)json_object_set_new(counted, name, json_real(value));
    if (json_is_true(json_object_get(rule, "total")))
        sum = value;
    (void)json_object_set_new(used, name, make_number(fmax(sum, 0), whole));
    sum_up(task);
}

/* --- lines --- */

/* A text that comes in parts: what follows a line with outputEnds is another one. */
static void add_part(struct atoll_task *task, const json_t *rule, const json_t *line)
{
    const char *path = json_string_value(json_object_get(rule, "outputPart"));
    const char *part = path ? json_string_value(value_at(line, path)) : NULL;
    const char *before = atoll_task_fact(task, "output");
    json_t *whole;

    if (part &&
        (json_object_get(task->facts, OUTPUT_ENDED) || strlen(before) + strlen(part) > PARTS_MAX))
        before = "";
    whole = part ? json_sprintf("%s%s", before, part) : NULL;
    if (whole) {
        (void)json_object_del(task->facts, OUTPUT_ENDED);
        atoll_task_note(task, "output", whole);
    }
    if (json_is_true(json_object_get(rule, "outputEnds")))
        atoll_task_note(task, OUTPUT_ENDED, json_true());
}

/* A rule: {match: {type: result}, output: result, error: …, session: session_id, inputTokens: usage/…}. */
static void apply(struct atoll_task *task, const json_t *rule, const json_t *line)
{
    static const char *const texts[][2] = {
        {"output", "output"}, {"error", "agent_error"}, {"session", "agent_session"}};
    json_t *counted;

    if (!matches(line, json_object_get(rule, "match")))
        return;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(texts); i++) {
        const char *path = json_string_value(json_object_get(rule, texts[i][0]));
        const json_t *value = path ? value_at(line, path) : NULL;
        if (json_is_string(value))
            atoll_task_note(task, texts[i][1], json_copy((json_t *)(uintptr_t)value));
    }
    add_part(task, rule, line);
    counted = counted_by(task, rule, line);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(numbers); i++) {
        const char *path = json_string_value(json_object_get(rule, numbers[i].rule));
        const json_t *value = path ? value_at(line, path) : NULL;
        if (json_is_number(value))
            add_number(task, rule, counted, numbers[i].name, json_number_value(value),
                       numbers[i].whole);
    }
}

/* --- verdicts --- */

/* Whether a rule is about the line: by its beginning, or by members of the JSON object that it is. */
static bool is_about(const json_t *rule, const char *line, size_t n, const json_t *object)
{
    const char *start = json_string_value(json_object_get(rule, "line"));

    if (start)
        return n >= strlen(start) && memcmp(line, start, strlen(start)) == 0;
    return object && matches(object, json_object_get(rule, "match"));
}

static void judge(struct atoll_task *task, const json_t *rule, const char *line, size_t n)
{
    bool success = strcmp(json_string_value(json_object_get(rule, "is")), "success") == 0;

    atoll_task_note(task, VERDICT, json_boolean(success));
    if (!json_object_get(rule, "line")) /* rules for the output say where its error is */
        return;
    (void)json_object_del(task->facts, "agent_error");
    if (!success)
        atoll_task_note(task, "agent_error", json_stringn(line, ATOLL_MIN(n, ERROR_LINE_MAX)));
}

bool atoll_task_agent_succeeded(const struct atoll_task *task, const json_t *agent)
{
    const json_t *rules = json_object_get(agent, "verdicts");
    const json_t *verdict = json_object_get(task->facts, VERDICT);

    for (size_t i = 0; !verdict && i < json_array_size(rules); i++)
        if (json_is_true(json_object_get(json_array_get(rules, i), "needed")))
            return false;
    return !json_is_false(verdict);
}

void atoll_task_output_forget(struct atoll_task *task)
{
    static const char *const results[] = {"output", "agent_error", "agent_session",
                                          COUNTED,  OUTPUT_ENDED,  VERDICT};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(results); i++)
        (void)json_object_del(task->facts, results[i]);
    begin_try(task);
}

void atoll_task_agent_line(struct atoll_task *task, const json_t *agent, const char *line, size_t n)
{
    const json_t *verdicts = json_object_get(agent, "verdicts");
    const json_t *rules = json_object_get(agent, "output");
    json_error_t why;
    bool is_read = json_array_size(rules) + json_array_size(verdicts) > 0;
    json_t *object = is_read && n > 1 && line[0] == '{' ? atoll_json_load(line, n, 0, &why) : NULL;

    for (size_t i = 0; object && i < json_array_size(rules); i++)
        apply(task, json_array_get(rules, i), object);
    for (size_t i = 0; i < json_array_size(verdicts); i++)
        if (is_about(json_array_get(verdicts, i), line, n, object))
            judge(task, json_array_get(verdicts, i), line, n);
    json_decref(object);
}
