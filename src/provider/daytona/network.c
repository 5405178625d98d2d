/*
 * A network policy in Daytona's terms: networkBlockAll, networkAllowList (IPv4 ranges) and domainAllowList.
 * A sandbox with a list reaches nothing else. What these terms cannot express is refused: a sandbox never
 * reaches more than its policy allows.
 */
#include <errno.h>
#include "network/policy.h"
#include "provider/daytona/messages.h"

#define LIST_MAX 4096

static int refuse(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "daytona cannot enforce this network policy: %s", what);
}

static int check(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    if (*policy->network)
        return refuse(err, "it names an isolated network");
    if (policy->mbps != 0)
        return refuse(err, "it limits the bandwidth");
    if (policy->transform_count > 0)
        return refuse(err, "it changes requests");
    if (policy->proxy_address)
        return refuse(err, "it has a proxy");
    if (policy->otherwise_allow && policy->rule_count > 0)
        return refuse(err, "it allows everything else than its rules name");
    return 0;
}

static int add_rule(struct atoll_buf *addresses, struct atoll_buf *domains,
                    const struct atoll_network_rule *rule, struct atoll_error *err)
{
    const struct atoll_network_target *t = &rule->target;
    struct atoll_buf *to = t->domain ? domains : addresses;
    char text[ATOLL_NETWORK_TARGET_TEXT];

    if (!rule->allow)
        return refuse(err, "it has rules that deny a part");
    if (t->any)
        return refuse(err, "it has a rule for everything");
    if (t->port_first != 0)
        return refuse(err, "it has rules for ports");
    if (!t->domain && (t->bits < 96 || !IN6_IS_ADDR_V4MAPPED(&t->address)))
        return refuse(err, "it has rules for IPv6 addresses");
    atoll_network_target_print(t, text, sizeof(text));
    /* The service wants ranges: an address is one of its own. */
    if (atoll_buf_appendf(to, "%s%s%s", atoll_buf_size(to) > 0 ? "," : "", text,
                          t->domain || t->bits < 128 ? "" : "/32") < 0)
        return refuse(err, "it has too many rules");
    return 0;
}

static int put(json_t *body, const struct atoll_network_policy *policy, struct atoll_error *err)
{
    struct atoll_buf addresses, domains;
    int r = check(policy, err);

    atoll_buf_init(&addresses, LIST_MAX);
    atoll_buf_init(&domains, LIST_MAX);
    for (size_t i = 0; r == 0 && i < policy->rule_count; i++)
        r = add_rule(&addresses, &domains, &policy->rules[i], err);
    if (r == 0 && !policy->otherwise_allow && policy->rule_count == 0)
        (void)json_object_set_new(body, "networkBlockAll", json_true());
    if (r == 0 && atoll_buf_size(&addresses) > 0)
        (void)json_object_set_new(body, "networkAllowList", json_string(atoll_buf_str(&addresses)));
    if (r == 0 && atoll_buf_size(&domains) > 0)
        (void)json_object_set_new(body, "domainAllowList", json_string(atoll_buf_str(&domains)));
    atoll_buf_done(&addresses);
    atoll_buf_done(&domains);
    return r;
}

int atoll_daytona_network(const char *policy_json, json_t *body, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = policy_json ? json_loads(policy_json, 0, NULL) : NULL;
    struct atoll_network_policy *policy = NULL;
    int r;

    if (policy_json && !json)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the policy is not JSON");
    r = atoll_network_policy_parse(json, &policy, err);
    if (r == 0)
        r = put(body, policy, err);
    (void)atoll_network_policy_free(policy);
    return r;
}
