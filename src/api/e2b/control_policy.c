/*
 * From network settings of E2B to a policy: allowOut goes first, then denyOut, and the rest is allowed
 * unless allow_internet_access is false.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/e2b_internal.h"
#include "engine/json_memory.h"
#include "engine/network/request.h"

#define ALL_TRAFFIC "0.0.0.0/0" /* stands for IPv6, too */
#define PROXY_SCHEME "socks5://"

static void add_rule(json_t *rules, const char *kind, const char *target)
{
    (void)json_array_append_new(rules, json_pack("{s:s}", kind, target));
}

static json_t *rules_of(const json_t *network, bool denied)
{
    const json_t *allow = json_object_get(network, "allowOut");
    const json_t *deny = json_object_get(network, "denyOut");
    json_t *rules = json_array();

    for (size_t i = 0; i < json_array_size(allow); i++) {
        const char *target = json_string_value(json_array_get(allow, i));
        add_rule(rules, "allow", strcmp(target, ALL_TRAFFIC) == 0 ? "*" : target);
    }
    for (size_t i = 0; i < json_array_size(deny); i++) {
        const char *target = json_string_value(json_array_get(deny, i));
        add_rule(rules, "deny", strcmp(target, ALL_TRAFFIC) == 0 ? "*" : target);
    }
    if (denied)
        add_rule(rules, "deny", "*");
    return rules;
}

static json_t *transforms_of(const json_t *network)
{
    json_t *rules = json_object_get(network, "rules"), *list = json_array(), *rule;
    const char *domain;

    json_object_foreach(rules, domain, rule)
    {
        const json_t *transform = json_object_get(json_array_get(rule, 0), "transform");
        json_t *headers = json_object_get(transform, "headers");
        if (json_object_size(headers) > 0)
            (void)json_array_append_new(
                list, json_pack("{s:s,s:O}", "domain", domain, "headers", headers));
    }
    return list;
}

static json_t *proxy_of(const json_t *proxy)
{
    static const char *const logins[] = {"username", "password"};
    const char *address = json_string_value(json_object_get(proxy, "address"));
    json_t *kept, *value;

    if (!address)
        return NULL;
    if (strncmp(address, PROXY_SCHEME, strlen(PROXY_SCHEME)) == 0)
        address += strlen(PROXY_SCHEME);
    kept = json_pack("{s:s}", "address", address);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(logins); i++)
        if ((value = json_object_get(proxy, logins[i])) && json_string_length(value) > 0)
            (void)json_object_set(kept, logins[i], value);
    return kept;
}

/* What these settings cannot contain stays. */
static void take_over(json_t *policy, const char *old)
{
    static const char *const fields[] = {"network", "mbps"};
    json_t *from = atoll_json_load_own(old), *value;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(fields); i++)
        if ((value = json_object_get(from, fields[i])))
            (void)json_object_set(policy, fields[i], value);
    json_decref(from);
}

int atoll_e2b_network_policy(const json_t *network, bool denied, const char *old, char **ret,
                             struct atoll_error *err)
{
    json_t *policy =
        json_pack("{s:s,s:s,s:o,s:o,s:o*}", "mode", "bridge", "default", "allow", "rules",
                  rules_of(network, denied), "transforms", transforms_of(network), "proxy",
                  proxy_of(json_object_get(network, "egressProxy")));
    const struct atoll_network_request request = {.network = policy};
    enum atoll_network mode;
    int r;

    take_over(policy, old);
    r = policy ? atoll_network_request_check(&request, &mode, ret, err)
               : atoll_fields_no_memory(err);

    json_decref(policy);
    return r;
}
