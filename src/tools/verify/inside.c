#include "tools/verify/inside.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "sys/caps.h"
#include "tools/verify/bombs.h"
#include "tools/verify/forks.h"
#include "tools/verify/networks.h"
#include "tools/verify/posture.h"
#include "tools/verify/probe_run.h"
#include "tools/verify/quotas.h"
#include "tools/verify/report.h"
#include "tools/verify/residue.h"

#define MIB (1024.0 * 1024.0)
#define READY_MS 5000
#define LOOK_MS 50

/* Checks for the canary process in one sandbox, which the probe in the other must not find. */
static const char shared_checks[] = "fs.shm_private,ipc.sysv,fs.flock_channel,sock.abstract,"
                                    "net.peer_sandbox,net.host_service,net.dns";

/* Two sandboxes with the probe. A canary process runs in `second`. */
struct pair {
    struct atoll_box first, second;
    json_t *facts; /* owned: of that canary */
    bool removed;  /* another client removed one of them, or a sandbox made later */
};

static void end_pair(struct pair *pair)
{
    atoll_box_done(&pair->first);
    atoll_box_done(&pair->second);
    json_decref(pair->facts);
}

static int make_box(const struct atoll_verify *v, const struct atoll_tier *tier,
                    struct atoll_box *box, struct atoll_error *err)
{
    const struct atoll_box_options options = {.provider = tier->provider};
    int r = atoll_box_create(box, v->client, &options, err);

    return r < 0 ? r : atoll_box_put(box, v->probe, ATOLL_PROBE_INSIDE, err);
}

static int make_pair(const struct atoll_verify *v, const struct atoll_tier *tier, struct pair *pair,
                     struct atoll_error *err)
{
    static const char *const argv[] = {ATOLL_PROBE_INSIDE, "--canary", NULL};
    ATOLL_AUTOJSON json_t *args = NULL;
    int r = make_box(v, tier, &pair->first, err);

    if (r == 0)
        r = make_box(v, tier, &pair->second, err);
    pair->facts = atoll_canary_names();
    args = pair->facts ? atoll_facts_arguments(pair->facts) : NULL;
    if (r == 0 && !args)
        r = atoll_fail_errno(err, ENOMEM, "facts");
    if (r == 0)
        r = atoll_box_detach(&pair->second, NULL, argv, args, err);
    if (r == 0 && json_object_set(pair->facts, "peer", json_object_get(pair->facts, "port")) < 0)
        r = atoll_fail_errno(err, ENOMEM, "facts");
    return r;
}

static json_t *facts_for(const struct atoll_verify *v, const struct atoll_tier *tier,
                         const struct atoll_canary *canary, const struct pair *pair)
{
    json_t *facts = json_copy(canary->facts);
    bool root = strcmp(tier->kind.user, "root") == 0;
    int r = facts ? 0 : -1;

    if (r == 0)
        r = atoll_facts_set(facts, "scan", "all") | atoll_facts_set(facts, "init", "1") |
            atoll_facts_set(facts, "socket", "%s",
                            v->socket_path ? v->socket_path : canary->socket_path) |
            json_object_set(facts, "peer", json_object_get(pair->facts, "port")) |
            atoll_facts_set(facts, "memory", "%.0f",
                            atoll_box_limit(&pair->first, "memoryMB") * MIB) |
            atoll_facts_set(facts, "disk", "%.0f", atoll_box_limit(&pair->first, "diskMB") * MIB) |
            atoll_facts_set(facts, "caps", "%llx",
                            (unsigned long long)(root ? atoll_caps_of_sandbox_root() : 0));
    if (r == 0 && v->state_dir)
        r = atoll_facts_set(facts, "state", "%s", v->state_dir);
    if (r == 0 && !v->launcher_env) /* the daemon's environment has no secret that could leak */
        r = json_object_del(facts, "env");
    if (r == 0)
        return facts;
    json_decref(facts);
    return NULL;
}

/* The control: a probe in the canary's own sandbox must find the canary. */
static int wait_for_canary(const struct atoll_verify *v, const struct pair *pair,
                           struct atoll_error *err)
{
    int64_t until = atoll_clock_ms() + READY_MS;

    for (;;) {
        ATOLL_AUTOFREE char *output = NULL;
        int r = atoll_probe_run(&pair->second, NULL, pair->facts, "sock.abstract,net.peer_sandbox",
                                &output, err);
        if (r < 0)
            return r;
        if (!strstr(output, "\"PASS\"") || atoll_clock_ms() > until) {
            (void)atoll_probe_report(v, NULL, output, true);
            return 0;
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* Those of the checks for the other sandbox's canary that are selected. */
static char *wanted_shared(const struct atoll_verify *v)
{
    char *list = calloc(1, sizeof(shared_checks)), *copy = strdup(shared_checks), *rest = copy;
    const char *id;

    while (list && copy && (id = strsep(&rest, ",")) != NULL) {
        const struct atoll_check *check =
            atoll_check_find(atoll_probe_checks, atoll_probe_checks_count, id);
        if (!check || !atoll_verify_wants(v, check))
            continue;
        if (*list)
            (void)strcat(list, ",");
        (void)strcat(list, id);
    }
    free(copy);
    return list;
}

static int probe_neighbour(const struct atoll_verify *v, const struct atoll_tier *tier,
                           const struct pair *pair, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *only = wanted_shared(v);
    ATOLL_AUTOFREE char *output = NULL;
    int r;

    if (!only)
        return atoll_fail_errno(err, ENOMEM, "checks");
    if (!*only)
        return 0;
    r = wait_for_canary(v, pair, err);
    if (r == 0)
        r = atoll_probe_run(&pair->first, tier->kind.user, pair->facts, only, &output, err);
    if (r == 0)
        (void)atoll_probe_report(v, tier, output, false);
    return r;
}

static int probe_inside(const struct atoll_verify *v, const struct atoll_tier *tier,
                        const struct atoll_canary *canary, const struct pair *pair,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *facts = facts_for(v, tier, canary, pair);
    ATOLL_AUTOFREE char *only = atoll_probe_wanted(v);
    ATOLL_AUTOFREE char *output = NULL;
    int r;

    if (!facts || (v->only && !only))
        return atoll_fail_errno(err, ENOMEM, "facts");
    if (only && !*only)
        return 0;
    if (atoll_box_waives(&pair->first, "disk")) {
        const struct atoll_check *check =
            atoll_check_find(atoll_probe_checks, atoll_probe_checks_count, "lim.disk");
        if (atoll_verify_wants(v, check))
            atoll_report_add(v->report, tier->name, check, ATOLL_VERDICT_NOT_OFFERED,
                             "this host cannot enforce the limit on disk for this user");
        (void)json_object_del(facts, "disk");
    }
    r = atoll_probe_run(&pair->first, tier->kind.user, facts, only, &output, err);
    if (r < 0)
        return r;
    (void)atoll_probe_report(v, tier, output, false);
    atoll_probe_report_silent(v, tier->name);
    return probe_neighbour(v, tier, pair, err);
}

/* Ends a part of the checks: if another client removed a sandbox, its results become UNKNOWN. Returns the
 * index at which the next part begins. */
static size_t end_part(const struct atoll_verify *v, const struct atoll_tier *tier, size_t from,
                       struct pair *pair)
{
    bool first = atoll_box_was_removed(&pair->first);
    bool second = atoll_box_was_removed(&pair->second);

    if (first || second)
        atoll_report_doubt(v->report, tier->name, from, ATOLL_BOX_REMOVED);
    pair->removed |= first || second;
    return atoll_report_size(v->report);
}

int atoll_inside_run(const struct atoll_verify *v, const struct atoll_tier *tier,
                     struct atoll_canary *canary, struct atoll_error *err)
{
    struct pair pair = {.facts = NULL};
    bool pairs = atoll_tier_wants(v, atoll_probe_checks, atoll_probe_checks_count) ||
                 atoll_tier_wants(v, atoll_posture_checks, atoll_posture_checks_count) ||
                 atoll_tier_wants(v, atoll_residue_checks, atoll_residue_checks_count);
    size_t from = atoll_report_size(v->report);
    int r = pairs ? make_pair(v, tier, &pair, err) : 0;

    if (r == 0 && pairs)
        r = probe_inside(v, tier, canary, &pair, err);
    from = end_part(v, tier, from, &pair);
    if (r == 0 && pairs)
        r = atoll_posture_run(v, tier, &pair.first, &pair.second, err);
    from = end_part(v, tier, from, &pair);
    if (r == 0)
        r = atoll_residue_run(v, tier, &pair.second, err);
    from = end_part(v, tier, from, &pair);
    end_pair(&pair);
    if (r == 0)
        r = atoll_forks_run(v, tier, err);
    from = end_part(v, tier, from, &pair);
    if (r == 0)
        r = atoll_bombs_run(v, tier, err);
    from = end_part(v, tier, from, &pair);
    if (r == 0)
        r = atoll_quotas_run(v, tier, err);
    from = end_part(v, tier, from, &pair);
    if (r == 0)
        r = atoll_networks_run(v, tier, canary, err);
    (void)end_part(v, tier, from, &pair);
    if (r < 0 && (err->kind != ATOLL_ERR_UNAVAILABLE || pair.removed)) {
        atoll_report_trouble(v->report, "%s: %s", tier->name, err->text);
        return 0;
    }
    return r;
}
