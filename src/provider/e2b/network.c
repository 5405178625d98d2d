/*
 * A network policy in E2B's terms: allowOut, denyOut, rules and egressProxy. E2B asks allowOut first, then
 * denyOut, and allows the rest; it knows no ports, and denies addresses only. What these terms cannot express is
 * refused: a sandbox never reaches more than its policy allows.
 */
#include <errno.h>
#include <string.h>
#include "network/policy.h"
#include "provider/e2b/messages.h"

#define EVERYTHING "0.0.0.0/0"

static int refuse(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "e2b cannot enforce this network policy: %s", what);
}

static bool is_ipv4(const struct atoll_network_target *t)
{
    return !t->domain && !t->any && t->bits >= 96 && IN6_IS_ADDR_V4MAPPED(&t->address);
}

static int check_target(const struct atoll_network_rule *rule, struct atoll_error *err)
{
    const struct atoll_network_target *t = &rule->target;

    if (t->port_first != 0)
        return refuse(err, "it has rules for ports");
    if (!t->any && !t->domain && !is_ipv4(t))
        return refuse(err, "it has rules for IPv6 addresses");
    if (t->domain && !rule->allow)
        return refuse(err, "it denies a domain");
    return 0;
}

/* Whether an address can be of both. */
static bool overlap(const struct atoll_network_target *a, const struct atoll_network_target *b)
{
    unsigned bits = ATOLL_MIN(a->bits, b->bits);

    if (a->any || b->any || a->domain || b->domain)
        return true;
    for (unsigned i = 0; i < bits; i++)
        if ((a->address.s6_addr[i / 8] ^ b->address.s6_addr[i / 8]) & (0x80 >> i % 8))
            return false;
    return true;
}

/* Whether the order of the rules is E2B's: no rule that allows follows one that denies part of it. */
static int check_order(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        for (size_t k = 0; k < i; k++)
            if (policy->rules[i].allow && !policy->rules[k].allow &&
                overlap(&policy->rules[i].target, &policy->rules[k].target))
                return refuse(err, "a rule denies a part of what a later one allows");
    return 0;
}

static int check_rules(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    bool names = false, denies = false;

    for (size_t i = 0; i < policy->rule_count; i++) {
        if (check_target(&policy->rules[i], err) < 0)
            return -EOPNOTSUPP;
        names |= policy->rules[i].allow && policy->rules[i].target.domain;
        denies |= !policy->rules[i].allow && !policy->rules[i].target.any;
    }
    if (policy->otherwise_allow && names && denies)
        return refuse(err, "it allows domains and denies some addresses only");
    return check_order(policy, err);
}

static int check_transforms(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    for (size_t i = 0; i < policy->transform_count; i++) {
        const struct atoll_network_transform *t = &policy->transforms[i];

        if (t->match)
            return refuse(err, "a transform is for a part of the requests to a domain");
        if (t->forward || t->status != 0)
            return refuse(err, "a transform does more than to add headers");
        if (t->target.subdomains || t->target.port_first != 0)
            return refuse(err, "a transform is for more than one domain, or for a port");
        for (size_t k = 0; k < i; k++)
            if (strcmp(policy->transforms[k].target.domain, t->target.domain) == 0)
                return refuse(err, "a domain has two transforms");
        for (size_t k = 0; k < t->header_count; k++)
            if (strstr(t->headers[k].value, "${"))
                return refuse(err, "a header has a secret, which stays on this host");
    }
    return 0;
}

static int check(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    if (*policy->network)
        return refuse(err, "it names an isolated network");
    if (policy->mbps != 0)
        return refuse(err, "it limits the bandwidth");
    if (check_rules(policy, err) < 0)
        return -EOPNOTSUPP;
    return check_transforms(policy, err);
}

static json_t *target_json(const struct atoll_network_target *t)
{
    char text[ATOLL_NETWORK_TARGET_TEXT];

    if (t->any)
        return json_string(EVERYTHING);
    atoll_network_target_print(t, text, sizeof(text));
    return json_string(text);
}

static void put_rules(json_t *out, const struct atoll_network_policy *policy)
{
    json_t *allow = json_array(), *deny = json_array();
    bool all = !policy->otherwise_allow;

    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct atoll_network_rule *rule = &policy->rules[i];

        all |= !rule->allow && rule->target.any;
        (void)json_array_append_new(rule->allow ? allow : deny, target_json(&rule->target));
    }
    if (all) {
        (void)json_array_clear(deny);
        (void)json_array_append_new(deny, json_string(EVERYTHING));
    }
    if (json_array_size(deny) > 0 && json_array_size(allow) > 0)
        (void)json_object_set(out, "allowOut", allow);
    if (json_array_size(deny) > 0)
        (void)json_object_set(out, "denyOut", deny);
    json_decref(allow);
    json_decref(deny);
}

static void put_transforms(json_t *out, const struct atoll_network_policy *policy)
{
    json_t *rules = json_object();

    for (size_t i = 0; i < policy->transform_count; i++) {
        const struct atoll_network_transform *t = &policy->transforms[i];
        json_t *headers = json_object();

        for (size_t k = 0; k < t->header_count; k++)
            (void)json_object_set_new(headers, t->headers[k].name,
                                      json_string(t->headers[k].value));
        (void)json_object_set_new(rules, t->target.domain,
                                  json_pack("[{s:{s:o}}]", "transform", "headers", headers));
    }
    if (json_object_size(rules) > 0)
        (void)json_object_set(out, "rules", rules);
    json_decref(rules);
}

int atoll_e2b_network(const char *policy_json, json_t **ret, struct atoll_error *err)
{
    json_t *json = policy_json ? json_loads(policy_json, 0, NULL) : NULL, *out;
    struct atoll_network_policy *policy = NULL;
    int r;

    if (policy_json && !json)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the policy is not JSON");
    r = atoll_network_policy_parse(json, &policy, err);
    json_decref(json);
    if (r == 0)
        r = check(policy, err);
    if (r < 0) {
        (void)atoll_network_policy_free(policy);
        return r;
    }
    out = json_object();
    put_rules(out, policy);
    put_transforms(out, policy);
    if (policy->proxy_address)
        (void)json_object_set_new(out, "egressProxy",
                                  json_pack("{s:s, s:s*, s:s*}", "address", policy->proxy_address,
                                            "username", policy->proxy_user, "password",
                                            policy->proxy_password));
    (void)atoll_network_policy_free(policy);
    if (json_object_size(out) == 0) {
        json_decref(out);
        out = NULL;
    }
    *ret = out;
    return 0;
}
