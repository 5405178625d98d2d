/*
 * Policies and targets of the network. The input is "TARGET NUL JSON": a text that may be a target, and a
 * policy. What is accepted has a canonical form that is read back as the same, and every decision about
 * it is made.
 */
#include <jansson.h>
#include <string.h>
#include "fuzz.h"
#include "network/policy.h"

static void check_target(const char *text)
{
    char one[ATOLL_NETWORK_TARGET_TEXT], two[ATOLL_NETWORK_TARGET_TEXT];
    struct atoll_network_target t;

    if (atoll_network_target_parse(text, &t, NULL) < 0)
        return;
    atoll_network_target_print(&t, one, sizeof(one));
    FUZZ_CHECK(strlen(one) < sizeof(one) - 1);
    atoll_network_target_done(&t);
    FUZZ_CHECK(atoll_network_target_parse(one, &t, NULL) == 0);
    atoll_network_target_print(&t, two, sizeof(two));
    FUZZ_CHECK(strcmp(one, two) == 0);
    atoll_network_target_done(&t);
}

/* If a name can change nothing, no name does. */
static void check_decisions(const struct atoll_network_policy *policy, const char *name,
                            const struct in6_addr *address)
{
    const uint16_t ports[] = {1, 53, 443, 65535};
    struct atoll_network_query q = {.name = name};

    (void)atoll_network_decide(policy, NULL, &q, false);
    (void)atoll_network_find_transform(policy, name);
    q.address = address;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(ports); i++) {
        struct atoll_network_decision with, without;
        q.port = ports[i];
        q.name = name;
        with = atoll_network_decide(policy, NULL, &q, false);
        q.name = NULL;
        without = atoll_network_decide(policy, NULL, &q, false);
        FUZZ_CHECK(with.allow == without.allow ||
                   atoll_network_needs_name(policy, NULL, address, q.port, false));
        FUZZ_CHECK(!with.allow || !atoll_network_is_internal(address));
        FUZZ_CHECK(with.reason != ATOLL_NETWORK_BY_RULE || with.rule < policy->rule_count);
    }
}

static bool header_at(const void *arg, size_t i, const char **ret_name, const char **ret_value)
{
    *ret_name = *ret_value = arg;
    return i == 0;
}

/* The text of the input is the target of a request, and a header of it. */
static void check_requests(const struct atoll_network_policy *policy, const char *text)
{
    const struct atoll_network_message message = {"GET", text, header_at, text};

    for (size_t i = 0; i < policy->transform_count; i++) {
        const char *name = policy->transforms[i].target.domain;
        const struct atoll_network_transform *t =
            atoll_network_transform_of(policy, name, &message);
        if (!policy->transforms[i].match && !policy->transforms[i].target.subdomains)
            FUZZ_CHECK(t);
    }
}

static void check_policy(const json_t *json, const char *name, const struct in6_addr *address)
{
    struct atoll_network_policy *policy, *again;
    json_t *one, *two;

    if (atoll_network_policy_parse(json, &policy, NULL) < 0)
        return;
    one = atoll_network_policy_json(policy);
    FUZZ_CHECK(atoll_network_policy_parse(one, &again, NULL) == 0);
    two = atoll_network_policy_json(again);
    FUZZ_CHECK(json_equal(one, two));
    check_decisions(policy, name, address);
    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].target.domain)
            check_decisions(policy, policy->rules[i].target.domain, address);
        else
            check_decisions(policy, name, &policy->rules[i].target.address);
    check_requests(policy, name);
    json_decref(one);
    json_decref(two);
    atoll_network_policy_free(policy);
    atoll_network_policy_free(again);
}

static void check_bound(const json_t *json)
{
    struct atoll_network_bound *bound, *again;
    json_t *one, *two;

    if (atoll_network_bound_parse(json, &bound, NULL) < 0)
        return;
    one = atoll_network_bound_json(bound);
    FUZZ_CHECK(atoll_network_bound_parse(one, &again, NULL) == 0);
    two = atoll_network_bound_json(again);
    FUZZ_CHECK(json_equal(one, two));
    json_decref(one);
    json_decref(two);
    atoll_network_bound_free(bound);
    atoll_network_bound_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct in6_addr address = {0};
    char *text;
    size_t n;
    json_t *json;

    if (size > 64 * 1024)
        return 0;
    /* On the heap, so that a step too far is noticed. */
    text = strndup((const char *)data, size);
    FUZZ_CHECK(text);
    n = strlen(text);
    check_target(text);
    memcpy(address.s6_addr, data, ATOLL_MIN(size, sizeof(address.s6_addr)));
    if (n + 1 < size && (json = json_loadb((const char *)data + n + 1, size - n - 1, 0, NULL))) {
        check_policy(json, text, &address);
        check_bound(json);
        json_decref(json);
    }
    free(text);
    return 0;
}
