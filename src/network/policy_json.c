/* Policies as JSON. The canonical form has one order of fields and one text for each target. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "network/policy_internal.h"

#define MBPS_MAX 1000000
#define ADDRESS_MAX 255
#define LOGIN_MAX 255 /* RFC 1929 */

static int check_array(const json_t *list, const char *name, size_t max, struct atoll_error *err)
{
    char what[64];

    if (!list || json_is_null(list))
        return 0;
    (void)snprintf(what, sizeof(what), "an array of at most %zu entries", max);
    if (!json_is_array(list) || json_array_size(list) > max)
        return atoll_network_refuse(err, name, what);
    return 0;
}

/* parse_rules() made room for it. */
static int add_rule(struct atoll_network_policy *p, bool allow, const json_t *target,
                    const char *where, struct atoll_error *err)
{
    struct atoll_network_rule *rule = &p->rules[p->rule_count];

    rule->allow = allow;
    if (atoll_network_target_field(target, where, &rule->target, err) < 0)
        return -EINVAL;
    p->rule_count++;
    return 0;
}

static int parse_list(const json_t *list, const char *name, bool allow,
                      struct atoll_network_policy *p, struct atoll_error *err)
{
    char where[64];

    for (size_t i = 0; i < json_array_size(list); i++) {
        (void)snprintf(where, sizeof(where), "%s[%zu]", name, i);
        if (add_rule(p, allow, json_array_get(list, i), where, err) < 0)
            return -EINVAL;
    }
    return 0;
}

static int parse_ordered(const json_t *list, struct atoll_network_policy *p,
                         struct atoll_error *err)
{
    static const char *const known[] = {"allow", "deny", NULL};
    char where[64];

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *rule = json_array_get(list, i);
        const json_t *allow = json_object_get(rule, "allow");
        (void)snprintf(where, sizeof(where), "rules[%zu]", i);
        if (atoll_network_known_fields(rule, where, known, err) < 0)
            return -EINVAL;
        if (json_object_size(rule) != 1)
            return atoll_network_refuse(err, where,
                                        "an object with allow or deny; for example "
                                        "{\"allow\": \"*.example.org\"}");
        if (add_rule(p, allow != NULL, allow ? allow : json_object_get(rule, "deny"), where, err) <
            0)
            return -EINVAL;
    }
    return 0;
}

static int parse_rules(const json_t *json, struct atoll_network_policy *p, struct atoll_error *err)
{
    const json_t *rules = json_object_get(json, "rules");
    const json_t *allow = json_object_get(json, "allow"), *deny = json_object_get(json, "deny");
    size_t count = json_array_size(rules) + json_array_size(allow) + json_array_size(deny);

    if (check_array(rules, "rules", ATOLL_NETWORK_RULES_MAX, err) < 0 ||
        check_array(allow, "allow", ATOLL_NETWORK_RULES_MAX, err) < 0 ||
        check_array(deny, "deny", ATOLL_NETWORK_RULES_MAX, err) < 0)
        return -EINVAL;
    if (json_array_size(rules) > 0 && count > json_array_size(rules))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network has either rules, which are tried in order, or allow and deny");
    if (count > ATOLL_NETWORK_RULES_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network.allow and network.deny have more than %d entries",
                          ATOLL_NETWORK_RULES_MAX);
    p->otherwise_allow = json_array_size(allow) == 0;
    if (count == 0)
        return 0;
    p->rules = calloc(count, sizeof(*p->rules));
    if (!p->rules)
        return atoll_network_no_memory(err);
    if (parse_ordered(rules, p, err) < 0 || parse_list(deny, "deny", false, p, err) < 0)
        return -EINVAL;
    return parse_list(allow, "allow", true, p, err);
}

static int parse_default(const json_t *value, struct atoll_network_policy *p,
                         struct atoll_error *err)
{
    const char *text = json_string_value(value);

    if (!value || json_is_null(value))
        return 0;
    if (!text || (strcmp(text, "allow") != 0 && strcmp(text, "deny") != 0))
        return atoll_network_refuse(err, "default", "\"allow\" or \"deny\"");
    p->otherwise_allow = strcmp(text, "allow") == 0;
    return 0;
}

static int parse_transforms(const json_t *list, struct atoll_network_policy *p,
                            struct atoll_error *err)
{
    char where[64];

    if (check_array(list, "transforms", ATOLL_NETWORK_TRANSFORMS_MAX, err) < 0)
        return -EINVAL;
    if (json_array_size(list) == 0)
        return 0;
    p->transforms = calloc(json_array_size(list), sizeof(*p->transforms));
    if (!p->transforms)
        return atoll_network_no_memory(err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        (void)snprintf(where, sizeof(where), "transforms[%zu]", i);
        p->transform_count++;
        if (atoll_network_transform_parse(json_array_get(list, i), where, &p->transforms[i], err) <
            0)
            return -EINVAL;
    }
    return 0;
}

static int parse_network(const json_t *json, struct atoll_network_policy *p,
                         struct atoll_error *err)
{
    const char *field = json_object_get(json, "network") ? "network" : "name";
    const json_t *value = json_object_get(json, field);
    const char *text = json_string_value(value);

    if (!value || json_is_null(value))
        return 0;
    if (!text || (*text && !atoll_text_is_name(text)))
        return atoll_network_refuse(err, field,
                                    "a name of letters, digits, '.', '_' and '-'; for example "
                                    "\"team1\"");
    return atoll_text_copy(p->network, sizeof(p->network), text);
}

static int parse_mbps(const json_t *value, struct atoll_network_policy *p, struct atoll_error *err)
{
    json_int_t number = json_integer_value(value);

    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || number < 0 || number > MBPS_MAX)
        return atoll_network_refuse(err, "mbps",
                                    "a whole number from 0 to " ATOLL_STRINGIFY(MBPS_MAX));
    p->mbps = (uint32_t)number;
    return 0;
}

/* HOST:PORT, with a host that is a name or an address. */
static bool is_host_port(const char *text)
{
    struct atoll_network_target t = {0};
    struct atoll_error ignored;
    bool ok;

    if (atoll_network_target_parse(text, &t, &ignored) < 0)
        return false;
    ok = t.port_first && t.port_first == t.port_last && !t.any && !t.subdomains &&
         (t.domain || t.bits == 128);
    atoll_network_target_done(&t);
    return ok;
}

static int parse_proxy(const json_t *proxy, struct atoll_network_policy *p, struct atoll_error *err)
{
    static const char *const known[] = {"address", "username", "password", NULL};

    if (!proxy || json_is_null(proxy))
        return 0;
    if (atoll_network_known_fields(proxy, "proxy", known, err) < 0 ||
        atoll_network_text_field(json_object_get(proxy, "address"), "proxy.address", ADDRESS_MAX,
                                 false, &p->proxy_address, err) < 0 ||
        atoll_network_text_field(json_object_get(proxy, "username"), "proxy.username", LOGIN_MAX,
                                 false, &p->proxy_user, err) < 0 ||
        atoll_network_text_field(json_object_get(proxy, "password"), "proxy.password", LOGIN_MAX,
                                 false, &p->proxy_password, err) < 0)
        return -EINVAL;
    if (!p->proxy_address || !is_host_port(p->proxy_address))
        return atoll_network_refuse(err, "proxy.address",
                                    "HOST:PORT of a SOCKS5 proxy; for example "
                                    "\"proxy.example.org:1080\"");
    if (p->proxy_password && !p->proxy_user)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network.proxy.password needs a username");
    return 0;
}

static int check_size(const struct atoll_network_policy *p, struct atoll_error *err)
{
    json_t *json = atoll_network_policy_json(p);
    size_t n = json_dumpb(json, NULL, 0, JSON_COMPACT);

    json_decref(json);
    if (n > ATOLL_NETWORK_JSON_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "network is too large: its rules and transforms have more than %d KiB",
                          ATOLL_NETWORK_JSON_MAX / 1024);
    return 0;
}

static int parse_fields(const json_t *json, struct atoll_network_policy *p, struct atoll_error *err)
{
    static const char *const known[] = {"mode",    "name",  "allow",      "deny",
                                        "default", "rules", "transforms", "network",
                                        "mbps",    "proxy", NULL};

    if (atoll_network_known_fields(json, "", known, err) < 0 || parse_rules(json, p, err) < 0 ||
        parse_default(json_object_get(json, "default"), p, err) < 0 ||
        parse_transforms(json_object_get(json, "transforms"), p, err) < 0 ||
        parse_network(json, p, err) < 0 || parse_mbps(json_object_get(json, "mbps"), p, err) < 0 ||
        parse_proxy(json_object_get(json, "proxy"), p, err) < 0)
        return -EINVAL;
    return check_size(p, err);
}

int atoll_network_policy_parse(const json_t *json, struct atoll_network_policy **ret,
                               struct atoll_error *err)
{
    struct atoll_network_policy *p = calloc(1, sizeof(*p));

    if (!p)
        return atoll_network_no_memory(err);
    p->otherwise_allow = true;
    if (json && !json_is_null(json) && parse_fields(json, p, err) < 0) {
        atoll_network_policy_free(p);
        return -EINVAL;
    }
    *ret = p;
    return 0;
}

static json_t *proxy_json(const struct atoll_network_policy *policy)
{
    json_t *json = json_object();

    (void)json_object_set_new(json, "address", json_string(policy->proxy_address));
    if (policy->proxy_user)
        (void)json_object_set_new(json, "username", json_string(policy->proxy_user));
    if (policy->proxy_password)
        (void)json_object_set_new(json, "password", json_string(policy->proxy_password));
    return json;
}

static json_t *rules_json(const struct atoll_network_policy *policy)
{
    char target[ATOLL_NETWORK_TARGET_TEXT];
    json_t *list = json_array();

    for (size_t i = 0; i < policy->rule_count; i++) {
        json_t *rule = json_object();
        atoll_network_target_print(&policy->rules[i].target, target, sizeof(target));
        (void)json_object_set_new(rule, policy->rules[i].allow ? "allow" : "deny",
                                  json_string(target));
        (void)json_array_append_new(list, rule);
    }
    return list;
}

json_t *atoll_network_policy_json(const struct atoll_network_policy *policy)
{
    json_t *json = json_object(), *transforms = json_array();

    (void)json_object_set_new(json, "default",
                              json_string(policy->otherwise_allow ? "allow" : "deny"));
    (void)json_object_set_new(json, "rules", rules_json(policy));
    for (size_t i = 0; i < policy->transform_count; i++)
        (void)json_array_append_new(transforms,
                                    atoll_network_transform_json(&policy->transforms[i]));
    (void)json_object_set_new(json, "transforms", transforms);
    if (*policy->network)
        (void)json_object_set_new(json, "network", json_string(policy->network));
    if (policy->mbps)
        (void)json_object_set_new(json, "mbps", json_integer(policy->mbps));
    if (policy->proxy_address)
        (void)json_object_set_new(json, "proxy", proxy_json(policy));
    return json;
}

struct atoll_network_policy *atoll_network_policy_free(struct atoll_network_policy *policy)
{
    if (!policy)
        return NULL;
    for (size_t i = 0; i < policy->rule_count; i++)
        atoll_network_target_done(&policy->rules[i].target);
    for (size_t i = 0; i < policy->transform_count; i++)
        atoll_network_transform_done(&policy->transforms[i]);
    free(policy->rules);
    free(policy->transforms);
    free(policy->proxy_address);
    free(policy->proxy_user);
    free(policy->proxy_password);
    free(policy);
    return NULL;
}
