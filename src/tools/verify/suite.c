#include "tools/verify/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "sys/tree.h"
#include "tools/verify/attacks.h"
#include "tools/verify/bombs.h"
#include "tools/verify/forks.h"
#include "tools/verify/networks.h"
#include "tools/verify/posture.h"
#include "tools/verify/quotas.h"
#include "tools/verify/report.h"

/* by: the part of the suite that makes the checks. */
static const struct {
    const char *by;
    const struct atoll_check *checks;
    const size_t *count;
} kinds[] = {
    {"probe", atoll_probe_checks, &atoll_probe_checks_count},
    {"host", atoll_posture_checks, &atoll_posture_checks_count},
    {"residue", atoll_residue_checks, &atoll_residue_checks_count},
    {"fork", atoll_fork_checks, &atoll_fork_checks_count},
    {"bomb", atoll_bomb_checks, &atoll_bomb_checks_count},
    {"quota", atoll_quota_checks, &atoll_quota_checks_count},
    {"network", atoll_network_checks, &atoll_network_checks_count},
    {"attack", atoll_attack_checks, &atoll_attack_checks_count},
};

static bool begins_a_check(const char *word, size_t n)
{
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(kinds); i++)
        for (size_t k = 0; k < *kinds[i].count; k++)
            if (n > 0 && strncmp(kinds[i].checks[k].id, word, n) == 0)
                return true;
    return false;
}

/* Rejects unknown names in `only`: without checks there would be no findings. */
static int know_checks(const char *only, struct atoll_error *err)
{
    for (const char *word = only; word;) {
        size_t n = strcspn(word, ",");
        if (!begins_a_check(word, n))
            return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                              "there is no check \"%.*s\"; see `atoll verify --list`",
                              (int)ATOLL_MIN(n, (size_t)64), word);
        word = word[n] == ',' ? word + n + 1 : NULL;
    }
    return 0;
}

static bool listed(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return n == 0;
}

#define ROOT_TIER ", root inside"

/* "native" selects all tiers of that provider. */
static bool wants_tier(const struct atoll_suite_options *options, const char *name)
{
    for (size_t i = 0; i < options->tier_count; i++) {
        size_t n = strlen(options->tiers[i]);
        if (strncmp(name, options->tiers[i], n) == 0 && (name[n] == '\0' || name[n] == ','))
            return true;
    }
    return options->tier_count == 0;
}

static void add_tier(struct atoll_suite *suite, const struct atoll_verify *v,
                     const struct atoll_suite_options *options, const json_t *provider,
                     const char *user)
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
    if (wants_tier(options, tier->name))
        suite->tier_count++;
}

/* Whether there is a provider with this name or, with `tiers`, a tier. */
static bool is_name(const json_t *providers, const char *name, bool tiers)
{
    size_t n = strlen(name), root = strlen(ROOT_TIER);

    if (tiers && n > root && strcmp(name + n - root, ROOT_TIER) == 0)
        n -= root;
    for (size_t i = 0; i < json_array_size(providers); i++) {
        const char *own = atoll_link_text(json_array_get(providers, i), "name", "?");
        if (strlen(own) == n && strncmp(own, name, n) == 0)
            return true;
    }
    return tiers && strcmp(name, ATOLL_TIER_DAEMON) == 0;
}

static int know_names(const json_t *providers, const struct atoll_suite_options *options,
                      struct atoll_error *err)
{
    const char *unknown = NULL;

    for (size_t i = 0; i < options->provider_count; i++)
        if (!is_name(providers, options->providers[i], false))
            unknown = options->providers[i];
    for (size_t i = 0; i < options->tier_count; i++)
        if (!is_name(providers, options->tiers[i], true))
            unknown = options->tiers[i];
    return unknown
               ? atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                            "there is no provider or tier \"%.64s\" here; see `atoll providers`",
                            unknown)
               : 0;
}

static int find_tiers(struct atoll_suite *suite, const struct atoll_verify *v,
                      const struct atoll_suite_options *options, struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *reply = NULL;
    const json_t *list;
    int r = atoll_link_call(v->client, "GET", "/api/providers", NULL, &reply, err);

    if (r < 0)
        return r;
    list = json_object_get(reply, "providers");
    r = know_names(list, options, err);
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
        const json_t *provider = json_array_get(list, i);
        const char *name = atoll_link_text(provider, "name", "?");
        char of_root[96];
        (void)snprintf(of_root, sizeof(of_root), "%.60s%s", name, ROOT_TIER);
        /* An engine that only happens to be there is verified on request: its image may have to be
         * pulled. */
        if (options->provider_count == 0 &&
            strcmp(atoll_link_text(provider, "source", ""), "Docker socket") == 0)
            continue;
        if (!listed(name, options->providers, options->provider_count) ||
            (!wants_tier(options, name) && !wants_tier(options, of_root)))
            continue;
        if (json_is_true(json_object_get(provider, "remote"))) {
            if (options->provider_count > 0)
                atoll_report_trouble(
                    v->report, "%s makes its sandboxes on another host: verify them there", name);
            continue;
        }
        if (strcmp(atoll_link_text(provider, "state", "?"), "down") == 0) {
            atoll_report_trouble(v->report, "%s is down: %s", name,
                                 atoll_link_text(provider, "reason", "?"));
            continue;
        }
        add_tier(suite, v, options, provider, "user");
        add_tier(suite, v, options, provider, "root");
    }
    return r;
}

static void say(const struct atoll_suite_options *options, const char *what)
{
    if (options->progress)
        options->progress(options->arg, what);
}

static int run_tiers(struct atoll_suite *suite, const struct atoll_verify *v,
                     const struct atoll_suite_options *options, struct atoll_error *err)
{
    struct atoll_canary canary;
    int r = atoll_canary_start(&canary, v, err);

    if (r < 0)
        return r;
    say(options, "the control, outside");
    r = atoll_outside_run(v, &canary, err);
    if (r == 0) {
        atoll_posture_control(v, &canary);
        atoll_bombs_control(v);
        atoll_quotas_control(v);
        atoll_networks_control(v, &canary);
    }
    for (size_t i = 0; r == 0 && i < suite->tier_count; i++) {
        say(options, suite->tiers[i].name);
        r = atoll_inside_run(v, &suite->tiers[i], &canary, err);
    }
    atoll_canary_end(&canary);
    return r;
}

static bool is_empty(const struct atoll_report *report)
{
    struct atoll_report_counts n = atoll_report_count(report, NULL);

    return n.holds + n.found + n.unknown + n.not_offered == 0;
}

int atoll_suite_run(struct atoll_suite *suite, const struct atoll_verify *v,
                    const struct atoll_suite_options *options, struct atoll_error *err)
{
    bool daemon = options->provider_count == 0 && wants_tier(options, ATOLL_TIER_DAEMON);
    int r = know_checks(v->only, err);

    if (r == 0)
        r = find_tiers(suite, v, options, err);
    if (r == 0 && suite->tier_count > 0)
        r = run_tiers(suite, v, options, err);
    if (r == 0 && daemon) {
        say(options, ATOLL_TIER_DAEMON);
        r = atoll_attacks_run(v, err);
    }
    if (r == 0 && is_empty(v->report) && !atoll_report_trouble_at(v->report, 0))
        atoll_report_trouble(v->report,
                             "nothing was looked at: none of these checks is made there");
    return r;
}

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

    for (size_t i = 0; r == 0 && i < ATOLL_ARRAY_LEN(kinds); i++)
        r = list_checks(checks, kinds[i].by, kinds[i].checks, *kinds[i].count);
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
