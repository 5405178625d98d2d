/*
 * A network policy in Vercel's terms: allowed domains, with rules for their requests, and subnets that are
 * allowed or denied. Denied subnets are asked first, and the rest is denied, unless "*" is allowed. What
 * these terms cannot express is refused: a sandbox never reaches more than its policy allows.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "network/policy.h"
#include "provider/vercel/messages.h"

#define TEXT_MAX (ATOLL_NETWORK_TARGET_TEXT + 4)

static int refuse(struct atoll_error *err, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                      "vercel cannot enforce this network policy: %s", what);
}

static int check_target(const struct atoll_network_rule *rule, struct atoll_error *err)
{
    const struct atoll_network_target *t = &rule->target;

    if (t->any)
        return refuse(err, "it has a rule for everything");
    if (t->port_first != 0)
        return refuse(err, "it has rules for ports");
    if (t->domain && !rule->allow)
        return refuse(err, "it denies a domain");
    if (!t->domain && (t->bits < 96 || !IN6_IS_ADDR_V4MAPPED(&t->address)))
        return refuse(err, "it has rules for IPv6 addresses");
    return 0;
}

/* Denied subnets are asked first there: a rule that allows must not precede one that denies. */
static int check(const struct atoll_network_policy *policy, struct atoll_error *err)
{
    bool allows = false;
    int r = 0;

    if (*policy->network)
        return refuse(err, "it names an isolated network");
    if (policy->mbps != 0)
        return refuse(err, "it limits the bandwidth");
    if (policy->proxy_address)
        return refuse(err, "it has a proxy");
    for (size_t i = 0; r == 0 && i < policy->rule_count; i++) {
        r = check_target(&policy->rules[i], err);
        if (r == 0 && !policy->rules[i].allow && allows)
            r = refuse(err, "a rule that denies follows one that allows");
        allows |= policy->rules[i].allow;
    }
    return r;
}

/* One text for a target: how the service names it. */
static void print(const struct atoll_network_target *t, char text[TEXT_MAX])
{
    size_t n;

    atoll_network_target_print(t, text, ATOLL_NETWORK_TARGET_TEXT);
    n = strlen(text);
    /* The service wants ranges: an address is one of its own. */
    if (!t->domain && t->bits == 128)
        (void)snprintf(text + n, TEXT_MAX - n, "/32");
}

static void put_rules(const struct atoll_network_policy *policy, json_t *domains, json_t *allowed,
                      json_t *denied)
{
    char text[TEXT_MAX];

    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct atoll_network_rule *rule = &policy->rules[i];

        print(&rule->target, text);
        if (rule->target.domain)
            (void)json_object_set_new(domains, text, json_array());
        else
            (void)json_array_append_new(rule->allow ? allowed : denied, json_string(text));
    }
    if (policy->otherwise_allow)
        (void)json_object_set_new(domains, "*", json_array());
}

/* A rule there changes headers, or forwards, or answers: the first one that matches a request does. */
static int check_transform(const struct atoll_network_transform *t, struct atoll_error *err)
{
    bool has_body = t->body && t->body[0];

    if (t->target.port_first != 0)
        return refuse(err, "a transform is for a port");
    if (t->header_count > 0 && (t->forward || t->status != 0))
        return refuse(err, "a transform that forwards or answers also sets headers");
    if (t->forward && (strncmp(t->forward, "https://", 8) != 0 || strpbrk(t->forward, "?#")))
        return refuse(err, "a transform forwards to a URL without https, or with a query");
    if (has_body && (t->status == 204 || t->status == 205 || t->status == 304))
        return refuse(err, "a transform has a body and a status that has none");
    for (size_t k = 0; k < t->header_count; k++)
        if (strstr(t->headers[k].value, "${"))
            return refuse(err, "a header has a secret, which stays on this host");
    return 0;
}

/* The transform's domain covers another one of the policy, whose own rules might count instead. */
static bool is_overlapped(const struct atoll_network_target *t, const json_t *domains)
{
    const char *name;
    json_t *rules;
    size_t n = strlen(t->domain), len;

    json_object_foreach((json_t *)domains, name, rules)
    {
        len = strlen(name);
        if (t->subdomains && len > n + 1 && name[len - n - 1] == '.' &&
            strcmp(name + len - n, t->domain) == 0 && (name[0] != '*' || len > n + 2))
            return true;
    }
    return false;
}

static json_t *headers_json(const struct atoll_network_header *list, size_t count)
{
    json_t *headers = json_object();

    for (size_t i = 0; i < count; i++)
        (void)json_object_set_new(headers, list[i].name, json_string(list[i].value));
    return headers;
}

static bool has_type(const struct atoll_network_transform *t)
{
    for (size_t i = 0; i < t->answer_header_count; i++)
        if (strcasecmp(t->answer_headers[i].name, "content-type") == 0)
            return true;
    return false;
}

static json_t *response_json(const struct atoll_network_transform *t)
{
    bool has_body = t->body && t->body[0];
    json_t *headers =
        t->answer_header_count ? headers_json(t->answer_headers, t->answer_header_count) : NULL;

    return json_pack("{s:i, s:o*, s:s*, s:s*}", "statusCode", (int)t->status, "headers", headers,
                     "body", has_body ? t->body : NULL, "contentType",
                     has_body && !has_type(t) ? "text/plain; charset=utf-8" : NULL);
}

static json_t *transform_json(const struct atoll_network_transform *t)
{
    if (t->forward)
        return json_pack("{s:O*, s:s}", "match", t->match, "forwardURL", t->forward);
    if (t->status != 0)
        return json_pack("{s:O*, s:o}", "match", t->match, "response", response_json(t));
    return json_pack("{s:O*, s:[{s:o}]}", "match", t->match, "transform", "headers",
                     headers_json(t->headers, t->header_count));
}

static int put_transforms(const struct atoll_network_policy *policy, json_t *domains,
                          struct atoll_error *err)
{
    char text[TEXT_MAX];

    for (size_t i = 0; i < policy->transform_count; i++) {
        const struct atoll_network_transform *t = &policy->transforms[i];

        if (check_transform(t, err) < 0)
            return -EOPNOTSUPP;
        print(&t->target, text);
        /* A transform would allow its domain there. */
        if (!json_object_get(domains, text) && !policy->otherwise_allow)
            return refuse(err, "a transform is for a domain that no rule allows by that name");
        if (!json_object_get(domains, text))
            (void)json_object_set_new(domains, text, json_array());
        (void)json_array_append_new(json_object_get(domains, text), transform_json(t));
    }
    for (size_t i = 0; i < policy->transform_count; i++)
        if (is_overlapped(&policy->transforms[i].target, domains))
            return refuse(err, "a transform is for names below a domain, and rules or transforms "
                               "are for some of them");
    return 0;
}

static int translate(const struct atoll_network_policy *policy, json_t **ret,
                     struct atoll_error *err)
{
    json_t *domains, *allowed, *denied;
    int r = check(policy, err);

    *ret = NULL;
    if (r < 0 || (policy->otherwise_allow && policy->rule_count + policy->transform_count == 0))
        return r;
    if (policy->rule_count + policy->transform_count == 0) {
        *ret = json_pack("{s:s}", "mode", "deny-all");
        return 0;
    }
    domains = json_object();
    allowed = json_array();
    denied = json_array();
    put_rules(policy, domains, allowed, denied);
    r = put_transforms(policy, domains, err);
    if (r == 0)
        *ret = json_pack("{s:O, s:{s:O, s:O}}", "allow", domains, "subnets", "allow", allowed,
                         "deny", denied);
    json_decref(domains);
    json_decref(allowed);
    json_decref(denied);
    return r;
}

int atoll_vercel_network(const char *policy_json, json_t **ret, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOJSON json_t *json = policy_json ? json_loads(policy_json, 0, NULL) : NULL;
    struct atoll_network_policy *policy = NULL;
    int r;

    if (policy_json && !json)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "the policy is not JSON");
    r = atoll_network_policy_parse(json, &policy, err);
    if (r == 0)
        r = translate(policy, ret, err);
    (void)atoll_network_policy_free(policy);
    return r;
}
