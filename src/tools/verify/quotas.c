#include "tools/verify/quotas.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "sys/caps.h"
#include "tools/verify/child.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/report.h"

#define HELD_INSIDE "/home/user/held"
#define OUTPUT_MAX 4096
#define RUN_MS 30000
#define LOOK_MS 20

#define SHARED                                                                                    \
    "sandboxes are charged to a user of the host: run atolld as root, or give containers a user " \
    "namespace (userns-remap)"

/* In the order of atoll_quota_checks[]. Each bound is more than a user usually has. */
static const struct quota {
    const char *bomb; /* of the probe */
    long bound;
} quotas[] = {{"inotify", 1000}, {"signals", 200000}, {"mqueue", 200}, {"memlock", 1000}};

const struct atoll_check atoll_quota_checks[] = {
    {"quota.inotify", "90", "inotify instances are no other user's", SHARED},
    {"quota.signals", "90", "nor are queued signals and timers", SHARED},
    {"quota.mqueue", "90", "nor are bytes of message queues", SHARED},
    {"quota.memlock", "90", "nor is locked memory", SHARED},
};
const size_t atoll_quota_checks_count = ATOLL_ARRAY_LEN(atoll_quota_checks);
_Static_assert(ATOLL_ARRAY_LEN(atoll_quota_checks) == ATOLL_ARRAY_LEN(quotas), "a check for each");

static long reached(const char *report)
{
    ATOLL_AUTOJSON json_t *line = atoll_link_parse_json(report, strcspn(report, "\n"));

    return line ? (long)atoll_link_number(line, "reached", -1) : -1;
}

/* Some capabilities exempt a process from quotas. */
static int drop_capabilities(void *arg)
{
    (void)arg;
    return atoll_caps_bound(0) < 0 && errno != EPERM ? -1 : 0;
}

/* How many of the resource this user can still get. */
static int count_here(const struct atoll_verify *v, const struct quota *quota, long *ret,
                      struct atoll_error *err)
{
    static char role[] = "--bomb";
    char bound[24];
    char *argv[] = {(char *)v->probe, role, (char *)quota->bomb, bound, NULL};
    const struct atoll_child_options options = {
        .argv = argv, .cwd = v->scratch, .prepare = drop_capabilities};
    ATOLL_AUTOFREE char *output = NULL;
    struct atoll_child child;
    int r;

    (void)snprintf(bound, sizeof(bound), "%ld", quota->bound);
    r = atoll_child_start(&child, &options, err);
    if (r == 0)
        r = atoll_child_collect(&child, OUTPUT_MAX, RUN_MS, &output, err);
    if (r < 0)
        return r;
    *ret = reached(output);
    return *ret < 0 ? atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "the probe said nothing") : 0;
}

/* Starts a process in a sandbox that takes all it can get, and waits until it has. */
static int hold(const struct atoll_box *box, const char *user, const struct quota *quota, long *ret,
                struct atoll_error *err)
{
    char bound[24];
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--hold", quota->bomb, bound,
                                HELD_INSIDE,        NULL};
    int64_t until = atoll_clock_ms() + RUN_MS;
    int r;

    (void)snprintf(bound, sizeof(bound), "%ld", quota->bound);
    r = atoll_box_detach(box, user, argv, NULL, err);
    while (r == 0 && atoll_clock_ms() < until) {
        void *bytes = NULL;
        size_t n;
        if (atoll_client_file_read(box->client, box->id, "root", HELD_INSIDE, &bytes, &n, NULL) ==
            0) {
            *ret = reached(bytes);
            atoll_client_release(bytes);
            return 0;
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    return r < 0 ? r : atoll_fail(err, ATOLL_ERR_DEADLINE_EXCEEDED, ETIMEDOUT, "the probe is slow");
}

static int count_inside(const struct atoll_box *box, const char *user, const struct quota *quota,
                        long *ret, struct atoll_error *err)
{
    char bound[24];
    const char *const argv[] = {ATOLL_PROBE_INSIDE, "--bomb", quota->bomb, bound, NULL};
    ATOLL_AUTOJSON json_t *reply = NULL;
    int r;

    (void)snprintf(bound, sizeof(bound), "%ld", quota->bound);
    r = atoll_box_exec(box, user, argv, NULL, RUN_MS / 1000, &reply, err);
    if (r == 0)
        *ret = reached(atoll_link_text(reply, "stdout", ""));
    return r;
}

static int make_box(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_box *box, struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider};
    int r = atoll_box_create(box, v->client, &options, err);

    return r < 0 ? r : atoll_box_put(box, v->probe, ATOLL_PROBE_INSIDE, err);
}

/* Destroying the sandbox ends the process that holds the resource. */
static int run_one(const struct atoll_verify *v, const struct atoll_tier *tier, size_t i,
                   const struct atoll_box *neighbour, struct atoll_error *err)
{
    const char *user = tier->kind.user;
    long before = 0, held = 0, after = 0, beside = 0;
    struct atoll_box box = {0};
    int r = make_box(v, tier, &box, err);

    if (r == 0)
        r = count_here(v, &quotas[i], &before, err);
    if (r == 0)
        r = hold(&box, user, &quotas[i], &held, err);
    if (r == 0)
        r = count_inside(neighbour, user, &quotas[i], &beside, err);
    if (r == 0)
        r = count_here(v, &quotas[i], &after, err);
    atoll_box_done(&box);
    if (r == 0)
        atoll_tier_add(v, tier, &atoll_quota_checks[i],
                       beside < held / 2 || before - after > held / 2 ? ATOLL_VERDICT_FOUND
                                                                      : ATOLL_VERDICT_HOLDS,
                       "it held %ld; a neighbour got %ld, a user of the host %ld of %ld", held,
                       beside, after, before);
    return r;
}

int atoll_quotas_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_error *err)
{
    struct atoll_box neighbour = {0};
    int r = 0;

    if (!atoll_tier_wants(v, atoll_quota_checks, atoll_quota_checks_count))
        return 0;
    r = make_box(v, tier, &neighbour, err);
    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(quotas); i++)
        if (atoll_verify_wants(v, &atoll_quota_checks[i]))
            r = run_one(v, tier, i, &neighbour, err);
    atoll_box_done(&neighbour);
    return r;
}

static int enter_user_namespace(void *arg)
{
    return unshare(CLONE_NEWUSER) < 0 ? -1 : drop_capabilities(arg);
}

static int control_one(const struct atoll_verify *v, size_t i, struct atoll_error *err)
{
    static char role[] = "--hold";
    char bound[24];
    char *argv[] = {(char *)v->probe, role, (char *)quotas[i].bomb, bound, NULL};
    const struct atoll_child_options options = {
        .argv = argv, .cwd = v->scratch, .prepare = enter_user_namespace};
    struct atoll_child holder;
    long before, after;
    int r = count_here(v, &quotas[i], &before, err);

    (void)snprintf(bound, sizeof(bound), "%ld", quotas[i].bound);
    if (r == 0)
        r = atoll_child_start(&holder, &options, err);
    if (r < 0)
        return r;
    r = atoll_child_expect(&holder, "\n", RUN_MS, err);
    if (r == 0)
        r = count_here(v, &quotas[i], &after, err);
    atoll_child_end(&holder);
    if (r == 0)
        atoll_report_add(v->report, ATOLL_TIER_CONTROL, &atoll_quota_checks[i],
                         after < before ? ATOLL_VERDICT_FOUND : ATOLL_VERDICT_HOLDS,
                         "held in a namespace of this user's, %ld of %ld are left to this user",
                         after, before);
    return r;
}

void atoll_quotas_control(const struct atoll_verify *v)
{
    struct atoll_error err;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(quotas); i++)
        if (atoll_verify_wants(v, &atoll_quota_checks[i]) && control_one(v, i, &err) < 0)
            atoll_report_add(v->report, ATOLL_TIER_CONTROL, &atoll_quota_checks[i],
                             ATOLL_VERDICT_UNKNOWN, "%s", err.text);
}
