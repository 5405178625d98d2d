#include "verify/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "sys/tree.h"
#include "verify/attacks.h"
#include "verify/bombs.h"
#include "verify/posture.h"
#include "verify/report.h"

static bool listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return n == 0;
}

#define ROOT_TIER ", root inside"

/* "native" stands for all its tiers. */
static bool wants_tier(const struct atoll_suite_wish *wish, const char *name)
{
    for (size_t i = 0; i < wish->tier_count; i++) {
        size_t n = strlen(wish->tiers[i]);
        if (strncmp(name, wish->tiers[i], n) == 0 && (name[n] == '\0' || name[n] == ','))
            return true;
    }
    return wish->tier_count == 0;
}

static void add_tier(struct atoll_suite *suite, const struct atoll_verify *v,
                     const struct atoll_suite_wish *wish, const json_t *provider, const char *user)
{
    struct atoll_tier *tier = &suite->tiers[suite->tier_count];

    if (suite->tier_count == ATOLL_TIERS_MAX)
        return;
    (void)snprintf(tier->provider, sizeof(tier->provider), "%s",
                   atoll_link_text(provider, "name", "?"));
    (void)snprintf(tier->isolation, sizeof(tier->isolation), "%s",
                   atoll_link_text(provider, "isolation", "?"));
    (void)snprintf(tier->name, sizeof(tier->name), "%.60s%s",
                   atoll_link_text(provider, "name", "?"),
                   strcmp(user, "root") == 0 ? ROOT_TIER : "");
    tier->kind = (struct atoll_tier_kind){tier->isolation, user, v->rootless};
    if (wants_tier(wish, tier->name))
        suite->tier_count++;
}

static int find_tiers(struct atoll_suite *suite, const struct atoll_verify *v,
                      const struct atoll_suite_wish *wish, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *list;
    int r = atoll_link_call(v->client, "GET", "/api/providers", NULL, &reply, err);

    if (r < 0)
        return r;
    list = json_object_get(reply, "providers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *provider = json_array_get(list, i);
        const char *name = atoll_link_text(provider, "name", "?");
        char of_root[96];
        (void)snprintf(of_root, sizeof(of_root), "%.60s%s", name, ROOT_TIER);
        if (!listed(name, wish->providers, wish->provider_count) ||
            (!wants_tier(wish, name) && !wants_tier(wish, of_root)))
            continue;
        if (json_is_true(json_object_get(provider, "remote"))) {
            if (wish->provider_count > 0)
                atoll_report_trouble(
                    v->report, "%s makes its sandboxes on another host: verify them there", name);
            continue;
        }
        if (strcmp(atoll_link_text(provider, "state", "?"), "down") == 0) {
            atoll_report_trouble(v->report, "%s is down: %s", name,
                                 atoll_link_text(provider, "reason", "?"));
            continue;
        }
        add_tier(suite, v, wish, provider, "user");
        add_tier(suite, v, wish, provider, "root");
    }
    return 0;
}

static void say(const struct atoll_suite_wish *wish, const char *what)
{
    if (wish->progress)
        wish->progress(wish->arg, what);
}

static int run_tiers(struct atoll_suite *suite, const struct atoll_verify *v,
                     const struct atoll_suite_wish *wish, struct atoll_error *err)
{
    struct atoll_canary canary;
    int r = atoll_canary_start(&canary, v, err);

    if (r < 0)
        return r;
    say(wish, "the control, outside");
    r = atoll_outside_run(v, &canary, err);
    if (r == 0) {
        atoll_posture_control(v, &canary);
        atoll_bombs_control(v);
    }
    for (size_t i = 0; r == 0 && i < suite->tier_count; i++) {
        say(wish, suite->tiers[i].name);
        r = atoll_inside_run(v, &suite->tiers[i], &canary, err);
    }
    atoll_canary_end(&canary);
    return r;
}

int atoll_suite_run(struct atoll_suite *suite, const struct atoll_verify *v,
                    const struct atoll_suite_wish *wish, struct atoll_error *err)
{
    bool daemon = wish->provider_count == 0 && wants_tier(wish, ATOLL_TIER_DAEMON);
    int r = find_tiers(suite, v, wish, err);

    if (r == 0 && suite->tier_count == 0 && !daemon && !atoll_report_trouble_at(v->report, 0))
        r = atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                       "there is no such provider or tier here; see `atoll providers`");
    if (r == 0 && suite->tier_count > 0)
        r = run_tiers(suite, v, wish, err);
    if (r == 0 && daemon) {
        say(wish, ATOLL_TIER_DAEMON);
        r = atoll_attacks_run(v, err);
    }
    return r;
}

/* by: who makes the check. */
static int list_checks(json_t *list, const char *by, const struct atoll_check *checks, size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        json_t *object = atoll_check_json(&checks[i]);
        r = object ? json_object_set_new(object, "by", json_string(by)) : -1;
        if (r == 0)
            r = json_array_append(list, object);
        json_decref(object);
    }
    return r;
}

json_t *atoll_suite_list(void)
{
    ATOLL_AUTOJSON json_t *checks = json_array();
    ATOLL_AUTOJSON json_t *rows = json_array();
    int r = checks && rows ? 0 : -1;

    if (r == 0)
        r = list_checks(checks, "probe", atoll_probe_checks, atoll_probe_checks_count) |
            list_checks(checks, "host", atoll_posture_checks, atoll_posture_checks_count) |
            list_checks(checks, "residue", atoll_residue_checks, atoll_residue_checks_count) |
            list_checks(checks, "bomb", atoll_bomb_checks, atoll_bomb_checks_count) |
            list_checks(checks, "attack", atoll_attack_checks, atoll_attack_checks_count);
    for (size_t i = 0; r == 0 && i < atoll_not_offered_count; i++) {
        const struct atoll_not_offered *row = &atoll_not_offered[i];
        r = json_array_append_new(rows, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "isolation",
                                                  row->isolation, "user", row->user, "rootless",
                                                  (int)row->rootless, "id", row->id, "how",
                                                  row->how, "reason", row->reason));
    }
    return r == 0 ? json_pack("{s:O, s:O}", "checks", checks, "not_offered", rows) : NULL;
}

void atoll_suite_remove(const char *directory)
{
    (void)!atoll_tree_remove(AT_FDCWD, directory);
}
