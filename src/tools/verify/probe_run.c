#include "tools/verify/probe_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/buf.h"
#include "tools/verify/report.h"

#define RUN_SECONDS 90

bool atoll_tier_wants(const struct atoll_verify *v, const struct atoll_check *checks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (atoll_verify_wants(v, &checks[i]))
            return true;
    return false;
}

char *atoll_probe_wanted(const struct atoll_verify *v)
{
    struct atoll_buf text;
    char *only;
    int r = 0;

    if (!v->only)
        return NULL;
    atoll_buf_init(&text, 16384);
    for (size_t i = 0; r == 0 && i < atoll_probe_checks_count; i++)
        if (atoll_verify_wants(v, &atoll_probe_checks[i]))
            r = atoll_buf_appendf(&text, "%s%s", atoll_buf_size(&text) ? "," : "",
                                  atoll_probe_checks[i].id);
    only = strdup(atoll_buf_str(&text));
    atoll_buf_done(&text);
    return only;
}

int atoll_probe_run(const struct atoll_box *box, const char *user, const json_t *facts,
                    const char *only, char **ret_output, struct atoll_error *err)
{
    static const char *const argv[] = {ATOLL_PROBE_INSIDE, NULL};
    ATOLL_AUTOJSON json_t *args = atoll_facts_arguments(facts);
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    if (!args || (only && json_array_append_new(args, json_sprintf("only=%s", only)) < 0))
        return atoll_fail_errno(err, ENOMEM, "arguments");
    r = atoll_box_exec(box, user, argv, args, RUN_SECONDS, &reply, err);
    if (r < 0)
        return r;
    *ret_output = strdup(atoll_link_text(reply, "stdout", ""));
    return *ret_output ? 0 : atoll_fail_errno(err, ENOMEM, "output");
}

void atoll_tier_add(const struct atoll_verify *v, const struct atoll_tier *tier,
                    const struct atoll_check *check, enum atoll_verdict verdict,
                    const char *evidence, ...)
{
    const char *reason;
    char text[600];
    va_list ap;

    va_start(ap, evidence);
    (void)vsnprintf(text, sizeof(text), evidence, ap);
    va_end(ap);
    reason = verdict == ATOLL_VERDICT_HOLDS
                 ? NULL
                 : atoll_not_offered_reason(&tier->kind, check->id, text);
    if (reason)
        atoll_report_add(v->report, tier->name, check, ATOLL_VERDICT_NOT_OFFERED, "%s (%s)", reason,
                         text);
    else
        atoll_report_add(v->report, tier->name, check, verdict, "%s", text);
}

static enum atoll_verdict verdict_of(const char *status)
{
    if (strcmp(status, "PASS") == 0)
        return ATOLL_VERDICT_HOLDS;
    return strcmp(status, "FAIL") == 0 ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_UNKNOWN;
}

static bool report_line(const struct atoll_verify *v, const struct atoll_tier *tier,
                        const char *line, size_t n, bool only_found)
{
    ATOLL_AUTOJSON json_t *answer = atoll_link_parse_json(line, n);
    const char *id = atoll_link_text(answer, "id", "");
    const char *detail = atoll_link_text(answer, "detail", "");
    enum atoll_verdict verdict = verdict_of(atoll_link_text(answer, "status", ""));
    const struct atoll_check *check =
        atoll_check_find(atoll_probe_checks, atoll_probe_checks_count, id);

    if (!check)
        return false;
    if (tier)
        atoll_tier_add(v, tier, check, verdict, "%s", detail);
    else if (!only_found || verdict == ATOLL_VERDICT_FOUND)
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, check, verdict, "%s", detail);
    return true;
}

size_t atoll_probe_report(const struct atoll_verify *v, const struct atoll_tier *tier,
                          const char *output, bool only_found)
{
    size_t count = 0;

    while (*output) {
        size_t n = strcspn(output, "\n");
        count += report_line(v, tier, output, n, only_found);
        output += n + (output[n] == '\n');
    }
    return count;
}

void atoll_probe_report_silent(const struct atoll_verify *v, const char *tier)
{
    size_t silent = 0;

    for (size_t i = 0; i < atoll_probe_checks_count; i++) {
        const struct atoll_check *check = &atoll_probe_checks[i];
        if (!atoll_verify_wants(v, check) || atoll_report_find(v->report, tier, check->id))
            continue;
        atoll_report_add(v->report, tier, check, ATOLL_VERDICT_UNKNOWN,
                         "the probe ended before it came to this");
        silent++;
    }
    if (silent > 0)
        atoll_report_trouble(v->report, "%s: the probe ended early, %zu checks were not made", tier,
                             silent);
}
