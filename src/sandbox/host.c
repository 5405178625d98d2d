/*
 * The report: runs the checks of each topic in order, then summarizes what the host supports.
 */
#include "sandbox/host.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "sandbox/host_internal.h"

void atoll_host_add(struct atoll_host_report *report, const char *name, enum atoll_host_state state,
                    bool essential, const char *fix, const char *detail, ...)
{
    struct atoll_host_check *check;
    va_list ap;

    if (report->nchecks >= ATOLL_HOST_CHECKS_MAX)
        return;
    check = &report->checks[report->nchecks++];
    *check = (struct atoll_host_check){.name = name, .state = state, .essential = essential};
    (void)snprintf(check->fix, sizeof(check->fix), "%s", fix);
    va_start(ap, detail);
    (void)vsnprintf(check->detail, sizeof(check->detail), detail, ap);
    va_end(ap);
}

static void say(struct atoll_host_report *report, const char *fmt, ...) ATOLL_PRINTF(2, 3);

static void say(struct atoll_host_report *report, const char *fmt, ...)
{
    size_t len = strlen(report->summary);
    va_list ap;

    if (len > 0 && len + 3 < sizeof(report->summary)) {
        memcpy(report->summary + len, "; ", 3);
        len += 2;
    }
    va_start(ap, fmt);
    (void)vsnprintf(report->summary + len, sizeof(report->summary) - len, fmt, ap);
    va_end(ap);
}

static void say_limits(struct atoll_host_report *report)
{
    const struct atoll_host_caps *caps = &report->caps;
    char list[80] = "";
    const struct {
        bool have;
        const char *name;
    } limits[] = {{caps->cgroup_memory, "memory"},
                  {caps->cgroup_cpu, "CPU"},
                  {caps->cgroup_pids, "processes"},
                  {caps->overlay || caps->overlay_userns, "disk"}};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(limits); i++) {
        size_t len = strlen(list);
        if (limits[i].have)
            (void)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", limits[i].name);
    }
    if (*list)
        say(report, "limits on %s", list);
}

static bool is_ok(const struct atoll_host_report *report, const char *name)
{
    for (size_t i = 0; i < report->nchecks; i++)
        if (strcmp(report->checks[i].name, name) == 0)
            return report->checks[i].state == ATOLL_HOST_OK;
    return false;
}

static void summarise(struct atoll_host_report *report)
{
    static const struct {
        const char *check, *gives;
    } tiers[] = {{"gVisor", "gVisor sandboxes"}, {"Docker", "Docker"}};
    const struct atoll_host_caps *caps = &report->caps;

    report->summary[0] = '\0';
    if (!report->native)
        say(report, "no native sandboxes until the missing features are fixed");
    else if (caps->root)
        say(report, "native sandboxes, each with its own 65536 ids");
    else
        say(report, "rootless native sandboxes with %s",
            caps->subids ? "sub-ids (root and sudo work inside)" : "one id (no root inside)");
    if (report->native)
        say_limits(report);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(tiers); i++)
        if (is_ok(report, tiers[i].check))
            say(report, "%s", tiers[i].gives);
}

int atoll_host_probe(struct atoll_host_report *ret, struct atoll_error *err)
{
    int r;

    *ret = (struct atoll_host_report){.native = true};
    r = atoll_host_caps_probe(&ret->caps, err);
    if (r < 0)
        return r;
    atoll_host_check_kernel(ret);
    atoll_host_check_cgroups(ret);
    atoll_host_check_files(ret);
    atoll_host_check_tools(ret);
    atoll_host_check_limits(ret);
    atoll_host_check_hardening(ret);
    for (size_t i = 0; i < ret->nchecks; i++)
        if (ret->checks[i].essential && ret->checks[i].state == ATOLL_HOST_MISSING)
            ret->native = false;
    summarise(ret);
    return 0;
}

const char *atoll_host_state_name(enum atoll_host_state state)
{
    static const char *const names[] = {
        [ATOLL_HOST_OK] = "ok",
        [ATOLL_HOST_MISSING] = "missing",
        [ATOLL_HOST_WARN] = "warn",
        [ATOLL_HOST_INFO] = "info",
    };
    return names[state];
}

static int quote(struct atoll_buf *out, const char *key, const char *value)
{
    int r = atoll_buf_appendf(out, "\"%s\":", key);
    return r < 0 ? r : atoll_text_json_quote(out, value, strlen(value));
}

static int check_json(const struct atoll_host_check *check, struct atoll_buf *out)
{
    int r = atoll_buf_appends(out, "{");

    if (r == 0)
        r = quote(out, "name", check->name);
    if (r == 0)
        r = atoll_buf_appendf(
            out, ",\"state\":\"%s\",\"essential\":%s,%s", atoll_host_state_name(check->state),
            check->essential ? "true" : "false", check->hardening ? "\"hardening\":true," : "");
    if (r == 0)
        r = quote(out, "detail", check->detail);
    if (r == 0 && *check->fix)
        r = atoll_buf_appends(out, ",");
    if (r == 0 && *check->fix)
        r = quote(out, "fix", check->fix);
    return r < 0 ? r : atoll_buf_appends(out, "}");
}

int atoll_host_report_json(const struct atoll_host_report *report, struct atoll_buf *out)
{
    int r = atoll_buf_appendf(out, "{\"version\":\"%s\",\"mode\":\"%s\",\"native\":%s,",
                              ATOLL_VERSION, report->caps.root ? "root" : "rootless",
                              report->native ? "true" : "false");

    if (r == 0)
        r = quote(out, "summary", report->summary);
    if (r == 0)
        r = atoll_buf_appends(out, ",\"checks\":[");
    for (size_t i = 0; r == 0 && i < report->nchecks; i++) {
        if (i > 0)
            r = atoll_buf_appends(out, ",");
        if (r == 0)
            r = check_json(&report->checks[i], out);
    }
    return r < 0 ? r : atoll_buf_appends(out, "]}");
}
