/*
 * Decisions. The order: an internal address needs the operator's word, then the operator's deny rules,
 * then the rules of the policy, then its default.
 */
#include "network/policy_internal.h"

/* Which addresses the deny rules so far cover, for a name that has no address yet. */
struct covered {
    bool v4, v6;
};

static bool match_denied_address(const struct atoll_network_target *t,
                                 const struct in6_addr *address)
{
    struct in6_addr inner;

    return atoll_network_match_address(t, address) ||
           (atoll_network_inner_address(address, &inner) && atoll_network_match_address(t, &inner));
}

/* Whether the rule decides about a connection. */
static bool match_connection(const struct atoll_network_rule *rule,
                             const struct atoll_network_query *q)
{
    const struct atoll_network_target *t = &rule->target;

    if (!atoll_network_match_port(t, q->port))
        return false;
    if (atoll_network_match_name(t, q->name))
        return true;
    return rule->allow ? atoll_network_match_address(t, q->address)
                       : match_denied_address(t, q->address);
}

/* Whether the rule decides that a name may or may not be resolved. */
static bool match_question(const struct atoll_network_rule *rule, const char *name,
                           struct covered *denied)
{
    const struct atoll_network_target *t = &rule->target;

    if (rule->allow)
        return !t->domain || atoll_network_match_name(t, name);
    if (t->port_first)
        return false;
    if (t->domain || t->any)
        return atoll_network_match_name(t, name);
    denied->v4 = denied->v4 || (t->bits == 96 && atoll_network_is_v4(&t->address));
    denied->v6 = denied->v6 || t->bits == 0;
    return denied->v4 && denied->v6;
}

/* The first rule that decides; `count` if no rule does. */
static size_t find_rule(const struct atoll_network_rule *rules, size_t count,
                        const struct atoll_network_query *q)
{
    struct covered denied = {0};

    for (size_t i = 0; i < count; i++)
        if (q->address ? match_connection(&rules[i], q)
                       : match_question(&rules[i], q->name, &denied))
            return i;
    return count;
}

/* Whether the operator allows an internal address. */
static bool is_permitted(const struct atoll_network_bound *bound,
                         const struct atoll_network_query *q)
{
    for (size_t i = 0; bound && i < bound->internal_count; i++) {
        const struct atoll_network_target *t = &bound->internal[i];
        if ((q->port == 0 || atoll_network_match_port(t, q->port)) &&
            (atoll_network_match_name(t, q->name) || atoll_network_match_address(t, q->address)))
            return true;
    }
    return false;
}

struct atoll_network_decision atoll_network_decide(const struct atoll_network_policy *policy,
                                                   const struct atoll_network_bound *bound,
                                                   const struct atoll_network_query *query,
                                                   bool is_internal)
{
    size_t rule;

    if (query->address && (is_internal || atoll_network_is_internal(query->address)) &&
        !is_permitted(bound, query))
        return (struct atoll_network_decision){.reason = ATOLL_NETWORK_BY_INTERNAL};
    rule = bound ? find_rule(bound->rules, bound->rule_count, query) : 0;
    if (bound && rule < bound->rule_count && !bound->rules[rule].allow)
        return (struct atoll_network_decision){.reason = ATOLL_NETWORK_BY_OPERATOR, .rule = rule};
    rule = find_rule(policy->rules, policy->rule_count, query);
    if (rule < policy->rule_count)
        return (struct atoll_network_decision){
            .allow = policy->rules[rule].allow,
            .reason = ATOLL_NETWORK_BY_RULE,
            .rule = rule,
        };
    return (struct atoll_network_decision){
        .allow = policy->otherwise_allow,
        .reason = ATOLL_NETWORK_BY_DEFAULT,
    };
}

struct atoll_network_decision atoll_network_decide_name(const struct atoll_network_policy *policy,
                                                        const char *name)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct atoll_network_rule *rule = &policy->rules[i];
        if (atoll_network_match_name(&rule->target, name) &&
            (rule->allow || !rule->target.port_first))
            return (struct atoll_network_decision){
                .allow = rule->allow, .reason = ATOLL_NETWORK_BY_RULE, .rule = i};
    }
    return (struct atoll_network_decision){
        .allow = policy->otherwise_allow,
        .reason = ATOLL_NETWORK_BY_DEFAULT,
    };
}

/* Whether one of the first `count` rules decides `allow` for some name at this port. */
static bool names_decide(const struct atoll_network_rule *rules, size_t count, uint16_t port,
                         bool allow)
{
    for (size_t i = 0; i < count; i++)
        if (rules[i].target.domain && rules[i].allow == allow &&
            atoll_network_match_port(&rules[i].target, port))
            return true;
    return false;
}

static bool names_permit(const struct atoll_network_bound *bound, uint16_t port)
{
    for (size_t i = 0; bound && i < bound->internal_count; i++)
        if (bound->internal[i].domain && atoll_network_match_port(&bound->internal[i], port))
            return true;
    return false;
}

bool atoll_network_needs_name(const struct atoll_network_policy *policy,
                              const struct atoll_network_bound *bound,
                              const struct in6_addr *address, uint16_t port, bool is_internal)
{
    const struct atoll_network_query q = {.address = address, .port = port};
    struct atoll_network_decision d = atoll_network_decide(policy, bound, &q, is_internal);

    /* Every name leads to the decision of the address, or to that of a rule for a name before it. */
    switch (d.reason) {
    case ATOLL_NETWORK_BY_INTERNAL:
        return names_permit(bound, port);
    case ATOLL_NETWORK_BY_OPERATOR:
        return false;
    case ATOLL_NETWORK_BY_RULE:
    case ATOLL_NETWORK_BY_DEFAULT:
        break;
    }
    if (policy->transform_count > 0 ||
        (bound && names_decide(bound->rules, bound->rule_count, port, false)))
        return true;
    return names_decide(policy->rules,
                        d.reason == ATOLL_NETWORK_BY_RULE ? d.rule : policy->rule_count, port,
                        !d.allow);
}

const struct atoll_network_transform *atoll_network_find_transform(
    const struct atoll_network_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->transform_count; i++)
        if (atoll_network_match_name(&policy->transforms[i].target, name))
            return &policy->transforms[i];
    return NULL;
}
